"""What applications, readers and the provider do while somebody is on call, and what becomes of it."""

import json
from dataclasses import dataclass
from datetime import date

import boto3
import dagster as dg
import httpx
import openai
from botocore.config import Config

from local_stack.front_pages.sites import domains
from orchestration.partitions import news_key, raw_sources
from tests.end_to_end.on_call import OnCall

DAY = date(2026, 11, 26)
SOURCE = "kr/books"
USER, RECORD = 7, 70
MEMBER, REFUSER = 5, 6
PROFILE = "openai-text-embedding-3-small-1536-cosine-v1"


@dataclass(frozen=True)
class Lost:
    """What was done after a backup, and is gone with the database."""

    batch: str
    recipes: int
    sightings: int
    articles: int


def span(section: str) -> str:
    """RANGE, of one section."""
    return f"{news_key(DAY, section)}...{news_key(DAY, section)}"


def door(here: OnCall) -> httpx.Client:
    """An application at the HTTP door."""
    token = {"Authorization": f"Bearer {here.variables['API_TOKEN']}"}
    return httpx.Client(base_url=f"{here.api}/internal/v1", headers=token, timeout=60)


def articles(here: OnCall, section: str = "FINANCE") -> list[tuple[int, str]]:
    """Id and `oid/aid` of the section's articles that have a summary."""
    return here.sql(
        "SELECT DISTINCT article.id, oid || '/' || aid FROM news.article AS article "
        "JOIN news.summary ON article_id = article.id WHERE day = %s AND section = %s ORDER BY 1",
        DAY,
        section,
    )


def stored(here: OnCall, section: str) -> int:
    """How many articles of the section there are."""
    found: int = here.one("SELECT count(*) FROM news.article WHERE day = %s AND section = %s", DAY, section)
    return found


def address_of(article: str) -> str:
    """The article's, from its `oid/aid`."""
    return f"https://n.news.naver.com/mnews/article/{article}"


def post_context(here: OnCall, context_id: int) -> date:
    """The day (UTC) of a text that was posted yesterday, so that no run lingers for more."""
    here.sql("INSERT INTO ai.context_ai_state (context_id) VALUES (%s)", context_id)
    ids = {"contextId": context_id, "userId": USER, "recordId": RECORD}
    with door(here) as opened:
        posted = opened.post("/context/process", json={**ids, "text": "친구와 조용한 카페에서 커피"})
        posted.raise_for_status()
    day: date = here.one(
        "UPDATE granary.context_request SET requested_at = requested_at - interval '1 day' "
        "WHERE context_id = %s RETURNING (requested_at AT TIME ZONE 'UTC')::date",
        context_id,
    )
    return day


def contexts_found(here: OnCall) -> list[int]:
    """What a search among the user's contexts finds."""
    query = {"userId": USER, "query": "카페", "limit": 5, "embeddingProfile": PROFILE}
    with door(here) as opened:
        answer = opened.post("/search", json=query).raise_for_status()
    return [one["contextId"] for one in answer.json()["results"]]


def visit(here: OnCall, *members: int) -> None:
    """The members are there now."""
    with door(here) as opened:
        for member in members:
            opened.post(f"/members/{member}/visits").raise_for_status()


def forget_people(here: OnCall, article: str) -> None:
    """The user and the member are erased, another refuses to be profiled, an article is taken down."""
    with door(here) as opened:
        opened.delete(f"/users/{USER}").raise_for_status()
        opened.delete(f"/members/{MEMBER}").raise_for_status()
        opened.put(f"/members/{REFUSER}/profiling", json={"allowed": False}).raise_for_status()
    assert here.runs("economy_news_takedown", ops={"take_article_down": {"url": address_of(article)}})


def work_since(here: OnCall) -> Lost:
    """Recipes and a raw file are done, a section is in a batch that is under way."""
    for job in ("recipes_fetch", "recipes_parsed", "recipes_embedded"):
        ops = {"recipe_jobs": {"limit": 2}} if job == "recipes_fetch" else None
        assert here.runs(job, partition=str(DAY), ops=ops), job
    put_raw_file(here)
    assert here.runs("raw_files_partitions", partition=f"{DAY}|{SOURCE}")
    here.openai.post("batches/pace")
    assert here.crawls(DAY, "GENERAL", mode="batch")
    assert here.enriches(DAY, "GENERAL")
    return Lost(
        here.one("SELECT batch_id FROM news.ai_batch WHERE status = 'SUBMITTED'"),
        here.one("SELECT count(*) FROM recipe.recipe"),
        here.one("SELECT count(*) FROM raw.domain_sighting"),
        stored(here, "GENERAL"),
    )


def put_raw_file(here: OnCall) -> None:
    """The one file of a source, which a pass has seen."""
    client = boto3.client(
        "s3",
        endpoint_url=here.variables["S3_ENDPOINT_URL"],
        aws_access_key_id=here.variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=here.variables["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    country, category = SOURCE.split("/")
    key = f"raw/country={country}/category={category}/date={DAY}/raw_0001.json"
    body = json.dumps({"domains": domains()[:2]}).encode()
    client.put_object(Bucket=here.variables["S3_BUCKET"], Key=key, Body=body)
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions(str(raw_sources.name), [SOURCE])


def files_at_the_provider() -> list[str]:
    """The ids of all files."""
    return [file.id for file in openai.OpenAI().files.list()]
