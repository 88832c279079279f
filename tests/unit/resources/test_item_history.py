"""How a history reads: in order, with its times' zone, safe on a terminal and in Markdown."""

import json
from datetime import UTC, datetime, timedelta

from resources.item_history import NOBODY, Event, ItemHistory, Wait, launch

NOON = datetime(2026, 3, 2, 3, tzinfo=UTC)
"""In Seoul."""


def a_history(*waits: Wait, title: str = "article 001/0000000001", **more: object) -> ItemHistory:
    events = (
        Event(NOON - timedelta(minutes=1), "stored", "run-2"),
        Event(NOON - timedelta(hours=1), "listed"),
    )
    known = {"events": events, "as_of": NOON, "cost": "nothing yet", "zone": "Asia/Seoul", **more}
    return ItemHistory(title=title, waits=waits, **known)  # type: ignore[arg-type]


def test_events_stand_in_order_with_zone_and_run() -> None:
    lines = a_history().lines()
    assert lines[2:4] == [
        "2026-03-02 11:00:00 KST  listed",
        "2026-03-02 11:59:00 KST  stored  [run run-2]",
    ]


def test_what_waits_for_nothing_says_so() -> None:
    history = a_history()
    assert (history.waits_for, history.who, history.due_at) == ("nothing", NOBODY, None)
    assert "due        never" in history.lines()


def test_a_time_that_has_come_is_now_and_one_to_come_is_exact() -> None:
    due = {
        wait: next(line for line in a_history(Wait("x", NOBODY, wait)).lines() if line.startswith("due"))
        for wait in (NOON, NOON + timedelta(hours=1), NOON - timedelta(hours=1), None)
    }
    assert list(due.values()) == [
        "due        now",
        "due        2026-03-02 13:00:00 KST",
        "due        now, since 2026-03-02 11:00:00 KST",
        "due        at no set time",
    ]


def test_further_waits_are_told_with_who_and_when() -> None:
    history = a_history(Wait("a person", "the person on call"), Wait("a run", NOBODY, NOON))
    assert history.waits_for == "a person"
    assert "also       a run. Who: nobody. Due: now" in history.lines()


def test_a_title_can_not_steer_the_terminal() -> None:
    (first, *_) = a_history(title="a\x1b[31mred\u202etitle\nsecond line").lines()
    assert first == "a [31mred title second line"


def test_markdown_of_a_title_is_no_markup_and_no_link() -> None:
    text = a_history(title="<script>|[x](https://evil.test)**b**").markdown()
    first = text.splitlines()[0]
    assert not set("<>|[]()") & set(first)
    assert first.startswith("**") and first.count("**") == 2
    assert "://" not in text


def test_the_commands_of_markdown_survive_as_entities() -> None:
    import html

    command = launch("economy_news_requeue_failed", "requeue_failed_jobs", job_ids=[7])
    text = a_history(Wait("x", f"the person on call: {command}")).markdown()
    assert command in html.unescape(text)


def test_json_says_whether_it_is_due_now() -> None:
    found = json.loads(json.dumps(a_history(Wait("x", NOBODY, NOON)).as_json()))
    assert found["due_at"] == "2026-03-02T12:00:00+09:00"
    assert found["due_now"] is True
    assert [event["what"] for event in found["events"]] == ["listed", "stored"]
    assert a_history(Wait("x", NOBODY, NOON + timedelta(hours=1))).as_json()["due_now"] is False
