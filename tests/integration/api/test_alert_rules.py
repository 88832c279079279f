"""Prometheus' own tool over deploy/prometheus: each rule tells when it should, and not before.

Prometheus may be older here than in compose.yaml; none of the rules needs what came since.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.integration.api.test_watching_files import RULES, rules

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="prometheus is not installed")

HOURS = 60
LASTS = 3 * 24 * HOURS
"""Minutes of made-up time, which begins at midnight UTC on a first of January; a sample a minute."""
QUIET = {'up{job="granary"}': f"1x{LASTS}", "granary_heartbeat_age_seconds": f"60x{LASTS}"}
SPENT = 'granary_spending_usd{kind="spent"}'
RESERVED = 'granary_spending_usd{kind="reserved"}'
CAP = 'granary_spending_usd{kind="cap"}'
CALLS_OK = 'openai_api_requests_total{model="m",schema="s",status="ok",error_code=""}'
CALLS_FAILED = 'openai_api_requests_total{model="m",schema="s",status="error",error_code="http_500"}'
SAVED = 'crawler_articles_total{status="saved"}'
CRAWLS = "crawler_run_seconds_count"
FETCHES = 'recipe_ingestion_stage_latency_ms_count{stage="fetch"}'


@dataclass(frozen=True)
class Course:
    """How series run, in promtool's notation: at one minute nothing is told, at another these rules are."""

    names: tuple[str, ...]
    series: dict[str, str]
    quiet_at: int
    told_at: int


COURSES = (
    Course(("GranaryIsNotScraped",), {'up{job="granary"}': f"1x9 0x{LASTS}"}, 12, 13),
    Course(("GranaryIsNotScraped",), {'up{job="granary"}': "1x9 stale"}, 12, 13),
    Course(("GranaryMetricsIncomplete",), {'granary_scrape_failed{part="recipes"}': "0x9 1x20"}, 14, 15),
    Course(
        ("GranaryHeartbeatMissing",),
        {"granary_heartbeat_age_seconds": "0+60x2000"},
        26 * HOURS + 15,
        26 * HOURS + 16,
    ),
    Course(("GranaryHeartbeatMissing",), {"granary_heartbeat_age_seconds": "60x9 stale"}, 24, 25),
    Course(("GranaryAlarmsNotDelivered",), {'alerts_sent_total{outcome="failed"}': "0x9 1x9"}, 9, 10),
    Course(("GranaryAlarmsStanding",), {"granary_alarms_standing": "0x9 2x100"}, 69, 70),
    Course(("GranaryGateShut",), {'granary_gate_shut{model="m",reason="QUOTA"}': "0x9 1x9"}, 9, 10),
    Course(("GranarySpending80",), {SPENT: "3.9x9 3.5x9", RESERVED: "0x9 0.5x9", CAP: "5x20"}, 8, 10),
    Course(("GranarySpending80", "GranarySpending100"), {SPENT: "3.9x9 4.99x9", CAP: "5x20"}, 8, 10),
    Course(("GranaryApiErrors",), {CALLS_OK: "0+9x60", CALLS_FAILED: "0x29 1+1x30"}, 29, 45),
    Course(
        ("GranaryNoNewArticles",),
        {SAVED: f"0+5x{9 * HOURS} {5 * 9 * HOURS}x{LASTS}", CRAWLS: f"0+1x{LASTS}"},
        12 * HOURS,
        12 * HOURS + 30,
    ),
    Course(
        ("GranaryNoRecipesToday",), {FETCHES: f"0x{2 * HOURS} 1x{LASTS}"}, 4 * HOURS + 30, 28 * HOURS + 30
    ),
    Course(("GranaryContextsWait",), {"context_oldest_waiting_seconds": "0+60x30"}, 11, 12),
    Course(
        ("GranaryMembersWait",),
        {'granary_oldest_waiting_seconds{pipeline="recommendations"}': "0+60x30"},
        11,
        12,
    ),
    Course(
        ("GranaryBacklogGrows",),
        {'granary_oldest_waiting_seconds{pipeline="raw_files"}': f"0+60x{LASTS}"},
        6 * HOURS + 15,
        6 * HOURS + 16,
    ),
    Course(
        ("GranaryJobsSuspended",),
        {'granary_queue_size{pipeline="economy_news",status="SUSPENDED"}': "0x9 7x100"},
        69,
        70,
    ),
    Course(("GranaryLeasesLost",), {'ai_leases_lost_total{pipeline="economy_news"}': "0x9 2x19 6x9"}, 12, 32),
    Course(
        ("GranaryBatchStuck",),
        {'granary_oldest_batch_seconds{pipeline="recipes"}': f"0+60x{LASTS}"},
        26 * HOURS,
        26 * HOURS + 1,
    ),
    Course(("GranaryContractBroken",), {"context_contract_breaches_total": "0x9 1x9"}, 9, 10),
)


def test_every_rule_is_led_to_tell() -> None:
    told = {name for course in COURSES for name in course.names}
    assert told == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize("course", COURSES, ids=lambda course: "_and_".join(course.names))
def test_a_rule_tells_when_it_should_and_not_before(course: Course, tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    expected = {course.quiet_at: (), course.told_at: course.names}
    asked = [
        {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names],
        }
        for minute, names in expected.items()
    ]
    series = [{"series": name, "values": values} for name, values in {**QUIET, **course.series}.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    written = {"rule_files": [RULES.name], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "course.yml").write_text(yaml.safe_dump(written))
    done = subprocess.run(
        ["promtool", "test", "rules", "course.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
