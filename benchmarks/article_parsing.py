"""CPU of parsing article pages, against BeautifulSoup over lxml; two extractors and their quality beside."""

import gc
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import trafilatura
from bs4 import BeautifulSoup

from assets.economy_news.article_page import parse_article_page
from assets.economy_news.page_text import decode_page
from benchmarks.article_pages import SavedPage, padded_pages, real_pages
from benchmarks.bench import Bench
from benchmarks.rounds import interleaved, medians
from benchmarks.row import Peer, Row, row

with warnings.catch_warnings(action="ignore"):  # that nltk is missing
    import newspaper

SOUP = "BeautifulSoup(html, 'lxml')"


def measure(bench: Bench) -> list[Row]:
    """Pages of 150 to 300 KB first, then saved real ones where there are any."""
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    rows = _race(bench, "padded pages", padded_pages(bench.size(6, 3)))
    real = real_pages()
    if real:
        rows += _race(bench, "real pages", real)
    else:
        bench.say("no saved real pages: GRANARY_SAMPLES names their folder")
    return rows


def ours(page: SavedPage) -> str:
    """The body, and with it every other field."""
    return parse_article_page(page.html, page.url).body


def soup(page: SavedPage) -> str:
    """Only the tree: nothing is looked for in it."""
    BeautifulSoup(page.html, "lxml")
    return ""


def by_trafilatura(page: SavedPage) -> str:
    """The main text, as it is given by default."""
    return trafilatura.extract(decode_page(page.html), url=page.url) or ""


def by_newspaper(page: SavedPage) -> str:
    """The text of a parsed article, read as English: its Korean needs nltk and a download at run time."""
    article = newspaper.Article(page.url, language="en")
    article.download(input_html=decode_page(page.html))
    article.parse()
    return str(article.text)


EXTRACTORS: dict[str, Callable[[SavedPage], str]] = {
    "ours": ours,
    "trafilatura": by_trafilatura,
    "newspaper4k": by_newspaper,
}


def _race(bench: Bench, what: str, pages: Sequence[SavedPage]) -> list[Row]:
    kilobytes = sorted(len(page.html) // 1024 for page in pages)
    bench.say(f"parsing {len(pages)} {what} of {kilobytes[0]} to {kilobytes[-1]} KB")
    contestants = {SOUP: soup, **EXTRACTORS}
    for parse in contestants.values():
        parse(pages[0])  # imports and compiles what is done once
    # What is imported by now is no garbage of theirs: collections must not search it again and again.
    gc.collect()
    gc.freeze()
    turns = {name: partial(_milliseconds_a_page, parse, pages) for name, parse in contestants.items()}
    found = medians(interleaved(bench.size(5, 2), turns))
    gc.unfreeze()
    peer = Peer(SOUP, found[SOUP])
    rows = [row(f"parsing: {what}", found["ours"], "ms CPU/page", peer, ratio_at_most=0.5)]
    rows += [
        row(f"parsing: {what}, {name}", found[name], "ms CPU/page", peer) for name in list(EXTRACTORS)[1:]
    ]
    for name, extract in EXTRACTORS.items():
        kept, foreign = _quality([(extract(page), page) for page in pages], knows_all=what == "padded pages")
        rows.append(row(f"parsing: {what}, {name}, paragraphs found", kept * 100, "%"))
        if foreign is not None:
            rows.append(row(f"parsing: {what}, {name}, foreign text", foreign * 100, "%"))
    return rows


def _milliseconds_a_page(parse: Callable[[SavedPage], str], pages: Sequence[SavedPage]) -> float:
    started = time.process_time()
    for page in pages:
        parse(page)
    return (time.process_time() - started) * 1_000 / len(pages)


def _quality(texts: Sequence[tuple[str, SavedPage]], knows_all: bool) -> tuple[float, float | None]:
    """Shares: of known paragraphs that are in the text whole, of the text's characters that are in none.

    White space does not count. Foreign text can only be told where all paragraphs are known.
    """
    found = known = own = total = 0
    for text, page in texts:
        squeezed = _squeezed(text)
        total += len(squeezed)
        for paragraph in map(_squeezed, page.paragraphs):
            known += 1
            if paragraph in squeezed:
                found += 1
                own += len(paragraph)
                squeezed = squeezed.replace(paragraph, "", 1)
    return found / known, (1 - own / total if knows_all and total else None)


def _squeezed(text: str) -> str:
    return "".join(text.split())
