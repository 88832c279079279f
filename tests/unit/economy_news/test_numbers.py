"""Numbers of a summary are looked for in the article in whatever way either of them writes them."""

import pytest

from assets.economy_news.numbers import missing_numbers, numbers_in


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("1조 2,000억원", ["1200000000000"]),
        ("1.2조원", ["1200000000000"]),
        ("3조4,500억 2,000만원", ["3450020000000"]),
        ("5만 3천원", ["53000"]),
        ("5만 3000원", ["53000"]),
        ("1만2000명", ["12000"]),
        ("1천400원대", ["1400"]),
        ("2천만원과 5000만 달러", ["20000000", "50000000"]),
        ("연 3.50%와 3.5퍼센트", ["3.5%", "3.5%"]),
        ("0.5%포인트, 12%p", ["0.5%", "12%"]),
        ("10~20%", ["10", "20%"]),
        ("2026년 11월 27일", ["2026", "11", "27"]),
        ("1,385.5원", ["1385.5"]),
        ("3만 5개", ["30000", "5"]),
        ("숫자가 없다", []),
    ],
)
def test_a_number_is_normalised(text: str, normalised: list[str]) -> None:
    assert [number for number, _ in numbers_in(text)] == normalised


@pytest.mark.parametrize(
    ("summary", "body"),
    [
        ("이익이 1.2조원이에요.", "이익은 1조 2,000억원으로 집계됐다."),
        ("금리는 3.5%예요.", "금리는 연 3.50%다."),
        ("5만3000명이 늘었어요.", "5만 3천명이 늘었다."),
    ],
)
def test_a_number_written_another_way_is_in_the_article(summary: str, body: str) -> None:
    assert missing_numbers(summary, body) == []


@pytest.mark.parametrize(
    ("summary", "body", "missing"),
    [
        ("이익이 1.3조원이에요.", "이익은 1조 2,000억원이다.", ["1.3조"]),
        ("3.5%예요.", "3.5원이다.", ["3.5%"]),
        ("3.5원이에요.", "3.5%다.", ["3.5"]),
        ("12개와 13개예요.", "13개와 112개다.", ["12"]),
    ],
)
def test_a_number_that_the_article_lacks_is_named_as_it_is_written(
    summary: str, body: str, missing: list[str]
) -> None:
    assert missing_numbers(summary, body) == missing
