"""What a pipeline contributes to a quote. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from operations.quote_answer import HostWork, Work


class Parts(NamedTuple):
    """Calls, requests to hosts, sentences, and the models whose gates are passed."""

    works: Sequence[Work]
    hosts: Sequence[HostWork]
    notes: Sequence[str]
    models: Sequence[str]
