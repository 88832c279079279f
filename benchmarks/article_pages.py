"""The pages that parsers are measured on, each with the paragraphs that a right parser gives.

The stand-in's own pages weigh 40 to 90 KB. They are padded to the weight of real ones with what those are
made of: lists of other articles, menus and inline scripts, about nine tags a KB.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path

from local_stack.naver_site.article_page import current_page
from local_stack.naver_site.articles import Article, Kind
from local_stack.naver_site.days import articles_of
from local_stack.processes import PROJECT

DAY = date(2026, 11, 25)
WEIGHTS_KB = (150, 225, 300)
SITE = "http://127.0.0.1"


@dataclass(frozen=True)
class SavedPage:
    """A page's bytes, its address, and its body's paragraphs."""

    html: bytes
    url: str
    paragraphs: tuple[str, ...]


def padded_pages(count: int) -> list[SavedPage]:
    """Pages of the stand-in, in turn of 150, 225 and 300 KB."""
    articles = [article for article in articles_of(DAY) if article.kind in (Kind.CURRENT, Kind.ALL_BLOCKS)]
    others = [article.title for article in articles]
    return [
        SavedPage(
            _padded(current_page(article, SITE), others, WEIGHTS_KB[number % len(WEIGHTS_KB)] * 1024),
            f"https://n.news.naver.com/mnews/article/{article.oid}/{article.aid}",
            _paragraphs(article),
        )
        for number, article in enumerate(articles[:count])
    ]


def real_pages() -> list[SavedPage]:
    """Saved articles of the real site, where they lie beside the checkout or where GRANARY_SAMPLES points.

    Their texts are the publishers', so they are no part of the project; without them the list is empty.
    Of their bodies the first and the last line are known.
    """
    folder = Path(os.environ.get("GRANARY_SAMPLES") or PROJECT.parent / "shared" / "samples") / "naver"
    if not (folder / "expected.json").is_file():
        return []
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return [
        SavedPage((folder / name).read_bytes(), page["og_url"], (page["first_line"], page["last_line"]))
        for name, page in expected.items()
        if page["kind"] == "article"
    ]


def _paragraphs(article: Article) -> tuple[str, ...]:
    return tuple(line for line in article.cleaned_body.split("\n") if line)


def _padded(page: str, titles: Sequence[str], weight: int) -> bytes:
    """The page with lists before its end and scripts behind them, until it weighs that many bytes."""
    head, end = page.rsplit("</div>\n", 1)
    pieces: list[str] = []
    missing, number = weight - len(page.encode()), 0
    while missing > 0:
        piece = _module(number, titles)
        pieces.append(piece)
        missing -= len(piece.encode())
        number += 1
    return f"{head}{''.join(pieces)}</div>\n{end}".encode()


def _module(number: int, titles: Sequence[str]) -> str:
    """Five linked headlines in a list, and the inline script that belongs to it."""
    chosen = (number * 5 + position for position in range(5))
    links = "".join(
        f'<li class="cjs_news_item _item _LAZY_LOADING_WRAP" data-gdid="{n:024x}" data-rank="{n % 20}">'
        f'<a href="https://n.news.naver.com/mnews/article/001/{n:010d}?ntype=RANKING&amp;sid=101" '
        f'class="cjs_news_a _cds_link _editn_link" data-clk="cds.{n}" data-nw-component="channel-{number}">'
        f'<div class="cjs_news_mw"><img data-src="https://mimgnews.pstatic.example/image/origin/001/2026/11/25/'
        f'{n:010d}.jpg?type=nf124_82" width="86" height="86" alt="" '
        f'class="_LAZY_LOADING _LAZY_LOADING_INIT_HIDE" style="display: none;"></div>'
        f'<div class="cjs_news_tw"><div class="cjs_t">'
        f"{escape(titles[n % len(titles)])}</div></div></a></li>\n"
        for n in chosen
    )
    settings = f'{{"area": "cds", "page": {number}, "lazy": true, "persist": "cds*{number}"}}'
    script = f'nw.register("cds{number}", {settings});'
    return (
        f'<div class="cjs_channel_card _CARD" data-n="{number}">'
        f'<h4 class="cjs_title">많이 본 뉴스 {number}</h4>\n'
        f'<ul class="cjs_news_list">\n{links}</ul></div>\n<script>\n{script * 5}\n</script>\n'
    )
