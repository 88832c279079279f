"""OpenAI's batch API: input files, batches and their results, over OpenAI or any server that speaks it.

Nothing is tried again here. After an ApiUnavailable the call may have had its effect all the same: whoever
creates batches looks for his own with `created_since` before he creates one again, and for files that
never became a batch with `files_named`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal, TypeVar

from pydantic import Field

from resources.api_failure import FAIL, RETRY, ApiFailure, Verdict
from resources.batch_state import QUEUE_FULL_CODE, BatchState, moment_of, state_of
from resources.model_table import Model
from resources.openai_api import OpenAiResource, usage_of
from resources.spending import Usage

if TYPE_CHECKING:
    from openai import OpenAI

# How far the API's clock may be behind ours before a batch of our own is overlooked.
CLOCK_MARGIN = timedelta(minutes=5)
Endpoint = Literal["/v1/chat/completions", "/v1/embeddings"]
_PAGE = 100
_CHUNK_BYTES = 1 << 16
_T = TypeVar("_T")


class QueueFull(ApiFailure):
    """The account has too many tokens waiting in batches; nothing was created, and no line is at fault."""


class InputFileGone(ApiFailure):
    """The batch was not created, since the API does not have its input file (any more)."""


class BatchResource(OpenAiResource):
    """Batches of one model's calls. A time-out is per read or write, so a large file may take longer."""

    TIMEOUT_SETTING: ClassVar[str] = ""

    timeout_ms: int = Field(default=120_000, description="Of each read or write, not of a file as a whole.")

    @contextmanager
    def open(self) -> Iterator["BatchApi"]:
        """The API over one client, closed afterwards. Raises ApiFailure where no key is set."""
        with self._new_client() as client:
            yield BatchApi(client, self._failures)


