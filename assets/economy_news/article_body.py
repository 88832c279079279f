"""The text of an article without what surrounds it on the page: captions, players, promotion, copyright."""

import re

from assets.economy_news.page_text import Element, rendered_text, tidy_lines

_SURROUNDINGS = frozenset(
    {
        "media_end_summary",
        "end_photo_org",
        "img_desc",
        "nbd_table",  # a photo and its caption, laid out as a table
        "vod_player_wrap",
        "_VOD_PLAYER_WRAP",
        "_VIDEO_AREA_WRAP",
        "ab_photo",
        "artical-btm",
    }
)

# All searches look at the ends of a line only: a line may be megabytes long.
_END = 200
_POINTERS = ("▶", "►", "▷", "☞")
_PROMOTION = re.compile(
    r"구독|바로\s?가기|더\s?보기|보러\s?가기|제보|뉴스레터|팔로우|채널|홈페이지|카카오톡|유튜브|텔레그램"
    r"|앱\s?다운|클릭|네이버에서|관련\s?(?:기사|영상)|https?://|www\."
)
_POLITE_END = re.compile(r"(?:니다|[요죠까])[.?!]?[\"'”’)\]]*$")
_PLAIN_END = re.compile(r"(?<!니)다\.[\"'”’)\]]*$")
_COPYRIGHT = re.compile(
    r"^\W*(?:ⓒ|©|\(c\)|copyrights?\b|저작권자\W*(?:ⓒ|©|\(c\)))"
    r"|(?:무단\s?(?:전재|복제|배포)|재배포|재판매).{0,40}금지\W*$"
    r"|all rights reserved\W*$",
    re.IGNORECASE,
)
_TRAILING_EMAIL = re.compile(
    r"[\s=·,/|]{0,10}([(\[<{]?)\s?[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}([)\]>}]?)[\s.,]{0,10}$",
    re.ASCII,
)
_MOST_EMAILS = 10


def clean_body(element: Element) -> str:
    """The article's paragraphs, one a line, in NFC; empty where nothing but surroundings was there.

    The 1,000-character rule counts this text.
    """
    lines = tidy_lines(rendered_text(element, skipped_classes=_SURROUNDINGS))
    return "\n".join(_without_tail([line for line in lines if not _is_promotion(line)]))


def _is_promotion(line: str) -> bool:
    """A "▶" line that wants the reader to go somewhere. Interviews mark answers the same way: those stay."""
    if not line.startswith(_POINTERS) or _PLAIN_END.search(line[-_END:]):
        return False
    return bool(_PROMOTION.search(line[:_END]))


def _is_pointer_at_the_end(line: str) -> bool:
    """A "▶" line below an article is a headline of another one, unless it is a sentence of this one."""
    end = line[-_END:]
    return line.startswith(_POINTERS) and not _PLAIN_END.search(end) and not _POLITE_END.search(end)


def _is_copyright(line: str) -> bool:
    return len(line) <= _END and bool(_COPYRIGHT.search(line))


def _without_tail(lines: list[str]) -> list[str]:
    kept = list(lines)
    emails = 0
    while kept:
        if _is_copyright(kept[-1]) or _is_pointer_at_the_end(kept[-1]):
            kept.pop()
            continue
        shorter = _without_email(kept[-1])
        if shorter == kept[-1] or emails == _MOST_EMAILS:
            break
        emails += 1
        kept[-1:] = [shorter] if shorter else []
    return kept


def _without_email(line: str) -> str:
    """The line without an e-mail address at its end, and without the brackets around it alone."""
    match = _TRAILING_EMAIL.search(line[-_END:])
    if match is None:
        return line
    before = line[: len(line) - len(match[0])]
    return (before + ("" if match[1] else match[2])).rstrip()
