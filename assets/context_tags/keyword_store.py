"""Statements on the keywords of contexts and what no keyword covered, on a given connection."""

from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from assets.context_tags import state_store
from assets.context_tags.models import KeywordResult
from assets.context_tags.unstorable import without_texts
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "keywords.sql")


def store(connection: psycopg.Connection, results: Sequence[KeywordResult], preset_version: int) -> set[int]:
    """Those that were still ours: stored and COMPLETED in one transaction, the others discarded (rule 12).

    A context's keywords are replaced as a set; the analysis row is written even where there is none. An
    unknown model ('') is stored as NULL. Raises Unstorable, with nothing of the batch stored.
    """
    made = {one.context_id: one for one in results}
    claims = state_store.claims({id_: one.token for id_, one in made.items()})
    with without_texts(), connection.transaction():
        ours = [id_ for (id_,) in connection.execute(state_store.SQL["lock_keyword"], claims)]
        if not ours:
            return set()
        connection.execute(SQL["delete"], {"ids": ours})
        selected = [(id_, one) for id_ in ours for one in made[id_].judgement.selected]
        rows = {
            "ids": [id_ for id_, _ in selected],
            "keyword_ids": [one.keyword_id for _, one in selected],
            "confidences": [one.confidence for _, one in selected],
            "preset_version": preset_version,
        }
        connection.execute(SQL["insert"], rows)
        analyses = [_analysis(made[id_]) for id_ in ours]
        connection.execute(
            SQL["store_analysis"], {"analyses": Jsonb(analyses), "preset_version": preset_version}
        )
        return {id_ for (id_,) in connection.execute(state_store.SQL["complete_keyword"], {"ids": ours})}


def _analysis(result: KeywordResult) -> dict[str, object]:
    return {
        "context_id": result.context_id,
        "unmatched_concepts": list(result.judgement.unmatched_concepts),
        "model": result.judgement.model,
    }
