"""Small catalogues and histories, written as a test needs them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from assets.recommendations.models import Catalogue, Event, EventKind, GenerationType, MemberHistory

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
G2, G1, G0 = GenerationType.G2, GenerationType.G1, GenerationType.G0


def catalogue_of(products: Mapping[int, Mapping[str, Any]], dimensions: int = 3) -> Catalogue:
    """By product id: `category`, `active`, `vector` (of any length; none: zeros), `popularity`."""
    vectors = np.zeros((len(products), dimensions), dtype=np.float32)
    for row, product in enumerate(products.values()):
        if "vector" in product:
            vectors[row] = np.array(product["vector"]) / np.linalg.norm(product["vector"])
    each = list(products.values())
    return Catalogue(
        product_ids=np.array(list(products), dtype=np.int64),
        categories=np.array([product.get("category", "") for product in each], dtype=object),
        is_active=np.array([product.get("active", True) for product in each], dtype=np.bool_),
        vectors=vectors,
        popularity=np.array([product.get("popularity", 0.0) for product in each], dtype=np.float64),
    )


def event(product_id: int, days_ago: float = 1, weight: float = 1, kind: str = "view") -> Event:
    return Event(product_id, EventKind(kind), weight, NOW - timedelta(days=days_ago))


def member(*events: Event, wanted: GenerationType = G2, opted_out: bool = False) -> MemberHistory:
    return MemberHistory(7, events, opted_out, wanted)
