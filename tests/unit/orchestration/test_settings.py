"""What may be set, what it is without being set, and what a wrong value says."""

import os
import re
import shlex
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from orchestration.partitions import SECTIONS
from orchestration.settings import Settings, SettingsError, settings_from_environment

TODAY = date(2026, 11, 30)
EXAMPLE_FILE = Path(__file__).resolve().parents[3] / ".env.example"

# Read by the resource that uses them, when it is used; no settings.
SERVICE_ADDRESSES = {
    "DATABASE_URL",
    "MONGODB_URI",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_DEFAULT_REGION",
    "OPENAI_API_KEY",
    "RECIPE_API_KEY",
    "API_TOKEN",
    "ADMIN_TOKEN",
    "CONTEXT_HMAC_KEY",
    "DAGSTER_PG_URL",
}
# Empty by default, so the file shows how a value is written instead.
SHOWN_BY_EXAMPLE = {
    "GRANARY_PIPELINES",
    "MODEL_PRICES",
    "CRAWL_PERMISSION",
    "CRAWL_CONTACT",
    "METADATA_SYNC_HOURS",
    "LOCAL_TEST_SITES",
}

CONTRACT_DEFAULTS = {
    "granary_pipelines": (),
    "daily_spending_cap_usd": Decimal(5),
    "gate_probe_minutes": 30,
    "model_prices": {},
    "alert_urls": (),
    "granary_environment": "development",
    "embedding_profile": "openai-text-embedding-3-small-1536-cosine-v1",
    "context_own_state": False,
    "context_processing_expiry_seconds": 600,
    "context_linger_seconds": 20,
    "context_candidates": 10,
    "context_candidate_floor": 0.30,
    "context_presets_file": "",
    "recommendation_trigger_limit": 100,
    "recommendation_trigger_lease_minutes": 5,
    "recommendation_pick_limit": 10,
    "recommendation_concurrency": 5,
    "recommendation_size": 20,
    "visit_session_minutes": 60,
    "api_docs": False,
    "s3_endpoint_url": "",
    "s3_bucket": "granary",
    "raw_catch_up_days": 7,
    "metadata_sync_hours": None,
    "metadata_ttl_days": 7,
    "fetch_metadata": True,
    "local_test_sites": "",
    "openai_batch_model": "gpt-4o-mini",
    "openai_embedding_model": "text-embedding-3-small",
    "max_enqueued_tokens": 2_000_000,
    "run_retention_days": 30,
    "log_retention_days": 14,
    "inbox_retention_days": 30,
    "job_retention_days": 180,
    "mongodb_database": "granary",
    "recipe_api_base_url": "",
    "fetch_limit": 100,
    "pushgateway_url": "",
    "openai_base_url": "",
    "openai_model": "gpt-4o-mini",
    "openai_timeout_ms": 20_000,
    "openai_max_output_tokens": 3_000,
    "openai_temperature": 0.2,
    "ai_enabled": True,
    "ai_concurrency": 16,
    "ai_batch_size": 50,
    "ai_max_retries": 5,
    "ai_retry_base_seconds": 30,
    "ai_retry_max_seconds": 600,
    "ai_lease_minutes": 10,
    "crawl_enabled": True,
    "naver_base_url": "",
    "crawl_permission": None,
    "crawl_contact": "contact not configured",
    "crawl_sections": SECTIONS,
    "crawl_max_pages": 1,
    "crawl_backfill_max_pages": 200,
    "crawl_stop_after_seen_streak": 8,
    "crawl_timeout_ms": 8_000,
    "crawl_sleep_min_ms": 250,
    "crawl_sleep_max_ms": 700,
    "crawl_min_interval_ms": 1_000,
    "min_content_length_for_ai": 1_000,
    "skip_duplicates": True,
    "recheck_days": 0,
    "article_retention_days": 30,
}


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.lower() in Settings.model_fields:
            monkeypatch.delenv(name)


