"""Typed settings from the environment: one place for every default.

What belongs here: names, bounds and defaults of what an operator may set. What does not: secrets
(DATABASE_URL and OPENAI_API_KEY are read by the resource that uses them, when it is used), and
anything that no operator varies (see `policies.py`).
"""

import json
import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from orchestration.partitions import PIPELINES, SECTIONS
from resources.embedding_profile import DEFAULT_PROFILE, check_profile
from resources.errors import ModelHasNoPrice
from resources.model_table import Model, ModelPrice, model_named

VECTOR_DIMENSIONS = 1_536
"""Of every vector column; another number is another table."""

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
_PORT = re.compile(r"[1-9][0-9]{0,4}")  # not isdigit, which takes ² too


class SettingsError(Exception):
    """A setting has a value that is not allowed; the message names the variable and what is allowed."""


class CrawlPermission(BaseModel):
    """A publisher's leave to crawl: `reference; holder; expiry date`, recorded with every article."""

    reference: str = Field(min_length=1)
    holder: str = Field(min_length=1)
    expires: date


def _comma_separated(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _http_url_or_empty(value: str) -> str:
    value = value.strip().rstrip("/")
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        readable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        readable = False
    if not readable or "@" in parts.netloc:
        raise ValueError("must be an http:// or https:// address with a host and no password, or empty")
    return value


def _spending_cap(value: object) -> object:
    if isinstance(value, str) and value.strip().lower() == "none":
        return None
    return value


def _read_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError(
            'must be JSON, such as {"my-model": {"input": 0.15, "cached": 0.075, "output": 0.60}}'
        ) from None


CommaSeparated = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)]


