"""Following the office's events: where one is, what to make of what comes, and when to give up; nothing waits here."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from manydesks.client import calls, failure
from manydesks.client.calls import AGAIN_SECONDS
from manydesks.client.stream import Cut, Lines
from manydesks.client.tries import pause
from manydesks.client.values import Event
from manydesks.domain.errors import OfficeError

#: a client that asks the office where it is does so this often before it believes what it finds there
LOOKS = len(AGAIN_SECONDS)
#: whatever `Retry-After` says
LONGEST_SECONDS = 60.0
STREAM = "text/event-stream"
#: which history its events are of; an office that was put back from a backup tells another one
HISTORY = "X-Manydesks-History"


class Following:
    """`asks`: whether the office may be found elsewhere. `wait`: also for one that is not there to begin with."""

    def __init__(self, *, after: int | None, live: bool, wait: bool, asks: bool) -> None:
        self._last, self._live, self._wait, self._asks = after, live, wait, asks
        self._cut, self._lines = Cut(), Lines(live=live)
        self._history: str | None = None
        self._begun = False
        self._tried = 0
        #: how often somebody was there who is not the office
        self._strangers = 0
        self._later = 0.0

    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": str(self._last)} if self._last is not None else {}

    def params(self) -> dict[str, str]:
        return {"history": self._history} if self._history is not None else {}

    def begins(self, url: str, response: httpx.Response) -> bool:
        """Whether this is the stream, and not somebody who answers anything; raises if it will not be."""
        kind = response.headers.get("Content-Type", "")
        if kind.partition(";")[0].strip().lower() != STREAM:
            self._stranger(failure.no_office(url, f"its stream of events is {kind or 'nothing that has a name'}"))
            return False
        if self._last is None and response.headers.get("Last-Event-ID", "").isdecimal():
            # whoever has seen nothing yet resumes from where this began
            self._last = int(response.headers["Last-Event-ID"])
        self._history = response.headers.get(HISTORY)
        self._cut, self._lines = Cut(), Lines(live=self._live)
        self._begun, self._tried, self._strangers = True, 0, 0
        return True

    def take(self, chunk: bytes) -> Iterator[Event]:
        for line in self._cut.lines(chunk):
            event = self._lines.take(line)
            # also behind what was not for us: some day it is no longer kept
            self._last = self._lines.place if self._lines.place is not None else self._last
            if event is not None:
                yield event

    def refused(self, url: str, response: httpx.Response) -> None:
        """Returns if it is only for now."""
        if response.status_code == 429:
            said = response.headers.get("Retry-After", "")
            self._later = min(LONGEST_SECONDS, float(said)) if said.isdecimal() else pause(LOOKS)
        elif response.status_code < 500 or not self._may_come():
            calls.value_of(url, response)

    def lost(self, error: httpx.TransportError) -> None:
        """Returns if it may come back."""
        if failure.is_hopeless(error):
            self._stranger(failure.lost(error), error)
        elif not self._may_come():
            raise failure.lost(error) from error

    def pause(self) -> float:
        """Before it is tried again."""
        seconds, self._later = max(self._later, pause(self._tried)), 0.0
        self._tried += 1
        return seconds

    def _may_come(self) -> bool:
        return self._begun or self._wait or (self._asks and self._tried < LOOKS)

    def _stranger(self, refusal: OfficeError, error: Exception | None = None) -> None:
        self._strangers += 1
        if not self._asks or self._strangers > LOOKS:
            raise refusal from error