def settings_with(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return settings_from_environment(TODAY)


def complaint_about(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_with(monkeypatch, **variables)
    return str(caught.value)


def test_nothing_configured_gives_the_contracts_defaults() -> None:
    assert settings_from_environment(TODAY).model_dump() == CONTRACT_DEFAULTS


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = {name.upper(): "" for name in Settings.model_fields}
    assert settings_with(monkeypatch, **empty).model_dump() == CONTRACT_DEFAULTS


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("GATE_PROBE_MINUTES", "-1", "greater than or equal to 1"),
        ("AI_CONCURRENCY", "0", "greater than or equal to 1"),
        ("AI_CONCURRENCY", "1000", "less than or equal to 256"),
        ("AI_BATCH_SIZE", "-50", "greater than or equal to 1"),
        ("AI_MAX_RETRIES", "-1", "greater than or equal to 0"),
        ("AI_LEASE_MINUTES", "0", "greater than 0"),
        ("CRAWL_MAX_PAGES", "0", "greater than or equal to 1"),
        ("CRAWL_SLEEP_MIN_MS", "-250", "greater than or equal to 0"),
        ("CRAWL_TIMEOUT_MS", "8s", "valid integer"),
        ("OPENAI_TIMEOUT_MS", "-1", "greater than or equal to 100"),
        ("OPENAI_TEMPERATURE", "2.5", "less than or equal to 2"),
        ("MIN_CONTENT_LENGTH_FOR_AI", "-1000", "greater than or equal to 0"),
        ("AI_ENABLED", "perhaps", "valid boolean"),
        ("CRAWL_SECTIONS", "FINANCE,SPORTS", ", ".join(SECTIONS)),
        ("CRAWL_SECTIONS", " , ", "at least one of FINANCE"),
        ("GRANARY_PIPELINES", "weather", "allowed: economy_news"),
        ("NAVER_BASE_URL", "news.example", "http:// or https://"),
        ("NAVER_BASE_URL", "ftp://news.example", "http:// or https://"),
        ("NAVER_BASE_URL", "https://", "with a host"),
        ("NAVER_BASE_URL", "http://[::1", "http:// or https://"),
        ("NAVER_BASE_URL", "http://127.0.0.1@news.example", "no password"),
        ("OPENAI_BASE_URL", "http://host:port/v1", "http:// or https://"),
        ("OPENAI_BASE_URL", "http://host:99999/v1", "http:// or https://"),
        ("CRAWL_PERMISSION", "contract 17", "`reference; holder; expiry date as YYYY-MM-DD`"),
        ("CRAWL_PERMISSION", "contract 17; ; 2027-06-30", "`reference; holder; expiry date as YYYY-MM-DD`"),
        ("CRAWL_PERMISSION", "contract 17; Example Media; soon", "YYYY-MM-DD"),
        ("CRAWL_PERMISSION", "5", "`reference; holder; expiry date as YYYY-MM-DD`"),
        ("CRAWL_CONTACT", "편집국", "ASCII"),
        ("CRAWL_CONTACT", "a@b.example\r\nX-Other: 1", "ASCII"),
        ("DAILY_SPENDING_CAP_USD", "five", "valid decimal"),
        ("DAILY_SPENDING_CAP_USD", "-1", "greater than or equal to 0"),
        ("DAILY_SPENDING_CAP_USD", "Infinity", "finite number"),
        ("DAILY_SPENDING_CAP_USD", "NaN", "finite number"),
        ("OPENAI_MODEL", "local-llama", "MODEL_PRICES"),
        ("MODEL_PRICES", "gpt=1", "must be JSON"),
        ("MODEL_PRICES", "[1]", "valid dictionary"),
        ("MODEL_PRICES", '{"own": {"input": -1}}', "greater than or equal to 0"),
        ("MODEL_PRICES", '{"own": {"input": NaN}}', "finite number"),
        ("MODEL_PRICES", '{"own": {"output": 1}}', "required"),
        ("MODEL_PRICES", '{"own": {"input": 1, "ouput": 2}}', "not permitted"),
    ],
)
def test_a_wrong_value_stops_with_the_variables_name_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, allowed: str
) -> None:
    complaint = complaint_about(monkeypatch, **{name: value})
    assert complaint.startswith(name)
    assert allowed in complaint


def test_a_wrong_price_is_named_to_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = '{"right": {"input": 1}, "wrong": {"input": 1, "output": -2}}'
    assert complaint_about(monkeypatch, MODEL_PRICES=prices).startswith("MODEL_PRICES[wrong][output]: ")


def test_every_wrong_variable_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    complaint = complaint_about(monkeypatch, AI_CONCURRENCY="0", GRANARY_PIPELINES="weather", AI_ENABLED="?")
    named = {line.partition(":")[0] for line in complaint.splitlines()}
    assert named == {"AI_CONCURRENCY", "GRANARY_PIPELINES", "AI_ENABLED"}


def test_the_shortest_pause_must_not_be_above_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    complaint = complaint_about(monkeypatch, CRAWL_SLEEP_MIN_MS="701")
    assert complaint == "CRAWL_SLEEP_MIN_MS must not be above CRAWL_SLEEP_MAX_MS"
    monkeypatch.setenv("CRAWL_SLEEP_MIN_MS", "700")
    assert settings_from_environment(TODAY).crawl_sleep_min_ms == 700


