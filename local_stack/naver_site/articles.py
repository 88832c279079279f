"""What an article of the site is: its fields, kinds and sections, independent of how a page shows it."""

import hashlib
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

SEOUL = ZoneInfo("Asia/Seoul")
CANONICAL_BASE = "https://n.news.naver.com"

# Section key -> (sid2, Korean name), in crawl order.
SECTIONS: dict[str, tuple[int, str]] = {
    "FINANCE": (259, "금융"),
    "STOCK": (258, "증권"),
    "INDUSTRY": (261, "산업/재계"),
    "VENTURE": (771, "중기/벤처"),
    "REALESTATE": (260, "부동산"),
    "WORLD": (262, "세계(글로벌) 경제"),
    "LIVING": (310, "생활경제"),
    "GENERAL": (263, "경제 일반"),
}
SECTION_OF_SID2 = {str(sid2): key for key, (sid2, _) in SECTIONS.items()}


class Kind(StrEnum):
    """How an article's page differs from an ordinary one."""

    CURRENT = "current"
    SHORT = "short"
    ALL_BLOCKS = "all_blocks"
    OLD_END_LAYOUT = "old_end_layout"
    OLD_2020_LAYOUT = "old_2020_layout"
    CP949 = "cp949"
    NEAR_DUPLICATE = "near_duplicate"
    TWO_SECTIONS = "two_sections"
    GONE_404 = "gone_404"
    GONE_NOTICE = "gone_notice"
    MOVED_SPORTS = "moved_sports"
    UNREADABLE = "unreadable"
    NO_DATE = "no_date"
    DATE_IN_META = "date_in_meta"
    DATE_IN_JSON_LD = "date_in_json_ld"
    OG_TITLE_ONLY = "og_title_only"
    NFD_TITLE = "nfd_title"
    LONG_TITLE = "long_title"
    NO_REPORTER_NO_THUMBNAIL = "no_reporter_no_thumbnail"
    ORE_SPANS = "ore_spans"


_EXPECTED = {
    Kind.GONE_404: "gone",
    Kind.GONE_NOTICE: "gone",
    Kind.MOVED_SPORTS: "moved",
    Kind.UNREADABLE: "unreadable",
}


@dataclass(frozen=True)
class Article:
    """One article; `listed_at` places it in the lists, `published_at` is what its page says (None: nothing).

    `title` is as the page spells it (it may be NFD); `paragraphs` are clean text. Times are aware.
    """

    oid: str
    aid: str
    press: str
    sections: tuple[str, ...]
    kind: Kind
    title: str
    paragraphs: tuple[str, ...]
    listed_at: datetime
    published_at: datetime | None
    modified_at: datetime | None = None
    reporters: tuple[str, ...] = ()
    has_thumbnail: bool = True
    duplicate_group: str | None = None
    notice: str = "삭제된 기사입니다."

    @property
    def list_key(self) -> str:
        """Sorts the lists (newest first when reversed) and serves as their cursor; of fixed width."""
        return f"{self.listed_at.astimezone(SEOUL):%Y%m%d%H%M%S}{self.aid}{self.oid}"

    @property
    def expected(self) -> str:
        """What a right crawl makes of it: stored, gone, moved or unreadable."""
        return _EXPECTED.get(self.kind, "stored")

    @property
    def cleaned_body(self) -> str:
        """The text a right parser gives: NFC, paragraphs joined by one blank line."""
        return unicodedata.normalize("NFC", "\n\n".join(self.paragraphs))

    @property
    def fingerprint(self) -> bytes:
        """32 bytes fixed by the article's identity; the choices of its page's furniture are read from it."""
        return hashlib.sha256(f"{self.oid}/{self.aid}".encode()).digest()

    def thumbnail_url(self, base: str) -> str | None:
        if not self.has_thumbnail:
            return None
        folder = f"{self.listed_at.astimezone(SEOUL):%Y/%m/%d}"
        return f"{base}/image/{self.oid}/{folder}/{self.aid}_001.jpg?type=w800"

    def manifest_entry(self, base: str) -> dict[str, object]:
        """The answers a test compares a crawl with; texts and people are null where nothing is stored."""
        stored = self.expected == "stored"
        return {
            "oid": self.oid,
            "aid": self.aid,
            "url": f"{CANONICAL_BASE}/mnews/article/{self.oid}/{self.aid}",
            "sections": list(self.sections),
            "kind": self.kind.value,
            "expected": self.expected,
            "title": unicodedata.normalize("NFC", self.title),
            "press": self.press,
            "reporters": list(self.reporters) if stored else None,
            "thumbnail_url": self.thumbnail_url(base) if stored else None,
            "listed_at": self.listed_at.isoformat(),
            "published_at": self.published_at.isoformat() if stored and self.published_at else None,
            "modified_at": self.modified_at.isoformat() if stored and self.modified_at else None,
            "cleaned_body": self.cleaned_body if stored else None,
            "body_chars": len(self.cleaned_body) if stored else 0,
            "duplicate_group": self.duplicate_group,
        }
