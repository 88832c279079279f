"""Reading raw files: what is accepted, what an item says, and what is unreadable."""

import io
import json
import unicodedata

import pytest

from assets.raw_files.raw_document import (
    ItemCounts,
    RawDocumentUnreadable,
    RawItem,
    domains_in,
    items_in,
)


def items(document: object, counts: ItemCounts | None = None) -> list[RawItem]:
    return list(items_in(io.BytesIO(json.dumps(document).encode()), counts))


def domains(document: bytes | str) -> list[str]:
    return list(domains_in(io.BytesIO(document if isinstance(document, bytes) else document.encode())))


def only(**fields: object) -> RawItem:
    (item,) = items([{"url": "https://hanbit-news.test/", **fields}])
    return item


@pytest.mark.parametrize(
    "document",
    [
        '["https://www.a-shop.test/x", "b-shop.test"]',
        '{"domains": ["www.a-shop.test", "b-shop.test"]}',
        '{"country": "kr", "category": "news", "items": ["a-shop.test", {"domain": "b-shop.test"}]}',
        '{"items": [{"url": "http://a-shop.test"}, {"link": "//b-shop.test/"}], "country": "kr"}',
        '{"domains": ["a-shop.test"], "items": ["b-shop.test"]}',
        '{"items": ["a-shop.test"], "items": ["b-shop.test"]}',
        '\ufeff  ["a-shop.test",\r\n "b-shop.test"]\n ',
    ],
)
def test_every_shape_of_the_contract_is_read(document: str) -> None:
    assert domains(document) == ["a-shop.test", "b-shop.test"]


@pytest.mark.parametrize("document", ["[]", '{"items": []}', '{"domains": [], "country": "kr"}'])
def test_an_empty_list_is_a_file_without_domains(document: str) -> None:
    assert domains(document) == []


def test_what_an_item_says_is_kept() -> None:
    said = {"title": "한빛 뉴스", "description": "날마다 새 소식", "rank": 3, "more": {"title": "no"}}
    assert items({"items": [{"link": "https://www.hanbit-news.test/", **said}]}) == [
        RawItem("hanbit-news.test", "한빛 뉴스", "날마다 새 소식", 3)
    ]


def test_a_plain_address_says_nothing_else() -> None:
    assert items(["hanbit-news.test"]) == [RawItem("hanbit-news.test", None, None, None)]


def test_of_several_addresses_the_first_that_has_a_domain_counts() -> None:
    entry = {"link": "c.test.example", "domain": "b-shop.test", "url": "http://192.0.2.1/"}
    assert [item.domain for item in items([entry])] == ["b-shop.test"]
    assert domains('[{"url": "a-shop.test", "url": "b-shop.test"}]') == ["b-shop.test"]


def test_lists_elsewhere_in_the_document_are_not_its_items() -> None:
    document = {
        "meta": {"items": ["no-shop.test"], "domains": [{"items": ["no-shop.test"]}]},
        "items.item": "no-shop.test",
        "items": [{"domain": "a-shop.test", "items": ["no-shop.test"], "url": ["no-shop.test"]}],
    }
    assert [item.domain for item in items(document)] == ["a-shop.test"]


def test_entries_without_a_domain_are_counted_and_not_given() -> None:
    counts = ItemCounts()
    no_items: list[object] = [
        None,
        1,
        1.5,
        True,
        [],
        ["a-shop.test"],
        [[{}]],
        {},
        {"title": "x"},
        {"url": None},
    ]
    no_domains = [
        "",
        "localhost",
        "192.0.2.1",
        "co.kr",
        {"url": "localhost"},
        {"url": {"url": "a-shop.test"}},
    ]
    entries = [*no_items, "a-shop.test", *no_domains, "a-shop.test"]
    assert [item.domain for item in items(entries, counts)] == ["a-shop.test", "a-shop.test"]
    assert counts == ItemCounts(items=18, rejected=16)


