"""docs/runbook.md by its own commands: each block is run as it stands, in the situation that it is for."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pytest

from orchestration.partitions import news_key
from tests.end_to_end.on_call import OnCall, on_call
from tests.end_to_end.project import project_in
from tests.end_to_end.situations import (
    DAY,
    MEMBER,
    REFUSER,
    SOURCE,
    USER,
    address_of,
    articles,
    contexts_found,
    files_at_the_provider,
    forget_people,
    post_context,
    span,
    stored,
    visit,
    work_since,
)

CHAT_GATE = "gate:gpt-4o-mini"
ALL_DONE = {"SUCCESS"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCall]:
    """One stack for all situations; those of economy_news have a section each."""
    with project_in(tmp_path_factory.mktemp("runbook") / "project") as project, on_call(project) as found:
        assert found.crawls(DAY, "FINANCE")
        assert found.enriches(DAY, "FINANCE")
        assert found.runs("context_tags_presets")
        yield found


def test_the_three_questions(here: OnCall) -> None:
    said = here.does("", 0, ARTICLE=articles(here)[0][1])
    assert "economy_news" in said
    assert 'granary_spending_usd{kind="spent"}' in said


def test_the_quota_is_spent(here: OnCall) -> None:
    heading, section = "The quota is spent", "INDUSTRY"
    assert here.crawls(DAY, section)
    here.openai.fault(endpoint="chat/completions", status=429, code="insufficient_quota")
    assert not here.enriches(DAY, section)
    here.sees(heading, CHAT_GATE)
    assert 'granary_gate_shut{model="gpt-4o-mini",reason="QUOTA"} 1' in here.metrics()
    suspended = here.jobs(DAY, section)["SUSPENDED"]

    here.openai.clear_faults()
    assert json.loads(here.does(heading, 0)) == {"resumedCount": suspended}
    assert CHAT_GATE not in here.standing()
    assert here.enriches(DAY, section)
    assert set(here.jobs(DAY, section)) == ALL_DONE


def test_our_own_cap_is_reached(here: OnCall) -> None:
    heading, section = "The quota is spent", "LIVING"
    used = here.one("SELECT spent_usd + reserved_usd FROM granary.spending_day ORDER BY day DESC LIMIT 1")
    here.tick("alarms_looked_at", daily_spending_cap_usd=used / Decimal("0.9"))
    here.sees(heading, "spending:80")
    assert here.crawls(DAY, section)
    assert not here.enriches(DAY, section, daily_spending_cap_usd=used)
    here.tick("alarms_looked_at", daily_spending_cap_usd=used)
    here.sees(heading, "spending:100")
    assert "SUSPENDED" not in here.jobs(DAY, section)

    here.does(heading, 1)
    assert CHAT_GATE not in here.standing()
    assert here.enriches(DAY, section)
    assert set(here.jobs(DAY, section)) == ALL_DONE


def test_the_key_was_revoked(here: OnCall, monkeypatch: pytest.MonkeyPatch) -> None:
    heading, section = "The key was revoked", "VENTURE"
    assert here.crawls(DAY, section)
    with monkeypatch.context() as revoked:
        revoked.setenv("OPENAI_API_KEY", "sk-invalid-since-this-morning")
        assert not here.enriches(DAY, section)
    here.sees(heading, CHAT_GATE)
    assert here.jobs(DAY, section)["SUSPENDED"]

    here.does(heading, 0)
    assert CHAT_GATE not in here.standing()
    assert here.enriches(DAY, section)
    assert set(here.jobs(DAY, section)) == ALL_DONE


def test_the_site_changed_its_layout(here: OnCall) -> None:
    heading, section = "The site changed its layout", "REALESTATE"
    here.site.fault(path="/breakingnews/|/section/", body="<html><body>new</body></html>")
    assert not here.crawls(DAY, section)
    here.sees(heading, "economy_news:list_layout")
    here.site.clear_faults()
    here.site.fault(path="/article/", body="<html><body>new</body></html>")
    for _ in range(4):
        assert here.crawls(DAY, section)
    here.sees(heading, "economy_news:article_layout")
    here.site.clear_faults()
    assert here.crawls(DAY, section)
    assert stored(here, section) == 0

    here.does(heading, 0, DAY=DAY)
    here.does(heading, 1, RANGE=span(section))
    assert "PARSE_FAILED" not in here.does(heading, 2, DAY=DAY)
    assert stored(here, section) > 5
    assert here.crawls(DAY, "WORLD", mode="batch")
    assert not {"economy_news:list_layout", "economy_news:article_layout"} & here.standing()


def test_a_batch_is_stuck(here: OnCall) -> None:
    heading, section = "A batch is stuck", "WORLD"
    here.openai.post("batches/pace")  # it goes on by command alone
    assert here.enriches(DAY, section)
    here.sql("UPDATE news.ai_batch SET planned_at = planned_at - interval '27 hours'")
    here.tick("alarms_looked_at")
    here.sees(heading, "batch_stuck:economy_news")
    batch = here.one("SELECT batch_id FROM news.ai_batch WHERE status = 'SUBMITTED'")

    assert batch in here.does(heading, 0, BATCH_ID=batch)
    here.does(heading, 1, BATCH_ID=batch)
    here.openai.post("batches/advance", to="in_progress")
    assert "cancel" in here.does(heading, 2, BATCH_ID=batch)
    here.openai.post("batches/advance")
    here.does(heading, 3, RANGE=span(section))
    assert here.does(heading, 4).split("\n")[:2] == ["batches open: 0", "reservations open: 0"]
    summaries = here.sql(
        "SELECT DISTINCT status FROM news.ai_job WHERE day = %s AND section = %s AND job_type = 'SUMMARY'",
        DAY,
        section,
    )
    assert {status for (status,) in summaries} == ALL_DONE
    here.tick("alarms_looked_at")
    assert "batch_stuck:economy_news" not in here.standing()


def test_the_backlog_grows(here: OnCall) -> None:
    heading, context = "The backlog grows", 9001
    day = post_context(here, context)
    here.tick("alarms_looked_at")
    here.sees(heading, "waiting:context_tags")

    assert "embedding stage (PENDING)" in here.does(heading, 0, CONTEXT=context, DAY=day)
    assert contexts_found(here) == [context]
    here.tick("alarms_looked_at")
    assert "waiting:context_tags" not in here.standing()

    failed = here.one(
        "UPDATE news.ai_job SET status = 'FAILED', error_code = 'lease_lost' WHERE id = "
        "(SELECT max(id) FROM news.ai_job WHERE section = 'INDUSTRY') RETURNING id"
    )
    here.does(heading, 1)
    assert here.one("SELECT status FROM news.ai_job WHERE id = %s", failed) == "PENDING"


def test_the_disk_is_full(here: OnCall) -> None:
    heading = "The disk is full"
    dagster = here.variables["DAGSTER_PG_URL"].replace("+psycopg2", "")
    with psycopg.connect(dagster, autocommit=True) as connection:
        # A pass over the section that changed its layout: others have come since.
        (run,) = connection.execute(
            "UPDATE runs SET end_time = end_time - 9 * 86400 WHERE run_id ="
            " (SELECT run_id FROM runs JOIN run_tags USING (run_id) WHERE status = 'SUCCESS'"
            "  AND pipeline_name = 'economy_news_crawl' AND value = %s ORDER BY runs.id LIMIT 1)"
            " RETURNING run_id",
            (news_key(DAY, "REALESTATE"),),
        ).fetchone() or (None,)
        assert run is not None
        before = _materialised(connection)

        assert "event_logs" not in here.does(heading, 0)  # that is Dagster's database
        here.does(heading, 1)
        here.does(heading, 2)
        assert connection.execute("SELECT 1 FROM runs WHERE run_id = %s", (run,)).fetchone() is None
        assert _materialised(connection) >= before


def _materialised(connection: psycopg.Connection) -> set[tuple[str, str]]:
    statement = "SELECT DISTINCT asset_key, partition FROM event_logs WHERE dagster_event_type = %s"
    return {(row[0], row[1]) for row in connection.execute(statement, ("ASSET_MATERIALIZATION",))}


def test_a_wrong_prompt_was_shipped(here: OnCall) -> None:
    heading = "A wrong prompt was shipped"
    wrong = here.sql(
        "UPDATE news.ai_result SET prompt_version = 'wrong' "
        "WHERE job_type = 'SUMMARY' AND article_id = ANY(%s) RETURNING id",
        [article for article, _ in articles(here)[:2]],
    )
    asked = here.openai.get("ledger/totals")

    assert "3 of 3 answered" in here.does(heading, 0)
    assert here.openai.get("ledger/totals") != asked
    before = here.one("SELECT count(*) FROM news.ai_result WHERE job_type = 'SUMMARY'")
    quoted = here.does(heading, 1, DAY=DAY, RANGE=span("FINANCE"))
    assert f"outdated by prompt, model or input: {len(wrong)} SUMMARY" in quoted
    again = here.one("SELECT count(*) FROM news.ai_result WHERE job_type = 'SUMMARY'") - before
    assert again == len(wrong)
    assert "outdated by prompt" not in here.does(heading, 2, DAY=DAY)


def test_a_day_has_to_be_done_again(here: OnCall) -> None:
    heading = "A day has to be done again"
    known = {article for article, _ in articles(here)}
    results = here.one("SELECT count(*) FROM news.ai_result WHERE article_id = ANY(%s)", list(known))

    assert "SUMMARY" in here.does(heading, 0, DAY=DAY)
    here.does(heading, 1, RANGE=span("FINANCE"))
    assert {article for article, _ in articles(here)} == known
    assert here.one("SELECT count(*) FROM news.ai_result WHERE article_id = ANY(%s)", list(known)) > results
    assert set(here.jobs(DAY, "FINANCE")) == ALL_DONE
    asked = json.loads(here.does(heading, 2, DAY=DAY, SOURCE=SOURCE))
    assert asked["partition"] == f"{DAY}|{SOURCE}"
    (run,) = here.tick("raw_files_requested")
    assert run.run_config["ops"]["raw_file_manifest"]["config"]["force"] is True


def test_somebody_asks_to_be_erased(here: OnCall) -> None:
    heading, context = "Somebody asks to be erased", 9002
    post_context(here, context)
    visit(here, MEMBER)
    oid_aid = articles(here)[-1][1]
    url = address_of(oid_aid)

    cleared = here.does(heading, 0, USER_ID=USER, MEMBER_ID=MEMBER)
    assert '"cancelled":1' in cleared.replace(" ", "")
    assert '"triggers":1' in cleared.replace(" ", "")
    assert contexts_found(here) == []
    here.does(heading, 1, ARTICLE_URL=url)
    said = here.does(heading, 2, MEMBER_ID=MEMBER, CONTEXT=context, ARTICLE_URL=url)
    assert f"no member '{MEMBER}' is known" in said
    assert "CANCELLED" in said
    assert "taken down" in said
    assert oid_aid not in {one for _, one in articles(here)}


def test_the_database_was_restored_from_a_backup(here: OnCall) -> None:
    heading, context = "The database was restored from a backup", 9003
    here.openai.post("batches/pace", seconds=0)
    assert here.runs("context_tags", partition=str(post_context(here, context)))
    visit(here, MEMBER, REFUSER)
    taken_down = articles(here)[-1][1]
    backup, began = here.project.folder / "night.dump", datetime.now(UTC)
    here.does(heading, 0, BACKUP=backup)

    lost = work_since(here)
    forget_people(here, taken_down)
    here.closes_door()
    here.does(heading, 1, BACKUP=backup)
    here.does(heading, 2, BACKUP=backup)
    here.opens_door()
    # What was erased is back, and what came since is gone.
    assert contexts_found(here) == [context]
    assert taken_down in {one for _, one in articles(here)}
    assert here.one("SELECT count(*) FROM recipe.recipe") == 0
    assert here.one("SELECT count(*) FROM raw.domain_sighting") == 0

    url = address_of(taken_down)
    people = {"ERASED_USERS": USER, "ERASED_MEMBERS": MEMBER, "OPTED_OUT": REFUSER, "TAKEN_DOWN": url}
    here.does(heading, 3, **people)
    assert lost.batch in here.does(heading, 4, BACKUP_AT=began.isoformat())
    here.openai.post("batches/advance")
    assert "cancelled" in here.does(heading, 4, BACKUP_AT=began.isoformat())
    assert files_at_the_provider() == []
    # Nothing that looks for work finds these two: one has its job record, the other its marker.
    assert here.runs("recipes_parsed", partition=str(DAY))
    assert here.runs("raw_files_partitions", partition=f"{DAY}|{SOURCE}")
    assert here.one("SELECT count(*) FROM recipe.recipe") == 0
    assert here.one("SELECT count(*) FROM raw.domain_sighting") == 0
    said = here.does(heading, 5, BACKUP_AT=began.isoformat(), RECIPE_DAY=DAY)
    assert f"{lost.recipes} records" in said
    assert here.one("SELECT count(*) FROM recipe.recipe") == lost.recipes
    here.does(heading, 6, DAY=DAY, SOURCE=SOURCE)
    assert here.one("SELECT count(*) FROM raw.domain_sighting") == lost.sightings
    here.does(heading, 7, RANGE=span("GENERAL"))
    assert stored(here, "GENERAL") == lost.articles

    assert here.crawls(DAY, "FINANCE")
    assert contexts_found(here) == []
    assert taken_down not in {one for _, one in articles(here)}
    assert here.sql("SELECT member_id FROM rec.member_opt_out") == [(REFUSER,)]
    said = here.does(heading, 8, ERASED_MEMBERS=MEMBER, TAKEN_DOWN=url)
    assert f"no member '{MEMBER}' is known" in said
    assert "taken down" in said


def test_every_block_of_the_runbook_was_run(here: OnCall, request: pytest.FixtureRequest) -> None:
    ours = [item for item in request.session.items if item.path == request.path]
    if len(ours) < 13:
        pytest.skip("only a part of the situations was asked for")
    assert here.book.not_run() == []
    assert len(here.book.headings) == 10
