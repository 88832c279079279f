"""`make demo`: what it says, what it leaves, and what an impatient user can do to it."""

import json
import signal

import pytest

from tests.end_to_end.project import Project

ADDED_NOTHING = (
    "no call made, nothing paid",
    "no page fetched",
    "no line asked",
    "no text embedded or judged",
    "no product embedded",
)


def test_the_demo_is_right_and_a_second_one_adds_and_pays_nothing(project: Project) -> None:
    first = project.make("demo")
    assert first.returncode == 0, first.stdout + first.stderr
    told = json.loads((project.local / "demo.json").read_text())["pipelines"]["economy_news"]
    assert told["summaries"] > 100
    assert told["articles"] > told["summaries"]
    assert 0 < told["cost_usd"] < 1
    second = project.make("demo")
    assert second.returncode == 0, second.stdout + second.stderr
    for nothing in ADDED_NOTHING:
        assert f"nothing was new: no row added, {nothing}" in second.stdout
    again = json.loads((project.local / "demo.json").read_text())["pipelines"]["economy_news"]
    varying = ("seconds", "news")
    assert {name: value for name, value in again.items() if name not in varying} == {
        name: value for name, value in told.items() if name not in varying
    }
    assert project.running() == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_demo_that_is_broken_off_leaves_nothing_running_and_nothing_broken(
    project: Project, sent: signal.Signals
) -> None:
    for moment in (
        "services ...",
        "database ...",
        "economy_news_crawl",
        "economy_news_enrich",
        "raw_files_partitions",
        "recipes: parsed",
        "context_tags: embedded and tagged",
        "recommendations: 500 members",
    ):
        demo = project.start("demo")
        assert demo.stdout is not None
        said = []
        for line in demo.stdout:
            said.append(line)
            if line.startswith(moment):
                break
        else:
            pytest.fail(f"it ended before {moment!r}: {''.join(said)}")
        demo.send_signal(sent)
        assert demo.wait(timeout=60) != 0, moment
        project.wait_until_nothing_runs()
    finished = project.make("demo")
    assert finished.returncode == 0, finished.stdout + finished.stderr
