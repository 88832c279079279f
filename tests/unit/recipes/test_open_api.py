"""Answers of the open API: pages, every code in every shape, damaged and hostile bodies."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.recipes.open_api import (
    KNOWN_CODES,
    Kind,
    OpenApiError,
    OpenApiRefused,
    OpenApiUnavailable,
    OpenApiUnreadable,
    RecipePage,
    read_answer,
    source_url,
)
from tests.bad_inputs import bad_inputs

REFUSED = ["INFO-100", "INFO-400", *(f"ERROR-{n}" for n in (300, 301, 310, 331, 332, 334, 336))]
ROW = {"RCP_SEQ": "31", "RCP_NM": "새우두부계란찜", "INFO_ENG": ""}


def page(*rows: Any, code: str = "INFO-000", **more: Any) -> bytes:
    answer = {"row": list(rows), "RESULT": {"CODE": code, "MSG": "알림"}, **more}
    return json.dumps({"COOKRCP01": answer}, ensure_ascii=False).encode()


def bare(code: str) -> bytes:
    return json.dumps({"RESULT": {"CODE": code, "MSG": "알림"}}).encode()


def xml(code: str) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><RESULT><CODE>{code}</CODE><MSG>알림</MSG></RESULT>'.encode()
    )


SHAPES = pytest.mark.parametrize(
    "shape", [lambda code: page(code=code), bare, xml], ids=["page", "bare", "xml"]
)


def test_a_page_gives_its_rows_its_total_and_its_message() -> None:
    assert read_answer(page(ROW, {"RCP_SEQ": "34"}, total_count="1140")) == RecipePage(
        code="INFO-000", message="알림", rows=[ROW, {"RCP_SEQ": "34"}], total=1140, received=2
    )


@pytest.mark.parametrize("total", ["", "many", None, -1, "1" * 30, [1]])
def test_a_total_that_is_no_number_is_none(total: Any) -> None:
    assert read_answer(page(ROW, total_count=total)).total is None


@SHAPES
def test_no_data_is_an_empty_page(shape: Any) -> None:
    answer = read_answer(shape("INFO-200"))
    assert (answer.code, answer.rows, answer.received) == ("INFO-200", [], 0)


@SHAPES
@pytest.mark.parametrize("code", REFUSED)
def test_a_wrong_request_or_key_is_refused_with_its_remedy(shape: Any, code: str) -> None:
    with pytest.raises(OpenApiRefused, match=code) as refused:
        read_answer(shape(code))
    assert refused.value.code == code
    assert any(word in str(refused.value) for word in ("RECIPE_API_", "FETCH_LIMIT", "report"))


@SHAPES
@pytest.mark.parametrize(("code", "later"), [("ERROR-500", False), ("ERROR-601", False), ("INFO-300", True)])
def test_a_server_fault_is_retried_and_a_spent_quota_later(shape: Any, code: str, later: bool) -> None:
    with pytest.raises(OpenApiUnavailable) as unavailable:
        read_answer(shape(code))
    assert (unavailable.value.code, unavailable.value.retry_later) == (code, later)


def test_the_table_holds_the_codes_of_the_contract_and_no_other_beside_the_gateways() -> None:
    own = {code for code in KNOWN_CODES if not code.isdigit()}
    assert own == {"INFO-000", "INFO-200", "INFO-300", "ERROR-500", "ERROR-601", *REFUSED}
    assert {code for code in own if KNOWN_CODES[code][0] is Kind.REFUSED} == set(REFUSED)


@pytest.mark.parametrize(
    ("number", "error"),
    [
        ("30", OpenApiRefused),
        ("20", OpenApiRefused),
        ("22", OpenApiUnavailable),
        ("1", OpenApiUnavailable),
        ("777", OpenApiUnreadable),
    ],
)
def test_the_gateways_report_is_read(number: str, error: type[OpenApiError]) -> None:
    inside = f"<errMsg>SERVICE ERROR</errMsg><returnReasonCode>{number}</returnReasonCode>"
    body = f"<OpenAPI_ServiceResponse><cmmMsgHeader>{inside}</cmmMsgHeader></OpenAPI_ServiceResponse>"
    with pytest.raises(error) as raised:
        read_answer(body.encode())
    assert raised.value.code == number


@pytest.mark.parametrize("encoding", ["utf-8", "cp949"])
def test_an_html_alert_about_the_key_is_a_wrong_key(encoding: str) -> None:
    html = '<script type="text/javascript">alert("인증키가 유효하지 않습니다."); history.back();</script>'
    with pytest.raises(OpenApiRefused, match="RECIPE_API_KEY"):
        read_answer(html.encode(encoding))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"OK",
        b"[]",
        b"null",
        b"{}",
        b'{"COOKRCP01": []}',
        b'{"COOKRCP01": {"row": []}}',
        b'{"C003": {"RESULT": {"CODE": "INFO-000"}, "row": []}}',
        b'{"RESULT": "INFO-000"}',
        b'{"RESULT": {"CODE": null}}',
        b'{"RESULT": {"CODE": "INFO-000"}}',
        b'{"RESULT": {"CODE": "INFO-999"}}',
        b'{"RESULT": {"CODE": "INFO-000"}, "row": {"RCP_SEQ": "1"}}',
        page(ROW)[:-20],
        b"[" * 200_000,
        b"<html><body>service check</body></html>",
        b"<RESULT><CODE></CODE></RESULT>",
        b"<RESULT><CODE>INFO-000</CODE></RESULT>",
        b"<RESULT><CODE>INFO-777</CODE></RESULT>",
        b"<RESULT><CODE>INFO-100</CODE>",
        b"<rss><CODE>INFO-200</CODE></rss>",
        b"<RESULT><MSG>" + b"x" * 70_000 + b"</MSG><CODE>INFO-200</CODE></RESULT>",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_could_not_be_read_is_never_an_empty_page(body: bytes) -> None:
    with pytest.raises(OpenApiUnreadable):
        read_answer(body)


def test_entities_are_neither_expanded_nor_fetched(tmp_path: Any) -> None:
    secret = tmp_path / "code"
    secret.write_text("INFO-200")
    nested = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    for entity in (
        f'<!ENTITY e SYSTEM "file://{secret}">',
        '<!ENTITY e "INFO-200">',
        f'<!ENTITY e0 "x">{nested}',
    ):
        used = "e9" if "e9" in entity else "e"
        with pytest.raises(OpenApiUnreadable):
            read_answer(f"<!DOCTYPE r [{entity}]><RESULT><CODE>&{used};</CODE></RESULT>".encode())


def test_a_report_with_a_document_type_is_not_parsed() -> None:
    with pytest.raises(OpenApiUnreadable):
        read_answer(b"<!DOCTYPE RESULT><RESULT><CODE>INFO-200</CODE></RESULT>")


@pytest.mark.parametrize("named", ["UTF-8", "EUC-KR", "UTF-16", "none-such"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp949"])
def test_the_encoding_that_an_xml_report_names_does_not_count(named: str, encoding: str) -> None:
    report = f'<?xml version="1.0" encoding="{named}"?><RESULT><MSG>없음</MSG><CODE>INFO-200</CODE></RESULT>'
    assert read_answer(report.encode(encoding)).message == "없음"


def test_an_error_says_nothing_that_the_answer_says() -> None:
    for body in (
        page(code="the-key-in-clear"),
        xml("<B>the-key</B>"),
        page(code="INFO-100", x="the-key in clear"),
    ):
        with pytest.raises(OpenApiError) as raised:
            read_answer(body.replace("알림".encode(), b"the key is the-key in clear"))
        assert "in clear" not in str(raised.value)


def test_an_unknown_code_of_odd_form_is_not_repeated() -> None:
    with pytest.raises(OpenApiUnreadable) as raised:
        read_answer(bare("INFO-100 for key abc"))
    assert "abc" not in str(raised.value) and raised.value.code is None


def test_values_that_are_no_text_become_text_or_nothing() -> None:
    body = (
        b'{"RESULT": {"CODE": "INFO-000"}, "row": [{"RCP_SEQ": 7, "INFO_ENG": 12.50, "INFO_FAT": null,'
        b' "INFO_PRO": {"a": 1}, "INFO_CAR": [1], "INFO_NA": NaN, "INFO_WGT": true, "BIG": 1'
        + b"0" * 5000
        + b"}]}"
    )
    row = read_answer(body).rows[0]
    assert len(row.pop("BIG")) == 5001
    assert row == {
        "RCP_SEQ": "7",
        "INFO_ENG": "12.50",
        **dict.fromkeys(["INFO_FAT", "INFO_PRO", "INFO_CAR", "INFO_NA", "INFO_WGT"], ""),
    }


def test_rows_without_a_seq_are_counted_and_the_last_of_a_repeated_seq_wins() -> None:
    rows = [
        ROW,
        {"RCP_NM": "이름뿐"},
        {"RCP_SEQ": " "},
        {"RCP_SEQ": "9" * 65},
        "x",
        {"RCP_SEQ": " 31 ", "RCP_NM": "b"},
    ]
    answer = read_answer(page(*rows))
    assert answer.rows == [{"RCP_SEQ": "31", "RCP_NM": "b"}]
    assert (answer.received, answer.unusable) == (6, 4)


def test_a_page_of_which_no_row_is_usable_is_another_format_but_a_single_bad_row_is_not() -> None:
    with pytest.raises(OpenApiUnreadable):
        read_answer(page({"SEQ": "1"}, {"SEQ": "2"}))
    assert read_answer(page({"SEQ": "1"})).unusable == 1
    assert read_answer(page()).rows == []


def test_bytes_that_a_store_refuses_are_gone_and_names_it_refuses_too() -> None:
    row = '{"RCP_SEQ": "1", "RCP_NM": "a\\u0000b\\ud800c\\ud83d\\ude00", "$where": "x", "a.b": "x"}'
    body = f'{{"RESULT": {{"CODE": "INFO-000"}}, "row": [{row}]}}'
    assert read_answer(body.encode()).rows == [{"RCP_SEQ": "1", "RCP_NM": "ab\ufffdc\U0001f600"}]


@pytest.mark.parametrize(
    "encoded",
    [
        page(ROW),
        b"\xef\xbb\xbf" + page(ROW),
        b"\r\n \xef\xbb\xbf" + page(ROW) + b"\x00\x00",
        page(ROW).decode().encode("cp949"),
        page(ROW).replace(b'"row"', b'"r\x00ow"'),
    ],
    ids=["utf-8", "bom", "blanks and nul", "cp949", "nul inside"],
)
def test_the_encoding_is_found_out(encoded: bytes) -> None:
    assert read_answer(encoded).rows == [ROW]


def test_one_broken_byte_costs_one_character() -> None:
    broken = page({"RCP_SEQ": "1", "RCP_NM": "들깨버섯두부탕", "RCP_NA_TIP": "고소하다"}).replace(
        "들깨".encode(), "들깨".encode()[:-1]
    )
    row = read_answer(broken).rows[0]
    assert row["RCP_NM"].startswith("들\ufffd") and row["RCP_NM"].endswith("버섯두부탕")
    assert row["RCP_NA_TIP"] == "고소하다"


def test_raw_line_breaks_in_a_text_are_kept() -> None:
    body = b'{"RESULT": {"CODE": "INFO-000"}, "row": [{"RCP_SEQ": "1", "RCP_PARTS_DTLS": "a\r\n\tb"}]}'
    assert read_answer(body).rows[0]["RCP_PARTS_DTLS"] == "a\r\n\tb"


def test_the_address_quotes_the_key() -> None:
    assert source_url("http://host/x/", "a/b?c=d e", 1, 100) == (
        "http://host/x/api/a%2Fb%3Fc%3Dd%20e/COOKRCP01/json/1/100"
    )
    assert source_url("http://host", "키", 101, 200).endswith("/api/%ED%82%A4/COOKRCP01/json/101/200")


PIECES = [
    *(
        '{"COOKRCP01":',
        '{"RESULT":',
        '{"CODE":"INFO-000"}',
        '"row":[',
        '{"RCP_SEQ":"1"',
        '"total_count":',
        "}",
        "]",
    ),
    *(
        ",",
        "1e999",
        "NaN",
        "-0",
        '"\\ud800"',
        '"\\u0000"',
        "null",
        "<RESULT>",
        "<CODE>",
        "INFO-200",
        "</CODE>",
    ),
    *(
        "</RESULT>",
        "<?xml version='1.0' encoding='utf-16'?>",
        "<!DOCTYPE x [",
        "<!ENTITY a 'b'>",
        "]>",
        "&a;",
    ),
    *(
        "<![CDATA[",
        "]]>",
        "<!--",
        "<?pi?>",
        "<script>alert('인증키",
        "&#0;",
        "xmlns='a'",
        "\x00",
        "\ufeff",
        "\u2028",
    ),
]
MARKUP = st.lists(st.sampled_from(PIECES) | st.text(max_size=10), max_size=30).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["COOKRCP01", "RESULT", "CODE", "row", "RCP_SEQ", "a.b"]), inner, max_size=5
        )
    ),
    max_leaves=25,
)
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["RCP_SEQ", "RCP_NM", "$a", ""]), JSON, max_size=4) | JSON, max_size=6
)
OK = st.builds(lambda rows: json.dumps({"RESULT": {"CODE": "INFO-000"}, "row": rows}), ROWS)
GOOD = page(*({"RCP_SEQ": str(n), "RCP_NM": "가지 두부덮밥"} for n in range(5)), total_count="5")


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good page that was cut, or had bytes put in."""
    start = draw(st.integers(0, len(GOOD)))
    return GOOD[:start] + draw(st.binary(max_size=8)) + GOOD[draw(st.integers(start, len(GOOD))) :]


TEXTS = MARKUP | JSON.map(json.dumps) | OK
ENCODINGS = st.sampled_from(["utf-8", "cp949", "utf-16", "utf-8-sig"])
BODIES = (
    st.binary(max_size=200)
    | damaged()
    | st.builds(lambda text, encoding: text.encode(encoding, "replace"), TEXTS, ENCODINGS)
)


@bad_inputs
@given(body=BODIES)
@example(body=b'{"RESULT": {"CODE": "INFO-000"}, "row": [{"": 1}, {"RCP_SEQ": "\\ud83d"}]}')
def test_any_bytes_are_a_page_or_one_of_three_errors(body: bytes) -> None:
    try:
        answer = read_answer(body)
    except (OpenApiRefused, OpenApiUnavailable, OpenApiUnreadable):
        return
    assert answer.code in ("INFO-000", "INFO-200")
    assert len(answer.rows) + answer.unusable <= answer.received
    assert len({row["RCP_SEQ"] for row in answer.rows}) == len(answer.rows)
    for text in (answer.message, *(text for row in answer.rows for pair in row.items() for text in pair)):
        text.encode()
        assert "\x00" not in text
