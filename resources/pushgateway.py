"""Pushes counters to a Prometheus Pushgateway. A push that fails only warns.

The values are cumulative, since the gateway keeps what it was given last and adds nothing.
"""

import logging
from collections.abc import Sequence

import dagster as dg
import psycopg
from pydantic import Field

log = logging.getLogger("granary.pushgateway")

TIMEOUT_SECONDS = 5.0

_COUNTERS = """
SELECT name, labels, value FROM granary.counter
WHERE starts_with(name, %(prefix)s)
  AND (labels ->> 'stage' = %(stage)s OR name = ANY(%(names)s))
"""


class PushgatewayResource(dg.ConfigurableResource):
    """Where batch jobs leave their metrics."""

    url: str = Field(default="", description="PUSHGATEWAY_URL; empty: nothing is pushed.")

    def push(self, connection: psycopg.Connection, job: str, stage: str, names: Sequence[str] = ()) -> bool:
        """Pushes the job's counters of this stage, and those named that only this stage counts.

        The group is (job, stage): a counter in two groups would be added up. False where nothing was pushed.
        Never raises for the gateway.
        """
        if not self.url:
            return False
        from prometheus_client.exposition import pushadd_to_gateway

        from resources.exposition import counter_families, registry_of

        rows = connection.execute(
            _COUNTERS, {"prefix": f"{job}_", "stage": stage, "names": list(names)}
        ).fetchall()
        registry = registry_of(counter_families(rows))
        try:
            pushadd_to_gateway(
                self.url, job, registry, grouping_key={"stage": stage}, timeout=TIMEOUT_SECONDS
            )
        except Exception as error:  # whatever it answers, the stage is done
            # No message of the error's: some quote the address, which may hold a password.
            what = " ".join(filter(None, (type(error).__name__, str(getattr(error, "code", "")))))
            log.warning("the metrics of %s were not pushed (%s): see PUSHGATEWAY_URL", stage, what)
            return False
        return True