@pytest.mark.parametrize(
    ("written", "rank"),
    [
        ("3", 3),
        ('"3"', 3),
        ("3.0", 3),
        ("3e2", 300),
        ("0", 0),
        ("2147483647", 2_147_483_647),
        ("2147483648", None),
        ("-1", None),
        ("1.5", None),
        ("1e400", None),
        ("1e-400", None),
        ("1e999999", None),
        ("9" * 4000, None),
        ("true", None),
        ("null", None),
        ('"third"', None),
        ('"３"', None),
        ('"-3"', None),
        (f'"{"9" * 5000}"', None),
        ("[3]", None),
        ('{"rank": 3}', None),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_rank_is_a_whole_number_that_postgres_holds(written: str, rank: int | None) -> None:
    document = f'[{{"rank": {written}, "url": "a-shop.test"}}]'.encode()
    assert list(items_in(io.BytesIO(document))) == [RawItem("a-shop.test", None, None, rank)]


def test_texts_are_made_storable() -> None:
    assert only(title="  가\x00격 인상\u2028 ").title == "가격 인상"
    assert only(title=unicodedata.normalize("NFD", "금리 인상")).title == "금리 인상"
    assert only(title="\U0001f468\u200d\U0001f469").title == "\U0001f468\u200d\U0001f469"


@pytest.mark.parametrize("value", [None, 1, True, [], ["x"], {"x": "y"}, "", " \n\x00"])
def test_what_is_no_text_is_none(value: object) -> None:
    item = only(title=value, description=value)
    assert (item.title, item.description) == (None, None)


def test_long_texts_are_cut() -> None:
    decomposed = unicodedata.normalize("NFD", "한") * 3_000
    item = only(title=decomposed, description=decomposed)
    assert (item.title, item.description) == ("한" * 500, "한" * 2_000)
    assert only(title="x" * 501).title == "x" * 500


def reason(document: bytes) -> str:
    with pytest.raises(RawDocumentUnreadable) as refused:
        domains(document)
    return str(refused.value)


@pytest.mark.parametrize("document", [b"", b" ", b"\r\n\t" * 100_000, b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_file_with_nothing_in_it_is_unreadable(document: bytes) -> None:
    assert reason(document) == "empty file"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp949"])
def test_another_encoding_is_unreadable(encoding: str) -> None:
    assert reason('[{"url": "a-shop.test", "title": "금리"}]'.encode(encoding)) == "not UTF-8"
    if encoding != "cp949":
        assert reason('["a-shop.test"]'.encode(encoding)) == "not UTF-8"


@pytest.mark.parametrize("title", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_bytes_that_are_no_utf8_are_found_wherever_they_are(title: bytes) -> None:
    assert reason(b'["a-shop.test", "' + b" " * 400_000 + title + b'"]') == "not UTF-8"


@pytest.mark.parametrize(
    "document",
    [
        b"[NaN]",
        b"[Infinity]",
        b"['a-shop.test']",
        b'["a-shop.test",]',
        b'["a-shop.test" "b-shop.test"]',
        b'["a-shop.test"]]',
        b'["a-shop.test"] x',
        b'["a-shop.test"]["b-shop.test"]',
        b'["a-shop.test"]\x00',
        b'{"items": ["a-shop.test"]}{"items": []}',
        b'{"url": "a-shop.test"}\n{"url": "b-shop.test"}',
        b'{"items" ["a-shop.test"]}',
        b'[// a-shop.test\n"a-shop.test"]',
        b'["a\nb"]',
        b'["\\x41"]',
        b'["\\ud83"]',
        b'["\\u12g4"]',
        b"\\",
        b"<html>a-shop.test</html>",
        b'\xef\xbb\xbf\xef\xbb\xbf["a-shop.test"]',
    ],
)
def test_broken_json_is_unreadable(document: bytes) -> None:
    assert reason(document) in {"broken JSON near byte 0", "broken JSON near byte 2"}


@pytest.mark.parametrize("document", [b'["a-shop.test"]', b'{"items": ["a-shop.test"]}'])
def test_what_follows_the_document_makes_it_unreadable_however_far_off(document: bytes) -> None:
    assert reason(document + b" " * 3_000_000 + b"x").startswith("broken JSON near byte")
    assert domains(document + b" " * 3_000_000) == ["a-shop.test"]


def test_the_reason_says_where_and_quotes_nothing() -> None:
    document = b"[" + b'"a-shop.test", ' * 100_000 + b"secret]"
    with pytest.raises(RawDocumentUnreadable) as refused:
        domains(document)
    near = int(str(refused.value).removeprefix("broken JSON near byte "))
    assert near <= document.index(b"secret") < near + 1024
    assert refused.value.__context__ is None


def test_a_document_that_is_cut_anywhere_is_unreadable() -> None:
    whole = (
        '{"items": [{"url": "a-shop.test", "title": "금리", "rank": 1.5}, "b-shop.test"], "x": true}'.encode()
    )
    for length in range(1, len(whole)):
        assert reason(whole[:length]).startswith("broken JSON"), length
    assert domains(whole) == ["a-shop.test", "b-shop.test"]


def test_the_items_before_a_fault_are_given_before_it_is_raised() -> None:
    counts = ItemCounts()
    found = items_in(io.BytesIO(b'["a-shop.test", 1, "b-shop.test", ' + b" " * 10_000 + b"oops]"), counts)
    assert [next(found).domain, next(found).domain] == ["a-shop.test", "b-shop.test"]
    with pytest.raises(RawDocumentUnreadable):
        next(found)
    assert counts == ItemCounts(items=3, rejected=1)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("{}", 'neither "items" nor "domains"'),
        ('{"data": ["a-shop.test"]}', 'neither "items" nor "domains"'),
        ('{"Items": ["a-shop.test"]}', 'neither "items" nor "domains"'),
        ('{"items": null}', '"items" is a null'),
        ('{"items": "a-shop.test"}', '"items" is a string'),
        ('{"items": {"a-shop.test": 1}}', '"items" is a map'),
        ('{"items": ["a-shop.test"], "domains": 1}', '"domains" is a number'),
        ('"a-shop.test"', "the document is a string"),
        ("null", "the document is a null"),
        ("42", "the document is a number"),
        ("true", "the document is a boolean"),
    ],
)
def test_a_document_without_a_list_is_unreadable(document: str, why: str) -> None:
    assert reason(document.encode()) == f"no list of items: {why}"


@pytest.mark.parametrize("number", ["9" * 5_000, "1e" + "9" * 30], ids=["digits", "exponent"])
def test_a_number_that_python_cannot_hold_is_a_fault_of_the_file(number: str) -> None:
    assert reason(f'{{"x": {number}, "items": []}}'.encode()).startswith("broken JSON near byte")
