"""Finds a user's records by what a query says: its vector, asked for with its money, against theirs."""

import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import psycopg

from assets.context_tags import search_store
from assets.context_tags.models import DEFAULT_PROFILE
from assets.context_tags.search_store import Found
from resources.alerts import AlertResource
from resources.api_failure import RETRY, ApiFailure
from resources.embeddings import EmbeddingResource
from resources.errors import ModelHasNoPrice, SpendingCapReached
from resources.model_gate import ModelGate
from resources.paid_embeddings import embed_texts

log = logging.getLogger("granary.context_tags")

PIPELINE = "context_tags"
FLOOR = 0.30
FLOOR_OF_A_SHORT_WORD = 0.24
SHORT_WORD_CHARACTERS = 5


class SearchUnavailable(Exception):
    """Transient: the model is away, its gate is shut, or the day's money is spent. Says no more."""


class SearchRefused(Exception):
    """The provider refused us, or this query. Says no more."""


@dataclass(frozen=True)
class SearchRules:
    """What an operator may set. `cap_usd`: the day's, None for none."""

    profile: str = DEFAULT_PROFILE
    cap_usd: Decimal | None = None
    probe_minutes: int = 30


class ContextSearch:
    """Searches the contexts of one embedding profile. Thread-safe."""

    def __init__(self, embeddings: EmbeddingResource, alerts: AlertResource, rules: SearchRules) -> None:
        self.profile = rules.profile
        self._embeddings = embeddings
        self._alerts = alerts
        self._rules = rules

    def find(self, connection: psycopg.Connection, user_id: int, query: str, limit: int) -> list[Found]:
        """The user's records nearest to the query, best first (`search_store.nearest` has the rules).

        The connection is in autocommit mode: no transaction is open while the model is asked. Raises
        SearchUnavailable, SearchRefused, psycopg.Error.
        """
        vector = self._vector_of(connection, query)
        return search_store.nearest(connection, user_id, vector, self.profile, limit, floor_for(query))

    def _vector_of(self, connection: psycopg.Connection, query: str) -> Sequence[float]:
        gate = ModelGate(connection, self._embeddings.gate_key, self._alerts, self._rules.probe_minutes)
        if shut := gate.pass_():
            log.warning("no search: the gate of %s is shut (%s)", self._embeddings.model, shut.reason)
            raise SearchUnavailable
        try:
            (vector,) = embed_texts(
                connection, self._embeddings, PIPELINE, [query], self._rules.cap_usd, gate
            )
        except (SpendingCapReached, ModelHasNoPrice) as error:
            # The gate stays open: what others have reserved may come back in a second.
            gate.asked_nothing()
            log.warning("no search: %s", error)
            raise SearchUnavailable from None
        except ApiFailure as failure:
            log.warning("no search: the model's answer was %s", failure.code)
            if failure.verdict.effect == RETRY:
                gate.asked_nothing()
                raise SearchUnavailable from None
            if not gate.shut_for(failure):
                gate.answered()  # it is about this query alone
            raise SearchRefused from None
        gate.answered()
        return vector


def floor_for(query: str) -> float:
    """The least similarity that counts: one short word says little, so it is near to little."""
    words = unicodedata.normalize("NFC", query).split()
    is_short = len(words) == 1 and len(words[0]) <= SHORT_WORD_CHARACTERS
    return FLOOR_OF_A_SHORT_WORD if is_short else FLOOR