class Settings(BaseSettings):
    """Every setting of Granary that is no secret. Field names are the environment variables in lower case."""

    model_config = SettingsConfigDict(frozen=True, env_ignore_empty=True, extra="ignore")

    granary_pipelines: CommaSeparated = ()
    """Pipelines whose schedules and sensors run by themselves; the others start by hand only."""

    daily_spending_cap_usd: Annotated[
        Annotated[Decimal, Field(ge=0)] | None, BeforeValidator(_spending_cap)
    ] = Decimal(5)
    """Day in Asia/Seoul, all pipelines together; 0: no call is made; the word `none`: no cap."""
    gate_probe_minutes: int = Field(30, ge=1, le=1440)
    model_prices: Annotated[dict[str, ModelPrice], NoDecode, BeforeValidator(_read_json)] = Field(
        default_factory=dict
    )
    """JSON: prices of models that the built-in table lacks, USD per million tokens."""
    alert_urls: CommaSeparated = Field((), repr=False)
    """Where alarms go, in apprise's notation; none: only the log. They hold tokens."""

    granary_environment: str = Field("development", min_length=1, max_length=50)
    """Stands in failure logs; `production` syncs front pages every four hours instead of six."""
    api_docs: bool = False
    """Serves the HTTP door's own documentation at /docs."""

    s3_endpoint_url: Annotated[str, BeforeValidator(_http_url_or_empty)] = ""
    """Empty: there is no bucket. Its keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""
    s3_bucket: str = Field("granary", min_length=1)
    raw_catch_up_days: int = Field(7, ge=0, le=60)
    """Days before yesterday that a pass over the bucket looks at too."""
    metadata_sync_hours: int | None = Field(None, ge=1, le=24)
    """How often old front pages are fetched again; unset: six, four in production."""
    metadata_ttl_days: int = Field(7, ge=1, le=365)
    fetch_metadata: bool = True
    local_test_sites: str = ""
    """For tests and the demo only: where names that end in .test are fetched from, as 127.0.0.1:8080."""

    openai_base_url: Annotated[str, BeforeValidator(_http_url_or_empty)] = ""
    openai_model: str = Field("gpt-4o-mini", min_length=1)
    openai_timeout_ms: int = Field(20_000, ge=100, le=600_000)
    openai_max_output_tokens: int = Field(3_000, ge=100, le=100_000)
    openai_temperature: float = Field(0.2, ge=0, le=2)

    openai_batch_model: str = Field("gpt-4o-mini", min_length=1)
    openai_embedding_model: str = Field("text-embedding-3-small", min_length=1)
    max_enqueued_tokens: int = Field(2_000_000, ge=1_000)
    """How many tokens may wait in the provider's batch queue at once, by the account's limit."""

    embedding_profile: str = DEFAULT_PROFILE
    """Names the vector space of contexts and products; must agree with openai_embedding_model."""
    context_own_state: bool = False
    """No application keeps the states: the door creates them, and a schedule sends again and finalises."""
    context_processing_expiry_seconds: int = Field(600, ge=10, le=86_400)
    """After which a stage left PROCESSING may be taken again; the application counts on ten minutes."""
    context_linger_seconds: float = Field(20, ge=0, le=300)
    """How long a run waits for more requests before it ends."""
    context_candidates: int = Field(10, ge=1, le=100)
    context_candidate_floor: float = Field(0.30, ge=-1, le=1)
    """The least cosine similarity of a keyword that the model is asked about."""
    context_presets_file: str = ""
    """Empty: the keywords shipped with the pipeline."""

    recommendation_trigger_limit: int = Field(100, ge=1, le=10_000)
    """Due members that one short transaction takes; a run goes on until none is due."""
    recommendation_trigger_lease_minutes: int = Field(5, ge=1, le=120)
    recommendation_pick_limit: int = Field(10, ge=1, le=1_000)
    recommendation_concurrency: int = Field(5, ge=1, le=64)
    recommendation_size: int = Field(20, ge=1, le=1_000)
    """Products recommended to a member."""
    visit_session_minutes: float = Field(60, gt=0, le=10_080)
    """A visit within these of the one before belongs to it and moves nothing."""

    run_retention_days: int = Field(30, ge=1, le=3_650)
    """Runs older than this are purged, but never the newest that made a partition."""
    log_retention_days: int = Field(14, ge=1, le=3_650)
    """Log lines and step output of runs, that make no partition."""
    inbox_retention_days: int = Field(30, ge=1, le=3_650)
    """Rows of requests, visits and queue items that have come to their end."""
    job_retention_days: int = Field(180, ge=1, le=3_650)
    """Jobs and results that a newer one has taken the place of; payloads of recipes that are done."""

    mongodb_database: str = Field("granary", min_length=1)
    recipe_api_base_url: Annotated[str, BeforeValidator(_http_url_or_empty)] = ""
    """Empty: no recipe is fetched. Its key is RECIPE_API_KEY."""
    fetch_limit: int = Field(100, ge=1, le=100_000)
    """Recipes that one day's fetch asks for."""
    pushgateway_url: Annotated[str, BeforeValidator(_http_url_or_empty)] = ""
    """Empty: recipe metrics are pushed nowhere."""

    ai_enabled: bool = True
    ai_concurrency: int = Field(16, ge=1, le=256)
    ai_batch_size: int = Field(50, ge=1, le=1_000)
    ai_max_retries: int = Field(5, ge=0, le=20)
    ai_retry_base_seconds: int = Field(30, ge=1, le=3_600)
    ai_retry_max_seconds: int = Field(600, ge=1, le=86_400)
    ai_lease_minutes: float = Field(10, gt=0, le=120)

    crawl_enabled: bool = True
    naver_base_url: Annotated[str, BeforeValidator(_http_url_or_empty)] = ""
    """Empty: nothing is crawled. The real site needs `crawl_permission` too."""
    crawl_permission: Annotated[CrawlPermission | None, NoDecode] = None
    crawl_contact: str = "contact not configured"
    """Stands in the user agent, so that a publisher can reach whoever crawls."""
    crawl_sections: CommaSeparated = SECTIONS
    crawl_max_pages: int = Field(1, ge=1, le=200)
    crawl_backfill_max_pages: int = Field(200, ge=1, le=1_000)
    crawl_stop_after_seen_streak: int = Field(8, ge=1, le=1_000)
    crawl_timeout_ms: int = Field(8_000, ge=100, le=120_000)
    crawl_sleep_min_ms: int = Field(250, ge=0, le=60_000)
    crawl_sleep_max_ms: int = Field(700, ge=0, le=60_000)
    crawl_min_interval_ms: int = Field(1_000, ge=0, le=60_000)
    """Between two requests to one host over all runs; under 1000 only for a host on loopback."""
    min_content_length_for_ai: int = Field(1_000, ge=0)
    """Characters of the cleaned body; 0: no article gets AI results."""
    skip_duplicates: bool = True
    recheck_days: int = Field(0, ge=0, le=30)
    """Stored articles this young are looked at again, each once an hour; 0: never."""
    article_retention_days: int = Field(30, ge=1, le=3_650)

    @field_validator("granary_pipelines")
    @classmethod
    def _known_pipelines(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _only_known(names, PIPELINES)

    @field_validator("crawl_sections")
    @classmethod
    def _known_sections(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = _only_known(names, SECTIONS)
        if not known:
            raise ValueError(f"must name at least one of {', '.join(SECTIONS)}")
        return known

    @field_validator("alert_urls")
    @classmethod
    def _addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [number for number, url in enumerate(urls, 1) if "://" not in url]
        if wrong:
            raise ValueError(f"address number {wrong[0]} is none: they read scheme://…, separated by commas")
        return urls

    @field_validator("local_test_sites")
    @classmethod
    def _on_loopback(cls, address: str) -> str:
        host, _, port = address.rpartition(":")
        if address and not (host in LOOPBACK_HOSTS and _PORT.fullmatch(port) and int(port) < 65_536):
            raise ValueError("must be an address on loopback with a port, such as 127.0.0.1:8080, or empty")
        return address

    @field_validator("crawl_contact")
    @classmethod
    def _fits_a_header(cls, contact: str) -> str:
        if not contact.isascii() or not contact.isprintable():
            raise ValueError("must be printable ASCII, such as an e-mail address or a link: it is a header")
        return contact

    @field_validator("crawl_permission", mode="before")
    @classmethod
    def _read_permission(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        parts = [part.strip() for part in value.split(";")]
        if len(parts) != 3 or not all(parts):
            raise ValueError("must read `reference; holder; expiry date as YYYY-MM-DD`")
        try:
            return CrawlPermission(reference=parts[0], holder=parts[1], expires=date.fromisoformat(parts[2]))
        except ValueError:
            raise ValueError(f"its third part must be a date as YYYY-MM-DD, not {parts[2]!r}") from None

    @model_validator(mode="after")
    def _that_agree(self) -> "Settings":
        if self.crawl_sleep_min_ms > self.crawl_sleep_max_ms:
            raise ValueError("CRAWL_SLEEP_MIN_MS must not be above CRAWL_SLEEP_MAX_MS")
        try:
            check_profile(self.embedding_profile, self.openai_embedding_model, VECTOR_DIMENSIONS)
        except ValueError as error:
            raise ValueError(
                f"EMBEDDING_PROFILE {error}: change it together with OPENAI_EMBEDDING_MODEL"
            ) from None
        host = urlsplit(self.naver_base_url).hostname
        if self.crawl_min_interval_ms < 1_000 and host is not None and host not in LOOPBACK_HOSTS:
            raise ValueError(
                "CRAWL_MIN_INTERVAL_MS below 1000 is allowed only where NAVER_BASE_URL is on loopback"
            )
        return self

    def hours_between_metadata_syncs(self) -> int:
        return self.metadata_sync_hours or (4 if self.granary_environment == "production" else 6)

    def priced_model(self) -> Model:
        """The model that is asked. Raises SettingsError where it has no price."""
        given = self.model_prices.get(self.openai_model)
        if given is not None and "output" not in given.model_fields_set:
            raise SettingsError(
                f"MODEL_PRICES: {self.openai_model} needs a price for its output too (0 for a local server)"
            )
        try:
            return model_named(self.openai_model, self.model_prices)
        except ModelHasNoPrice as error:
            raise SettingsError(f"OPENAI_MODEL: {error}") from None

    def permission_in_force(self, today: date) -> CrawlPermission | None:
        """The permission, or None where there is none. An expired one raises SettingsError."""
        if self.crawl_permission is not None and self.crawl_permission.expires < today:
            raise SettingsError(
                f"CRAWL_PERMISSION expired on {self.crawl_permission.expires}: "
                "renew it with the holder, or empty it to stop crawling"
            )
        return self.crawl_permission


def _only_known(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is unknown; allowed: {', '.join(known)}")
    return tuple(name for name in known if name in names)


def settings_from_environment(today: date) -> Settings:
    """The settings in force.

    Raises SettingsError with one line per wrong variable: its name, what is allowed, what was given (but
    no address).
    `today` (Asia/Seoul) decides whether a crawl permission has expired.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(problem) for problem in error.errors())) from None
    settings.permission_in_force(today)
    settings.priced_model()
    return settings


def _explain(problem: Any) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return message
    field, *inner = (str(part) for part in problem["loc"])
    where = field.upper() + "".join(f"[{part}]" for part in inner)
    if field.endswith(("_url", "_urls")):  # may hold a password, or a key that was set under the wrong name
        return f"{where}: {message}"
    return f"{where}: {message} (given: {str(problem.get('input'))[:80]!r})"