@pytest.mark.parametrize(
    "address",
    ["https://news.example", "http://127.0.0.1.news.example", "http://10.0.0.1"],
)
def test_a_pace_under_a_second_is_refused_for_a_host_that_is_not_loopback(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    complaint = complaint_about(monkeypatch, NAVER_BASE_URL=address, CRAWL_MIN_INTERVAL_MS="999")
    assert "CRAWL_MIN_INTERVAL_MS below 1000 is allowed only where NAVER_BASE_URL is on loopback" in complaint


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:8080"])
def test_a_pace_under_a_second_is_allowed_on_loopback(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    settings = settings_with(monkeypatch, NAVER_BASE_URL=address, CRAWL_MIN_INTERVAL_MS="0")
    assert settings.crawl_min_interval_ms == 0


def test_a_pace_of_a_second_is_allowed_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_with(
        monkeypatch, NAVER_BASE_URL="https://news.example/", CRAWL_MIN_INTERVAL_MS="1000"
    )
    assert settings.naver_base_url == "https://news.example"


def test_a_permission_holds_to_the_end_of_its_last_day(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_with(monkeypatch, CRAWL_PERMISSION="contract 17; Example Media; 2026-11-30")
    permission = settings.crawl_permission
    assert permission is not None
    assert (permission.reference, permission.holder, permission.expires) == (
        "contract 17",
        "Example Media",
        TODAY,
    )


def test_an_expired_permission_stops_with_its_name_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    complaint = complaint_about(monkeypatch, CRAWL_PERMISSION="contract 17; Example Media; 2026-11-29")
    assert complaint.startswith("CRAWL_PERMISSION expired on 2026-11-29")
    assert "renew it" in complaint


@pytest.mark.parametrize(
    ("written", "cap"),
    [("none", None), (" None ", None), ("0", Decimal(0)), ("2.50", Decimal("2.50")), ("5", Decimal(5))],
)
def test_a_cap_is_an_amount_or_the_word_none(
    monkeypatch: pytest.MonkeyPatch, written: str, cap: Decimal | None
) -> None:
    assert settings_with(monkeypatch, DAILY_SPENDING_CAP_USD=written).daily_spending_cap_usd == cap


def test_lists_are_comma_separated_and_sections_keep_the_menus_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = settings_with(
        monkeypatch,
        CRAWL_SECTIONS="GENERAL, FINANCE ,FINANCE",
        ALERT_URLS="json://a.example, json://b.example",
    )
    assert settings.crawl_sections == ("FINANCE", "GENERAL")
    assert settings.alert_urls == ("json://a.example", "json://b.example")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NAVER_BASE_URL", "http://crawler:canary-7431@:80"),
        ("NAVER_BASE_URL", "ftp://crawler:canary-7431@news.example"),
        ("OPENAI_BASE_URL", "http://user:canary-7431@host:99999/v1"),
        ("OPENAI_BASE_URL", "sk-canary-7431"),
    ],
)
def test_a_password_or_key_in_a_wrong_address_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    complaint = complaint_about(monkeypatch, **{name: value})
    assert complaint.startswith(name)
    assert "canary" not in complaint


def test_secrets_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = dict.fromkeys(SERVICE_ADDRESSES, "postgresql://canary-7431@host/name")
    complaint = complaint_about(monkeypatch, AI_ENABLED="?", CRAWL_SLEEP_MIN_MS="-1", **secrets)
    assert "canary" not in complaint
    monkeypatch.delenv("AI_ENABLED")
    monkeypatch.delenv("CRAWL_SLEEP_MIN_MS")
    monkeypatch.setenv("ALERT_URLS", "slack://canary-7431/b/c")
    assert "canary" not in repr(settings_from_environment(TODAY))


def examples() -> dict[str, str]:
    """The assignments that `.env.example` shows, each commented out, read as a shell would."""
    found: dict[str, str] = {}
    for line in EXAMPLE_FILE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"#([A-Z][A-Z0-9_]*)=(.*)$", line):
            assert match[1] not in found, f"{match[1]} stands twice"
            found[match[1]] = "".join(shlex.split(match[2]))
    return found


def test_the_example_file_names_every_setting_and_service_address_and_nothing_else() -> None:
    assert set(examples()) == {name.upper() for name in Settings.model_fields} | SERVICE_ADDRESSES


def test_the_example_file_holds_only_comments_so_that_loading_it_changes_nothing() -> None:
    lines = EXAMPLE_FILE.read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if line.strip() and not line.startswith("#")]


def test_the_example_file_shows_the_real_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {
        name: value for name, value in examples().items() if name not in SERVICE_ADDRESSES | SHOWN_BY_EXAMPLE
    }
    assert all(value for name, value in shown.items() if CONTRACT_DEFAULTS[name.lower()] not in ("", ()))
    assert settings_with(monkeypatch, **shown).model_dump() == CONTRACT_DEFAULTS


@pytest.mark.parametrize("name", sorted(SHOWN_BY_EXAMPLE))
def test_what_the_example_file_shows_instead_of_a_default_is_valid_and_differs(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    settings = settings_with(monkeypatch, **{name: examples()[name]})
    assert getattr(settings, name.lower()) != CONTRACT_DEFAULTS[name.lower()]


def test_an_alarm_address_that_is_none_stops_at_the_start_and_is_not_quoted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALERT_URLS", "json://a.example, xoxb-token-of-slack")
    with pytest.raises(SettingsError, match="ALERT_URLS: address number 2") as refused:
        settings_from_environment(date(2026, 11, 30))
    assert "xoxb" not in str(refused.value)
