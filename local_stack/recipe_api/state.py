"""What a running stand-in remembers: edited recipes, the quota, faults and the requests it saw."""

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from local_stack.naver_site.faults import FaultBook
from local_stack.recipe_api.recipes import FIELDS, Row, recipe_rows

KEY = "granary-demo"
_REMEMBERED = 10_000


@dataclass
class SeenRequest:
    """One request outside `/_control`; `status` stays None where no answer was begun."""

    n: int
    path: str
    status: int | None = None


class ApiState:
    """Everything that changes while the stand-in runs. Not for use from several threads."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As after the start."""
        self.rows = recipe_rows()
        self.calls_left: int | None = None
        self.faults = FaultBook()
        self._seen: deque[SeenRequest] = deque(maxlen=_REMEMBERED)
        self._count = 0

    def edit(self, seq: str, fields: dict[str, str]) -> Row:
        """The recipe as it now stands; an unknown `seq` is a new one, after all others.

        Raises ValueError for a field that no row has.
        """
        if unknown := set(fields) - set(FIELDS) | ({"RCP_SEQ"} & set(fields)):
            raise ValueError(f"no field to edit: {', '.join(sorted(unknown))}")
        row = next((one for one in self.rows if one["RCP_SEQ"] == seq), None)
        if row is None:
            row = dict.fromkeys(FIELDS, "") | {"RCP_SEQ": seq}
            self.rows.append(row)
        row.update(fields)
        return row

    def take_call(self) -> bool:
        """Counts one call against the quota; False where it is spent."""
        if self.calls_left is None:
            return True
        self.calls_left -= 1
        return self.calls_left >= 0

    def note_request(self, path: str) -> SeenRequest:
        """Remembers a request; a key that is not the demo's is not kept."""
        parts = path.split("/")
        if parts[1:2] == ["api"] and parts[2:3] != [KEY]:
            parts[2:3] = ["***"]
        self._count += 1
        seen = SeenRequest(self._count, "/".join(parts))
        self._seen.append(seen)
        return seen

    def requests(self) -> dict[str, Any]:
        """The number of requests since the reset, and the latest of them."""
        return {"count": self._count, "requests": [asdict(seen) for seen in self._seen]}
