"""From the bytes of a front page to its text, whatever the page says about its encoding."""

import codecs
import re

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_HEAD_BYTES = 4_096
_SAMPLE_BYTES = 100_000

# Labels as pages use them → Python's codecs; as in browsers, a label means the superset that is in use.
_CODECS = {
    **dict.fromkeys(("utf-8", "utf8", "unicode-1-1-utf-8"), "utf-8"),
    **dict.fromkeys(("euc-kr", "euckr", "euc_kr", "korean", "ksc5601", "ks-c-5601"), "cp949"),
    **dict.fromkeys(("ks_c_5601-1987", "ks_c_5601-1989", "cp949", "uhc", "ms949"), "cp949"),
    **dict.fromkeys(("windows-949", "x-windows-949"), "cp949"),
    **dict.fromkeys(
        ("shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji", "windows-31j", "cp932", "ms932"), "cp932"
    ),
    **dict.fromkeys(("euc-jp", "x-euc-jp", "eucjp"), "euc_jp"),
    "iso-2022-jp": "iso2022_jp",
    **dict.fromkeys(("gb2312", "gbk", "gb18030", "x-gbk"), "gb18030"),
    **dict.fromkeys(("big5", "big5-hkscs", "x-x-big5"), "big5hkscs"),
    "utf-16": "utf-16-le",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    **dict.fromkeys(
        ("iso-8859-1", "iso8859-1", "latin1", "us-ascii", "ascii", "windows-1252", "cp1252"), "cp1252"
    ),
    **{f"windows-125{n}": f"cp125{n}" for n in (0, 1, 3, 4, 5, 6, 7, 8)},
    **{f"iso-8859-{n}": f"iso8859_{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)},
    "koi8-r": "koi8_r",
    "koi8-u": "koi8_u",
}
# Any bytes are text in these, so that they prove nothing: servers name them for all they send.
_ONE_BYTE = re.compile(r"cp125|iso8859|koi8")

_KOREAN_PAIRS = re.compile(rb"[\xb0-\xc8][\xa1-\xfe]")  # the 2,350 syllables of KS X 1001
_JAPANESE_PAIRS = re.compile(rb"\x82[\x9f-\xf1]|\x83[\x40-\x96]")  # the kana of Shift_JIS


def decode_page(body: bytes, charset: str | None) -> str:
    """The text of a page. `charset` is what the HTTP header names.

    In this order: byte order mark, header, meta, UTF-8, and of cp949 and Shift_JIS the likelier. What is
    declared counts only if the bytes fit it; where nothing fits, the reading with the fewest unreadable
    characters is taken, these as U+FFFD. A last character cut in half counts against nothing.
    """
    for mark, codec in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    candidates = _candidates(body, charset)
    for codec in candidates:
        try:
            return codecs.getincrementaldecoder(codec)().decode(body)
        except UnicodeDecodeError:
            continue
    readings = [body.decode(codec, "replace") for codec in candidates]
    return min(readings, key=lambda text: text.count("\ufffd"))


def _candidates(body: bytes, charset: str | None) -> list[str]:
    meta = _META_CHARSET.search(body[:_HEAD_BYTES])
    declared = [_codec(charset or ""), _codec(meta[1].decode("ascii", "replace") if meta else "")]
    if declared[1].startswith("utf-16"):
        declared[1] = "utf-8"  # a meta that was found among ASCII is not written in UTF-16
    proving = [codec for codec in declared if codec and not _ONE_BYTE.match(codec)]
    proving_nothing = [codec for codec in declared if _ONE_BYTE.match(codec)]
    return list(dict.fromkeys([*proving, "utf-8", *(proving_nothing or _east_asian(body))]))


def _codec(label: str) -> str:
    return _CODECS.get(label.strip().lower(), "")


def _east_asian(body: bytes) -> list[str]:
    """cp949 and Shift_JIS, the likelier first: most bytes of the one are also text in the other."""
    sample = body[:_SAMPLE_BYTES]
    korean, japanese = (len(pairs.findall(sample)) for pairs in (_KOREAN_PAIRS, _JAPANESE_PAIRS))
    return ["cp932", "cp949"] if japanese > korean else ["cp949", "cp932"]
