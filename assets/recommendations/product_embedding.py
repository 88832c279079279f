"""Vectors of the products whose text changed. Usable without Dagster."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice

import psycopg

from assets.recommendations import product_store
from assets.recommendations.product_store import ProductText
from resources.api_failure import FAIL, ApiFailure
from resources.embeddings import EmbeddingResource
from resources.errors import SpendingCapReached
from resources.model_gate import ModelGate
from resources.paid_embeddings import embed_texts

log = logging.getLogger("granary.recommendations")

PIPELINE = "recommendations"
BUDGET = "BUDGET"
READ_AT_ONCE = 200


@dataclass
class EmbedCounts:
    """What one run has done.

    skipped: products whose text the API does not take. changed_meanwhile: vectors thrown away since the text
    is another by now. stopped_by: why the gate is shut, such as QUOTA or BUDGET; the rest waits for it.
    """

    embedded: int = 0
    skipped: int = 0
    changed_meanwhile: int = 0
    stopped_by: str | None = None


def embed_products(
    connection: psycopg.Connection,
    embeddings: EmbeddingResource,
    gate: ModelGate,
    cap_usd: Decimal | None,
    profile: str,
) -> EmbedCounts:
    """Asks for what is missing and stores it request by request, in the order of the products' ids.

    Raises ApiFailure for what may pass, and ModelHasNoPrice before anything is asked.
    """
    return ProductEmbedder(connection, embeddings, gate, cap_usd, profile).run()


class ProductEmbedder:
    """Embeds what is missing, once."""

    def __init__(
        self,
        connection: psycopg.Connection,
        embeddings: EmbeddingResource,
        gate: ModelGate,
        cap_usd: Decimal | None,
        profile: str,
    ) -> None:
        self._connection = connection
        self._embeddings = embeddings
        self._gate = gate
        self._cap_usd = cap_usd
        self._profile = profile
        self._counts = EmbedCounts()

    def run(self) -> EmbedCounts:
        """See `embed_products`."""
        _ = self._embeddings.priced_model
        shut = self._gate.pass_()
        self._counts.stopped_by = None if shut is None else shut.reason
        after = 0
        while not self._counts.stopped_by and (products := self._changed(after)):
            after = products[-1].id
            for request in self._requests_of(products):
                if not self._counts.stopped_by:
                    self._embed(request)
        self._gate.asked_nothing()
        return self._counts

    def _changed(self, after: int) -> list[ProductText]:
        # A probe is one call; once it is answered the gate is open for the others.
        limit = 1 if self._gate.is_probe else READ_AT_ONCE
        return product_store.changed(self._connection, self._profile, limit, after)

    def _requests_of(self, products: Sequence[ProductText]) -> Iterator[list[ProductText]]:
        """In parts of one request, so that what one has brought is stored before the next can fail."""
        rest = iter(products)
        for texts in self._embeddings.requests_of([one.text for one in products]):
            yield list(islice(rest, len(texts)))

    def _embed(self, products: Sequence[ProductText]) -> None:
        """One request, or the two halves of one that cannot be taken as a whole."""
        try:
            vectors = self._ask(products)
        except SpendingCapReached as reached:
            if len(products) == 1 or not reached.by_this_call_alone:
                self._gate.shut(BUDGET, str(reached))
                self._counts.stopped_by = BUDGET
                return
        except ApiFailure as failure:
            if self._gate.shut_for(failure):
                self._counts.stopped_by = failure.verdict.reason
                return
            if failure.verdict.effect != FAIL:
                self._gate.asked_nothing()
                raise
            self._gate.answered()
            if len(products) == 1:
                log.warning("product %d gets no vector: %s", products[0].id, failure.code)
                product_store.refuse(self._connection, products[0], self._profile, failure.code)
                self._counts.skipped += 1
                return
        else:
            self._gate.answered()
            stored = product_store.store(self._connection, zip(products, vectors, strict=True), self._profile)
            self._counts.embedded += stored
            self._counts.changed_meanwhile += len(products) - stored
            return
        middle = len(products) // 2
        for half in (products[:middle], products[middle:]):
            if not self._counts.stopped_by:
                self._embed(half)

    def _ask(self, products: Sequence[ProductText]) -> list[list[float]]:
        texts = [one.text for one in products]
        return embed_texts(self._connection, self._embeddings, PIPELINE, texts, self._cap_usd, self._gate)
