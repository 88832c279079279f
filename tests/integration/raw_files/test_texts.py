"""Texts that break naive programs, from the bucket through COPY: stored right, or refused with a reason."""

import unicodedata

import psycopg

from assets.raw_files import front_page_store
from assets.raw_files.front_page import read_front_page
from assets.raw_files.front_page_store import Fetched
from resources.bucket import Bucket
from tests.integration.raw_files.raw_runs import Store, document, raw_path
from tests.integration.raw_files.work_runs import NEWS, process

TEN_MB = 10 * 2**20
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
DECOMPOSED = unicodedata.normalize("NFD", "금리 인상 café")

# A title as it stands in the file, and as it is stored.
STORED: dict[str, tuple[str, str | None]] = {
    "NUL": (r"가\u0000나", "가나"),
    "nothing but NUL": (r"\u0000", None),
    "first half of a character": (r"값 \ud83d", "값 \ufffd"),
    "second half of a character": (r"\ude00 값", "\ufffd 값"),
    "halves in the wrong order": (r"\ude00\ud83d", "\ufffd\ufffd"),
    "both halves": (r"\ud83d\ude00", "\U0001f600"),
    "decomposed": (DECOMPOSED, "금리 인상 café"),
    "emoji": (f"가족 {FAMILY}", f"가족 {FAMILY}"),
    "line separators": ("하나\u2028둘\u2029셋", "하나\u2028둘\u2029셋"),
    "no characters": ("\ufffe\uffff\U0010ffff", "\ufffe\uffff\U0010ffff"),
    "a mark of the order of bytes": ("\ufeff값", "\ufeff값"),
    "the end of COPY": (r"\\.", r"\."),
    "NULL of COPY": (r"\\N", r"\N"),
    "columns and rows of COPY": (r"a\tb\nc\\td\re", "a\tb\nc\\td\re"),
    "quotes": (r"'; -- \" %s {}", "'; -- \" %s {}"),
    "10 MB": ("x" * TEN_MB, "x" * 500),
    "10 MB decomposed": (unicodedata.normalize("NFD", "각") * (TEN_MB // 9), "각" * 500),
}
# A file, and what its reason says.
REFUSED: dict[str, tuple[bytes, str]] = {
    "a bare NUL": (b'["gaon-market.test\x00"]', "broken JSON"),
    "a bare half of a character": (
        '["gaon-market.test", "\ud83d"]'.encode("utf-8", "surrogatepass"),
        "not UTF-8",
    ),
    "cp949": ('[{"url": "gaon-market.test", "title": "금리"}]'.encode("cp949"), "not UTF-8"),
    "UTF-16": (document("gaon-market.test").decode().encode("utf-16"), "not UTF-8"),
    "zeros": (bytes(1_000), "not UTF-8"),
    "17 MB": (b'["gaon-market.test", "' + b"x" * (17 * 2**20) + b'"]', "16 MiB"),
    "a million brackets": (b"[" * 1_000_000, "broken JSON"),
}


def test_every_text_is_stored_right_or_refused_with_a_reason(
    connection: psycopg.Connection, store: Store
) -> None:
    keys = {name: raw_path(number) for number, name in enumerate([*STORED, *REFUSED], 1)}
    for number, (name, (written, _)) in enumerate(STORED.items(), 1):
        item = f'{{"url": "site-{number}.test", "title": "{written}", "description": "{written}"}}'
        store.put(keys[name], f"[{item}]".encode())
    for name, (body, _) in REFUSED.items():
        store.put(keys[name], body)

    outcome = process(connection, Bucket(store.client, store.name))

    assert (outcome.processed, outcome.failed) == (len(STORED), len(REFUSED))
    said = connection.execute("SELECT key, title, description FROM raw.domain_sighting").fetchall()
    titles = {key: title for key, title, _ in said}
    assert titles == {keys[name]: title for name, (_, title) in STORED.items()}
    descriptions = {key: (description or "")[:500] or None for key, _, description in said}
    assert descriptions == titles
    rows = connection.execute("SELECT key, reason FROM raw.file WHERE status = 'FAILED'")
    failed: dict[str, str] = dict(rows.fetchall())
    assert {name: reason in failed[keys[name]] for name, (_, reason) in REFUSED.items()} == dict.fromkeys(
        REFUSED, True
    )


def test_addresses_that_no_domain_can_have_are_counted_and_the_others_go_on(
    connection: psycopg.Connection, store: Store
) -> None:
    addresses = [
        "gaon\x00-market.test",
        "gaon-\ud83d.test",
        "gaon\u2028market.test",
        "\ufffe.test",
        "http://" + "가" * 300 + ".test",
        "x" * TEN_MB,
    ]
    store.put(raw_path(1), document(*addresses, "hanbit-news.test"))

    outcome = process(connection, Bucket(store.client, store.name))

    assert (outcome.processed, outcome.rejected) == (1, len(addresses))
    assert connection.execute("SELECT domain FROM raw.domain").fetchall() == [("hanbit-news.test",)]


# A page, and the title that is stored.
PAGES: dict[str, tuple[bytes, str | None]] = {
    "NUL": ("<title>가\x00나</title><meta property='og:title' content='가\x00나&#0;'>".encode(), "가나"),
    "half of a character": (
        b"<title>a&#xD83D;b</title><meta name=description content='&#xDE00;'>",
        "a\ufffdb",
    ),
    "decomposed": (f"<meta charset=utf-8><title>{DECOMPOSED}</title>".encode(), "금리 인상 café"),
    "emoji": (f"<meta charset=utf-8><title>{FAMILY}</title>".encode(), FAMILY),
    "line separators": ("<meta charset=utf-8><title>하나\u2028둘</title>".encode(), "하나 둘"),
    "1 MB": (b"<title>" + b"x" * 1_000_000, "x" * 300),
    "rubbish": (bytes(range(256)) * 100, None),
    "nothing": (b"", None),
}


def test_every_page_of_a_batch_is_stored_whatever_is_in_it(
    connection: psycopg.Connection, store: Store
) -> None:
    store.put(raw_path(1), document(*(f"site-{number}.test" for number in range(len(PAGES)))))
    process(connection, Bucket(store.client, store.name))
    claims = front_page_store.claim_of_partition(connection, NEWS, "run-1", 60, 100)
    pages = [
        Fetched(
            claim, f"https://{claim.domain}/", 200, read_front_page(body, None, f"https://{claim.domain}/")
        )
        for claim, (body, _) in zip(claims, PAGES.values(), strict=True)
    ]

    assert front_page_store.store_outcomes(connection, "run-1", pages, []) == len(PAGES)

    stored = connection.execute("SELECT title FROM raw.front_page ORDER BY domain_id").fetchall()
    assert dict(zip(PAGES, stored, strict=True)) == {name: (title,) for name, (_, title) in PAGES.items()}
