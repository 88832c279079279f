"""Generated Content-Type headers of fetched pages: a page is read whatever its header says."""

import codecs

import httpcore
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.raw_files.page_encoding import decode_page
from resources.fetch_errors import FetchRefused
from resources.guarded_fetch import ANY_TYPE, HTML_TYPES, _content_type
from tests.bad_inputs import bad_inputs

KOREAN, JAPANESE = "한빛일보의 아침 소식을 전합니다", "あさのニュースをおつたえします"
LABELS = {
    "utf-8": ("utf-8", KOREAN),
    "UTF8": ("utf-8", KOREAN),
    "EUC-KR": ("euc-kr", KOREAN),
    "ks_c_5601-1987": ("cp949", "똠방각하 펲시콜라"),
    "Shift_JIS": ("shift_jis", JAPANESE),
    "EUC-JP": ("euc_jp", JAPANESE),
    "gb2312": ("gb18030", "早间新闻"),
    "Big5": ("big5", "早報新聞"),
    "windows-1251": ("cp1251", "Утренние новости"),
    "ISO-8859-1": ("cp1252", "Café – naïve"),
}

PIECES = st.lists(
    st.sampled_from(
        [
            *("text/html", "TEXT/HTML", "application/xhtml+xml", "image/png", "text/html ", "*/*", "/"),
            *(
                ";",
                ",",
                "=",
                '"',
                "'",
                " ",
                "\t",
                "charset",
                "CHARSET=",
                "charset = ",
                'charset="',
                "xcharset=",
            ),
            *("boundary=x", "q=0.9", "utf-8", "utf-7", "utf-16", "idna", "hex", "rot13", "zlib", "undefined"),
            *LABELS,
        ]
    )
    | st.text(max_size=8),
    max_size=10,
).map(lambda pieces: "".join(pieces).encode("utf-8", "replace"))
HEADERS = PIECES | st.binary(max_size=40) | PIECES.map(b"text/html; charset=".__add__)
BODIES = (
    st.sampled_from([text.encode(codec) for codec, text in LABELS.values()])
    | st.binary(max_size=60)
    | st.text(max_size=20).map(str.encode)
)


def read(header: bytes, accepted: frozenset[str] = HTML_TYPES) -> tuple[str, str | None]:
    answer = httpcore.Response(200, headers=[(b"Server", b"x"), (b"Content-Type", header)])
    return _content_type(answer, accepted)


@bad_inputs
@given(header=HEADERS, body=BODIES)
@example(header=b"text/html; charset=", body=b"\xff")
@example(header=b"text/html; charset=undefined", body=b"\xff")
@example(header=b"text/html; charset=\xea\xb0\x80", body=b"\xff")
@example(header=b"text/html; charset=" + b"x" * 100_000, body=b"\xff")
def test_any_header_is_a_type_and_a_charset_or_refused(header: bytes, body: bytes) -> None:
    kind, charset = read(header, ANY_TYPE)
    if kind in HTML_TYPES:
        assert read(header) == (kind, charset)
    else:
        with pytest.raises(FetchRefused, match=r"^the content type is .{0,400}$"):
            read(header)
    assert kind == kind.strip().lower() and ";" not in kind
    assert charset is None or (0 < len(charset) <= 40 and '"' not in charset)
    text = decode_page(body, charset)
    assert len(text) <= len(body)
    text.encode()  # holds no half of a character


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    "form", ["text/html; charset={}", 'Text/HTML;CHARSET="{}"', "text/html;x=y; charset = '{}' ;"]
)
def test_a_page_is_read_by_the_charset_of_its_header_however_it_is_written(label: str, form: str) -> None:
    codec, text = LABELS[label]
    kind, charset = read(form.format(label).encode())
    assert (kind, charset) == ("text/html", label)
    assert decode_page(text.encode(codec), charset) == text


# Codecs of Python that turn bytes into no text, or text into other text: none may be chosen by a stranger.
@pytest.mark.parametrize(
    "name", ["hex", "rot13", "zlib", "bz2", "idna", "punycode", "unicode_escape", "utf-7"]
)
def test_a_codec_that_is_no_charset_of_the_web_is_never_used(name: str) -> None:
    assert codecs.lookup(name)
    _, charset = read(f"text/html; charset={name}".encode())
    assert charset == name
    assert decode_page(b"+AGE-\\x61 \\u0061 xn--4k8h", charset) == "+AGE-\\x61 \\u0061 xn--4k8h"
