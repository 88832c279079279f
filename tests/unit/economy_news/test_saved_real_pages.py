"""Three pages of the real site, kept outside the project since their texts are the publishers'.

They lie beside the checkout, or where GRANARY_SAMPLES points; without them these tests skip.
"""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from assets.economy_news.article_page import parse_article_page
from assets.economy_news.korean_dates import SEOUL, parse_written_time
from assets.economy_news.list_page import parse_list_page

BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[4] / "shared" / "samples"
FOLDER = Path(os.environ.get("GRANARY_SAMPLES") or BESIDE_THE_CHECKOUT) / "naver"

pytestmark = pytest.mark.skipif(
    not (FOLDER / "expected.json").is_file(), reason=f"the saved real pages are not in {FOLDER}"
)


def expected(name: str) -> dict[str, Any]:
    pages: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    return pages[name]


def time_of(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=SEOUL) if text else None


@pytest.mark.parametrize("name", ["article_2024.html", "article_2020_old_layout.html"])
def test_a_real_article_has_its_expected_fields(name: str) -> None:
    page = expected(name)
    article = parse_article_page((FOLDER / name).read_bytes(), page["og_url"])
    assert (article.oid, article.aid, article.title) == (page["oid"], page["aid"], page["title"])
    published = time_of(page["published"]) or parse_written_time(page["published_text"][0])
    assert published is not None
    assert (article.published_at, article.modified_at) == (published, time_of(page["modified"]))
    assert (article.press, article.thumbnail_url) == (page["press"], page["og_image"])
    assert article.reporter == (", ".join(page["reporters"]) or None)
    lines = article.body.split("\n")
    assert (lines[0], lines[-1]) == (page["first_line"], page["last_line"])


@pytest.mark.parametrize("name", ["article_2024.html", "article_2020_old_layout.html"])
def test_a_real_body_has_its_expected_length(name: str) -> None:
    page = expected(name)
    article = parse_article_page((FOLDER / name).read_bytes(), page["og_url"])
    # An address in the saved text was replaced by one that is three characters longer.
    replaced = 3 if "reporter@example.com" in article.body else 0
    assert len(article.body) == page["body_stripped_chars"] + replaced


def test_the_old_page_was_published_in_the_evening() -> None:
    name = "article_2020_old_layout.html"
    article = parse_article_page((FOLDER / name).read_bytes(), expected(name)["og_url"])
    assert article.published_at == datetime(2020, 9, 19, 20, 28, tzinfo=SEOUL)


def test_a_real_list_gives_its_articles_in_order_and_no_headlines() -> None:
    page = expected("section_list_2026.html")
    listed = parse_list_page((FOLDER / "section_list_2026.html").read_bytes())
    assert [list(ids) for ids in listed.article_ids] == page["ids"]
    only_headlines = {tuple(ids) for ids in page["headline_ids_must_not_be_taken"]} - {
        tuple(ids) for ids in page["overlap"]
    }
    assert only_headlines.isdisjoint(listed.article_ids)
    assert (listed.next_cursor, listed.has_next) == (page["content_list_attrs"]["data-cursor"], True)
