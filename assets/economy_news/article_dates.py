"""Where an article's page says when it appeared and when it was changed."""

import json
import re
from collections import deque
from collections.abc import Iterator
from datetime import datetime

from assets.economy_news.korean_dates import parse_timestamp, parse_written_time
from assets.economy_news.page_text import UNSEEN_TAGS, Element, by_class, rendered_text, tidy_line

_PUBLISHED = by_class("_ARTICLE_DATE_TIME")
_MODIFIED = by_class("_ARTICLE_MODIFY_DATE_TIME")
_SHOWN = by_class("_ARTICLE_DATE_TIME", "media_end_head_info_datestamp_time", "t11")
_LABEL = re.compile(r"(?:입력|등록)[ :]{0,3}(?=[0-9]{4}[.\-/])")
_LONGEST_WRITTEN_TIME = 40
_MOST_SHOWN = 10  # elements inside each other must not cost more than the page itself


def published_at(root: Element, meta: dict[str, str]) -> datetime | None:
    """When the article appeared, in Asia/Seoul: from the head, the date's element, JSON-LD, or the text.

    A source that holds no time is passed over for the next one.
    """
    sources = (parse_timestamp(text) for text in _machine_readable(root, meta))
    return next(filter(None, sources), None) or _shown(root)


def modified_at(root: Element) -> datetime | None:
    """When the article was last changed, in Asia/Seoul; None on most pages."""
    attributes = (element.get("data-modify-date-time", "") for element in _MODIFIED(root))
    return next(filter(None, map(parse_timestamp, attributes)), None)


def _machine_readable(root: Element, meta: dict[str, str]) -> Iterator[str]:
    yield meta.get("article:published_time", "")
    for element in _PUBLISHED(root):
        yield element.get("data-date-time", "")
    for script in root.iter("script"):
        if script.get("type", "").strip().lower().startswith("application/ld+json"):
            yield from _values_of_json("datePublished", script.text or "")


def _values_of_json(key: str, text: str) -> Iterator[str]:
    """The strings under a key, those of outer objects first; none where the text is not JSON."""
    try:
        waiting = deque([json.loads(text, strict=False)])
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.popleft()
        if isinstance(value, dict):
            if isinstance(value.get(key), str):
                yield value[key]
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _shown(root: Element) -> datetime | None:
    changed = set(_MODIFIED(root))
    shown = (rendered_text(element) for element in _SHOWN(root)[:_MOST_SHOWN] if element not in changed)
    times = (parse_written_time(tidy_line(text)) for text in shown)
    return next(filter(None, times), None) or _labelled(root)


def _labelled(root: Element) -> datetime | None:
    """The first time after a label, wherever it stands. Reads the whole page, so it comes last."""
    text = tidy_line(rendered_text(root, skipped_tags=UNSEEN_TAGS | {"a"}))
    starts = (match.end() for match in _LABEL.finditer(text))
    times = (parse_written_time(text[start : start + _LONGEST_WRITTEN_TIME]) for start in starts)
    return next(filter(None, times), None)
