"""A stand-in for the office's door, and a way to call `manydesks` with it.

The command line decides nothing, so it is tested with a door that answers as it is told and remembers what was asked.
The real door has its own tests, and both together have theirs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from manydesks.cli.invocation import Invocation
from manydesks.cli.main import cli
from manydesks.settings.home import Home


class ManualClock:
    def __init__(self) -> None:
        self.milliseconds = 1_000_000

    def now(self) -> int:
        return self.milliseconds

    def monotonic(self) -> int:
        return self.milliseconds


class StandInReader:
    """Shows `traces` one after the other, a wait between each; the last one stays."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.traces: list[dict[str, Any] | None] = []
        self.counts = dict.fromkeys(
            ("pending", "processing", "held", "completed", "dead", "cancelled", "incoming", "outgoing"), 0
        )
        self.people: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []
        self.paused = False
        self.letters: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self.listed: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] = []
        self.used: dict[str, Any] = {}
        self.capped: list[dict[str, Any]] = []
        self.shown: dict[str, Any] | None = None
        #: what `messages` was asked for
        self.asked: list[dict[str, Any]] = []
        self.glance: dict[str, Any] = {"holds": {}, "responses": {}, "questions": 0}
        #: what was said before
        self.earlier: list[dict[str, Any]] = []
        self.ledger: list[dict[str, Any]] = []
        #: the oldest event that is kept
        self.kept_from = 1
        self.waits: list[float] = []
        self.after_wait: Callable[[], None] = lambda: None
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def queue_status(self, agent: str | None = None) -> dict[str, int]:
        return self.counts

    def office_paused(self) -> bool:
        return self.paused

    def overview(self) -> dict[str, Any]:
        return self.glance

    def history(self, agents: Any, *, channel: str, limit: int) -> list[dict[str, Any]]:
        return self.earlier[-limit:]

    def questions(self) -> list[dict[str, Any]]:
        return self.open

    def messages(self, **asked: Any) -> list[dict[str, Any]]:
        self.asked.append(asked)
        return self.listed

    def letter(self, message_id: str) -> dict[str, Any] | None:
        return self.shown

    def agents(self) -> list[dict[str, Any]]:
        return self.people

    def teams(self) -> list[dict[str, Any]]:
        return self.groups

    def caps(self, budget: Any, day: str) -> list[dict[str, Any]]:
        return self.capped

    def usage(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        return self.used

    def posts(self, team: str, *, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        return [post for post in self.said if post["id"] > after][-limit:]

    def dead(self, agent: str | None = None) -> list[dict[str, Any]]:
        return [letter for letter in self.letters if agent in (None, letter["agent"])]

    def held(self, agent: str | None = None) -> list[dict[str, Any]]:
        return [letter for letter in self.waiting if agent in (None, letter["agent"])]

    def trace(self, id: str) -> dict[str, Any] | None:
        return self.traces[0] if self.traces else None

    def events(
        self, after: int, limit: int, kinds: list[str] | None = None, trace: str | None = None
    ) -> list[dict[str, Any]]:
        found = [
            event
            for event in self.ledger
            if event["seq"] > after and (not kinds or event["kind"] in kinds) and trace in (None, event["trace"])
        ]
        return found[:limit]

    def first(self) -> int:
        return self.kept_from

    def head(self) -> int:
        return self.ledger[-1]["seq"] if self.ledger else 0

    def wait(self, timeout_seconds: float) -> bool:
        self.waits.append(timeout_seconds)
        self.clock.milliseconds += round(timeout_seconds * 1000)
        if len(self.traces) > 1:
            self.traces.pop(0)
        self.after_wait()
        return True


class StandInDoor:
    """Answers each verb with what `answers` holds for it; an exception is raised."""

    def __init__(self, clock: ManualClock) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        self.running: Any = {"pid": 4242, "version": "0.1.0", "uptime_ms": 65_000}
        self.stops: Any = True
        self.signed: int | None = None
        self.the_reader: Any = StandInReader(clock)

    def ask(self, verb: str, **args: Any) -> dict[str, Any]:
        self.asked.append((verb, args))
        return _give(self.answers.get(verb, {}))  # type: ignore[no-any-return]

    def host(self, seconds: float = 10.0) -> dict[str, Any] | None:
        return _give(self.running)  # type: ignore[no-any-return]

    def runs(self) -> bool:
        return self.running is not None

    def last_sign(self) -> int | None:
        return self.signed

    def stop(self, timeout: float) -> bool:
        self.asked.append(("stop", {"timeout": timeout}))
        return _give(self.stops)  # type: ignore[no-any-return]

    def reader(self) -> StandInReader:
        return _give(self.the_reader)  # type: ignore[no-any-return]


def _give(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def door(clock: ManualClock) -> StandInDoor:
    return StandInDoor(clock)


@pytest.fixture
def reader(door: StandInDoor) -> StandInReader:
    return door.the_reader  # type: ignore[no-any-return]


@pytest.fixture
def home(tmp_path: Any) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def run(door: StandInDoor, clock: ManualClock, home: Home) -> Callable[..., Result]:
    def call(
        *args: str, input: str | bytes | None = None, person: bool = False, environ: dict[str, str] | None = None
    ) -> Result:
        invocation = Invocation(
            environ=environ or {},
            home=home,
            door=door,  # type: ignore[arg-type]
            clock=clock,
            interactive=lambda: person,
        )
        before = os.umask(0o077)
        try:
            return CliRunner().invoke(cli, list(args), input=input, obj=invocation, prog_name="manydesks")
        finally:
            os.umask(before)  # a command sets its own, for a process that is its own

    return call


@pytest.fixture
def message() -> Callable[..., dict[str, Any]]:
    """A message of a trace, as the reader shows it."""

    def make(message_id: str = "console_aaaaaaaa", agent: str = "coder", **changes: Any) -> dict[str, Any]:
        return {
            "messageId": message_id,
            "parent": None,
            "agent": agent,
            "fromAgent": None,
            "sender": "rene",
            "text": "fix it",
            "status": "completed",
            "hop": 0,
            "createdAt": 1_700_000_000_000,
            "queueMs": 12,
            "attempts": 1,
            "lastError": None,
            "runs": [],
            "responses": [],
            **changes,
        }

    return make


@pytest.fixture
def response() -> Callable[..., dict[str, Any]]:
    def make(id: str = "r1", text: str | None = "Done.", status: str = "acked") -> dict[str, Any]:
        return {"id": id, "status": status, "text": text, "channel": "console"}

    return make
