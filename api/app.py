"""The small HTTP door: writes rows and reads them, starts nothing itself.

What belongs here: which routers there are and what stands around them. Serve it with `python -m api`, or
`uvicorn --factory api.app:app`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from api import ai_jobs, context_tags, health, metrics, raw_files, recommendations
from api.database import connection_pool, search_pool
from api.errors import NoTraces, answer_errors
from api.limits import BodyLimit
from assets.context_tags.search import ContextSearch, SearchRules
from orchestration.settings import Settings, settings_from_environment
from resources.alerts import AlertResource
from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource
from resources.postgres import database_url_from_environment

# The door crawls nothing, so an expired permission to crawl does not keep it shut.
_BEFORE_ANY_EXPIRY = date.min


def build_app(settings: Settings, database_url: str | None = None) -> FastAPI:
    """The application; without `database_url` DATABASE_URL is read. Connects when a request needs it.

    Raises ServiceNotConfigured where there is no Postgres address.
    """
    address = database_url or database_url_from_environment()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Anew, since an application may be started twice and a closed pool stays closed.
        _make_pools(app, address)
        app.state.pool.open()
        app.state.search_pool.open()
        try:
            yield
        finally:
            await run_in_threadpool(app.state.pool.close)
            await run_in_threadpool(app.state.search_pool.close)

    app = FastAPI(
        title="Granary",
        lifespan=lifespan,
        docs_url="/docs" if settings.api_docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if settings.api_docs else None,
        redirect_slashes=False,
        # By default it hands exceptions and what was sent to whatever OpenTelemetry is installed.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    app.state.settings = settings
    app.state.alerts = AlertResource(urls=",".join(settings.alert_urls))
    app.state.chat = _chat(settings)
    app.state.search = _search(settings, app.state.alerts)
    _make_pools(app, address)
    answer_errors(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(NoTraces)  # the last one added is the outermost
    for router in (
        health.open_routes,
        metrics.internal_routes,
        ai_jobs.admin_routes,
        raw_files.admin_routes,
        raw_files.internal_routes,
        context_tags.internal_routes,
        recommendations.internal_routes,
    ):
        app.include_router(router)
    return app


def _make_pools(app: FastAPI, database_url: str) -> None:
    app.state.pool = connection_pool(database_url)
    app.state.search_pool = search_pool(database_url)


def _chat(settings: Settings) -> ChatResource:
    """Asked nothing here: it knows whose gate the configured key and model have."""
    return ChatResource(model=settings.openai_model, base_url=settings.openai_base_url)


def _search(settings: Settings, alerts: AlertResource) -> ContextSearch:
    embeddings = EmbeddingResource(
        model=settings.openai_embedding_model,
        base_url=settings.openai_base_url,
        timeout_ms=settings.openai_timeout_ms,
        model_prices={name: price.model_dump(mode="json") for name, price in settings.model_prices.items()},
    )
    rules = SearchRules(
        profile=settings.embedding_profile,
        cap_usd=settings.daily_spending_cap_usd,
        probe_minutes=settings.gate_probe_minutes,
    )
    return ContextSearch(embeddings, alerts, rules)


def app() -> FastAPI:
    """The factory for `uvicorn --factory api.app:app`: the application by the environment's settings.

    Raises SettingsError or ServiceNotConfigured; their messages name the variable.
    """
    return build_app(settings_from_environment(_BEFORE_ANY_EXPIRY))