class BatchApi:
    """Each method is one call (a list: one a page). All raise ApiFailure, ApiUnavailable if it may pass."""

    def __init__(self, client: "OpenAI", failures: Callable[[], AbstractContextManager[None]]) -> None:
        self._client = client
        self._failures = failures

    def upload(self, lines: BinaryIO, name: str) -> str:
        """The id of the new input file. `name` must end in .jsonl; `lines`, a seekable file, is streamed."""
        with self._failures():
            return _id_of(self._client.files.create(file=(name, lines, "application/jsonl"), purpose="batch"))

    def create(self, input_file_id: str, endpoint: Endpoint, metadata: Mapping[str, str]) -> BatchState:
        """The new batch, to be done within a day. Raises QueueFull and InputFileGone, too.

        After an ApiUnavailable it may exist. Metadata: at most 16 pairs, values of up to 512 characters.
        """
        try:
            with self._failures():
                return state_of(
                    self._client.batches.create(
                        input_file_id=input_file_id,
                        endpoint=endpoint,
                        completion_window="24h",
                        metadata=dict(metadata),
                    )
                )
        except ApiFailure as failure:
            if failure.code == QUEUE_FULL_CODE:
                message = "the account's batch queue is full"
                raise QueueFull(Verdict(RETRY), failure.code, message, failure.status) from None
            # Providers say it with either status and in words only, so the file is looked for.
            if failure.status in (400, 404) and not self._has_file(input_file_id):
                message = "the input file is gone"
                raise InputFileGone(Verdict(FAIL), "input_file_gone", message, failure.status) from None
            raise

    def look(self, batch_id: str) -> BatchState | None:
        """The batch as it is now, None if the API does not know it."""
        return self._unless_unknown(lambda: state_of(self._client.batches.retrieve(batch_id)))

    def created_since(self, since: datetime) -> Iterator[BatchState]:
        """The account's batches from some minutes before `since` (aware) on, newest first."""
        for state in self._listed(self._client.batches.list, state_of):
            if state.created_at < since - CLOCK_MARGIN:
                return
            yield state

    def files_named(self, name: str, since: datetime) -> list[str]:
        """The ids of batch input files of exactly this name, from some minutes before `since` (aware) on."""
        files = self._listed(self._client.files.list, _file_of, purpose="batch")
        return [one.id for one in files if one.name == name and one.created_at >= since - CLOCK_MARGIN]

    def download_to(self, file_id: str, target: BinaryIO) -> bool:
        """Writes the file's bytes to the target; False, and nothing written, if the file is gone.

        Where it raises, the target may hold the first part.
        """

        def download() -> bool:
            with self._client.files.with_streaming_response.content(file_id) as response:
                if "text/html" in response.headers.get("content-type", ""):
                    raise ValueError("a page instead of a file")
                for chunk in response.iter_bytes(_CHUNK_BYTES):
                    target.write(chunk)
            return True

        return self._unless_unknown(download) or False

    def download(self, file_id: str) -> bytes | None:
        """The file's bytes, None if it is gone. Held in memory: for 200 MB there is `download_to`."""
        content = BytesIO()
        return content.getvalue() if self.download_to(file_id, content) else None

    def delete_file(self, file_id: str) -> None:
        """The file is gone afterwards, also if it was before."""
        self._unless_unknown(lambda: self._client.files.delete(file_id))

    def delete_left(self, file: str, since: datetime) -> bool:
        """Deletes a file by its id, or an input file by its name (….jsonl) where nobody knows the id.

        False where no file of that name was uploaded since some minutes before `since` (aware).
        """
        found = self.files_named(file, since) if file.endswith(".jsonl") else [file]
        for file_id in found:
            self.delete_file(file_id)
        return bool(found)

    def cancel(self, batch_id: str) -> BatchState | None:
        """The batch, cancelling or over already; None if the API does not know it."""
        try:
            return self._unless_unknown(lambda: state_of(self._client.batches.cancel(batch_id)))
        except ApiFailure as failure:
            state = self.look(batch_id) if failure.status in (400, 409) else None
            if state is None or not state.is_over:
                raise
            return state

    def _has_file(self, file_id: str) -> bool:
        return self._unless_unknown(lambda: self._client.files.retrieve(file_id)) is not None

    def _unless_unknown(self, ask: Callable[[], _T]) -> _T | None:
        """The answer; None where the API says 404.

        A wrong OPENAI_BASE_URL says so to everything: taken for an answer, it would have every batch sent
        again. So an address that knows no list of batches raises.
        """
        try:
            with self._failures():
                return ask()
        except ApiFailure as failure:
            if failure.status != 404:
                raise
        next(self._listed(self._client.batches.list, state_of), None)
        return None

    def _listed(self, ask: Callable[..., Any], read: Callable[[Any], _T], **query: str) -> Iterator[_T]:
        """Every entry of a list, page by page. What is no list raises: it must not look like an empty one."""
        seen: set[str] = set()
        while True:
            with self._failures():
                page = ask(limit=_PAGE, **query)
                if not isinstance(page.data, list):
                    raise ValueError("no list")
                entries = [read(one) for one in page.data]
                ids = [_id_of(one) for one in page.data]
                if not seen.isdisjoint(ids):
                    raise ValueError("a list that repeats itself")
            yield from entries
            if not page.has_more or not ids:
                return
            seen.update(ids)
            query["after"] = ids[-1]


def line_usage(body: Any, model: Model) -> Usage:
    """What one answered line used, from its response body; nothing counted where the body says nothing.

    `model` at batch prices: `priced_model.in_batch()`.
    """
    try:
        return usage_of(body["usage"], model)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Usage(1)


@dataclass(frozen=True)
class _File:
    id: str
    name: str
    created_at: datetime


def _file_of(file: Any) -> _File:
    return _File(_id_of(file), str(file.filename), moment_of(file.created_at))


def _id_of(thing: Any) -> str:
    if not isinstance(thing.id, str) or not thing.id:
        raise ValueError("an answer without an id")
    return thing.id
