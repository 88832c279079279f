"""What should be stored of contexts: the contract's rules over plain data."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from assets.context_tags.models import Stage

EXPIRY = timedelta(minutes=10)
STUCK_AFTER = {"PENDING": timedelta(minutes=5), "PROCESSING": timedelta(minutes=10)}
LEFT_TO_THE_RUN = timedelta(minutes=4)
TEXT_KEPT = timedelta(hours=24)
MOST_RETRIES = 3
JUST_AFTER = timedelta(microseconds=1)
FINAL = ("COMPLETED", "FAILED", "CANCELLED")


@dataclass
class Request:
    """The inbox row."""

    user_id: int
    text: str | None
    known: str
    """The last text that was taken, also where it is forgotten."""
    requested_at: datetime
    text_since: datetime
    handled_at: datetime | None = None

    @property
    def waits(self) -> bool:
        return self.handled_at is None or self.handled_at < self.requested_at

    def ask_again(self, now: datetime) -> None:
        """Each attempt is later than the one before and its end."""
        ends = [self.requested_at, *([self.handled_at] if self.handled_at else [])]
        self.requested_at = max(now, *(one + JUST_AFTER for one in ends))


@dataclass
class State:
    """A row of `ai.context_ai_state`; `updated_at` is the token of whoever started its stage."""

    updated_at: datetime
    embedding: str = "PENDING"
    keyword: str = "PENDING"
    retries: int = 0

    def of(self, stage: Stage) -> str:
        return self.embedding if stage is Stage.EMBEDDING else self.keyword

    def become(self, stage: Stage, status: str, now: datetime) -> None:
        """Every change of a stage is a new `updated_at`."""
        if stage is Stage.EMBEDDING:
            self.embedding = status
        else:
            self.keyword = status
        self.updated_at = now

    @property
    def is_final(self) -> bool:
        return self.embedding in FINAL and self.keyword in FINAL

    @property
    def current(self) -> str:
        """The stage that it is at: the keywords wait for the embedding."""
        return self.keyword if self.embedding == "COMPLETED" else self.embedding


@dataclass
class Contexts:
    """All tables by context id. `vectors`: whose, what, and whether the application deleted it."""

    requests: dict[int, Request] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)
    vectors: dict[int, tuple[int, float, bool]] = field(default_factory=dict)
    keywords: dict[int, int] = field(default_factory=dict)
    analyses: dict[int, str] = field(default_factory=dict)

    def post(self, id_: int, user_id: int, text: str, now: datetime) -> bool:
        """Whether the text was taken: it is known, or a stage is PENDING or there is none."""
        request, state = self.requests.get(id_), self.states.get(id_)
        if request is None:
            self.requests[id_] = Request(user_id, text, text, now, now)
            return True
        request.ask_again(now)
        is_open = state is None or "PENDING" in (state.embedding, state.keyword)
        if text != request.known and not is_open:
            return False
        request.user_id, request.text, request.known, request.text_since = user_id, text, text, now
        return True

    def is_startable(self, id_: int, stage: Stage, now: datetime) -> bool:
        """Rule 3."""
        state = self.states.get(id_)
        if state is None or (stage is Stage.KEYWORD and state.embedding != "COMPLETED"):
            return False
        expired = state.of(stage) == "PROCESSING" and state.updated_at < now - EXPIRY
        return state.of(stage) == "PENDING" or expired

    def is_held(self, id_: int, stage: Stage, token: datetime) -> bool:
        """Whether the token is the one of now."""
        state = self.states.get(id_)
        return state is not None and (state.of(stage), state.updated_at) == ("PROCESSING", token)

    def has_final_state(self, id_: int) -> bool:
        return id_ in self.states and self.states[id_].is_final

    def forgettable(self, now: datetime) -> list[Request]:
        """Texts of what is over, or a day old."""
        return [
            request
            for id_, request in self.requests.items()
            if request.text and (request.text_since < now - TEXT_KEPT or self.has_final_state(id_))
        ]

    def erase(self, user_id: int, now: datetime) -> None:
        """Nothing of the user is left, and what runs is cancelled."""
        mine = {id_ for id_, request in self.requests.items() if request.user_id == user_id}
        embedded = {id_ for id_, vector in self.vectors.items() if vector[0] == user_id}
        for id_ in mine:
            del self.requests[id_]
        for id_ in embedded:
            del self.vectors[id_]
        for id_ in mine | embedded:
            self.keywords.pop(id_, None)
            self.analyses.pop(id_, None)
            for stage in Stage:
                if id_ in self.states and self.states[id_].of(stage) in ("PENDING", "PROCESSING"):
                    self.states[id_].become(stage, "CANCELLED", now)

    def stuck(self, now: datetime) -> dict[int, State]:
        """Contexts that wait too long for somebody, and were not asked for lately."""
        return {
            id_: state
            for id_, state in self.states.items()
            if state.current in STUCK_AFTER
            and state.updated_at < now - STUCK_AFTER[state.current]
            and not (id_ in self.requests and self.requests[id_].requested_at > now - LEFT_TO_THE_RUN)
        }

    def send_again(self, now: datetime) -> int:
        """How many are tried once more; the expiry of what is PROCESSING goes on."""
        again = {id_: state for id_, state in self.stuck(now).items() if state.retries < MOST_RETRIES}
        for id_, state in again.items():
            state.retries += 1
            if state.current == "PENDING":
                state.updated_at = now
            if id_ in self.requests:
                self.requests[id_].ask_again(now)
        return len(again)

    def give_up(self, now: datetime) -> int:
        """How many stages are FAILED: stuck after the last retry, or waiting for an embedding that failed."""
        ended = 0
        for state in [one for one in self.stuck(now).values() if one.retries >= MOST_RETRIES]:
            stage = Stage.KEYWORD if state.embedding == "COMPLETED" else Stage.EMBEDDING
            state.become(stage, "FAILED", now)
            ended += 1
        for state in self.states.values():
            if (state.embedding, state.keyword) == ("FAILED", "PENDING"):
                state.become(Stage.KEYWORD, "FAILED", now)
                ended += 1
        return ended
