"""What a bad line means, and how many lines there is room for."""

import ast
from decimal import Decimal
from pathlib import Path

import pytest

import assets.economy_news
from assets.economy_news.answers import BROKEN_RULES
from assets.economy_news.batch_line_verdicts import BadLine, Effect, bad_line
from assets.economy_news.batch_room import BUDGET, LARGE_LINE_BYTES, QUEUE_LIMIT, Room
from assets.economy_news.models import BatchLine
from resources.model_table import Model, model_named

MODEL: Model = model_named("gpt-4o-mini", {}).in_batch()


@pytest.mark.parametrize(
    ("reason", "code", "meant"),
    [
        ("error:batch_expired", "", BadLine(Effect.UNASKED, "batch_expired", None)),
        ("error:batch_cancelled", "", BadLine(Effect.UNASKED, "batch_cancelled", None)),
        ("error:server_error", "", BadLine(Effect.RETRY, "server_error", "none")),
        ("status:500", "server_error", BadLine(Effect.RETRY, "server_error", "500")),
        ("status:429", "rate_limit_exceeded", BadLine(Effect.RETRY, "rate_limit_exceeded", "429")),
        ("status:429", "insufficient_quota", BadLine(Effect.UNASKED, "insufficient_quota", "429", "QUOTA")),
        ("status:401", "", BadLine(Effect.UNASKED, "status_401", "401", "AUTH")),
        ("status:400", "", BadLine(Effect.FAIL, "status_400", "400")),
        (
            "status:400",
            "context_length_exceeded",
            BadLine(Effect.FAIL, "context_length_exceeded", "400"),
        ),
        ("finish:length", "", BadLine(Effect.BROKE_A_RULE, "output_cut", "ok")),
        ("finish:content_filter", "", BadLine(Effect.FAIL, "content_filter", "ok")),
        ("refused", "", BadLine(Effect.FAIL, "refusal", "ok")),
        ("empty", "", BadLine(Effect.BROKE_A_RULE, "invalid_output", "ok")),
        ("unreadable", "", BadLine(Effect.RETRY, "unreadable_answer", "none")),
    ],
)
def test_a_bad_line_means_what_the_call_would_have_meant(reason: str, code: str, meant: BadLine) -> None:
    assert bad_line(reason, code) == meant


def test_every_rule_that_an_answer_can_break_is_known_by_its_code() -> None:
    found = {"invalid_output"}
    for path in Path(str(assets.economy_news.__path__[0])).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InvalidOutput":
                found |= {
                    str(word.value.value)
                    for word in node.keywords
                    if word.arg == "code" and isinstance(word.value, ast.Constant)
                }
    assert found == BROKEN_RULES


def a_line(bytes_: int) -> BatchLine:
    return BatchLine(1, "hash", bytes_, bytes_)


def a_room(usd: str | None = None, queued: int | None = None, limit: int = 10_000) -> Room:
    return Room(MODEL, 1_000, None if usd is None else Decimal(usd), queued, limit)


def test_lines_go_until_the_money_is_used_up() -> None:
    one = MODEL.most_it_can_cost_usd(3_000, 1_000)
    room = a_room(usd=str(2 * one))
    assert [room.refuses(a_line(3_000)) for _ in range(3)] == [None, None, BUDGET]


def test_lines_go_until_the_queue_is_full() -> None:
    room = a_room(queued=4_000)
    assert [room.refuses(a_line(9_000)) for _ in range(3)] == [None, None, QUEUE_LIMIT]


def test_a_line_above_the_whole_limit_goes_alone_into_an_empty_queue() -> None:
    room = a_room(limit=1_000)
    assert [room.refuses(a_line(9_000)) for _ in range(2)] == [None, QUEUE_LIMIT]
    assert a_room(queued=1, limit=1_000).refuses(a_line(9_000)) == QUEUE_LIMIT


def test_without_room_for_a_large_line_nothing_is_planned() -> None:
    large = LARGE_LINE_BYTES // 3
    assert a_room(queued=0, limit=large).waits_for() is None
    assert a_room(queued=1, limit=large).waits_for() == QUEUE_LIMIT
    assert a_room(limit=1).waits_for() is None
    most = MODEL.most_it_can_cost_usd(LARGE_LINE_BYTES, 1_000)
    assert a_room(usd=str(most)).waits_for() is None
    assert a_room(usd=str(most / 2)).waits_for() == BUDGET
    assert a_room().waits_for() is None
