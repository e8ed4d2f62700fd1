"""What the server saw and how it ended, and waiting for more of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from manydesks.testing.model.asked import Asked
from manydesks.testing.model.turn import Turn

#: `whole`: as planned and orderly; `cut`: broken off as the script says; `left`: the client went away before the end;
#: `closed`: the server was closed before the end
How = Literal["whole", "cut", "left", "closed"]

SECONDS = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    #: from 1, over all requests
    number: int
    method: str
    path: str
    #: what follows the question mark
    query: str
    #: names in lower case; keys of services are among them
    headers: Mapping[str, str] = field(repr=False)
    #: parsed; None if it is no JSON object
    body: Mapping[str, Any] | None = field(repr=False)
    #: None if it was no request for an answer, or a bad one
    asked: Asked | None
    #: what the script chose; None if it was not asked
    turn: Turn | None

    @property
    def key(self) -> str | None:
        """The key that came with it."""
        return key_of(self.headers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    #: of the request
    number: int
    how: How


class Record:
    """Belongs to one event loop; other threads may read the lists."""

    def __init__(self, keep: int | None) -> None:
        self._keep = keep
        self._changed = asyncio.Event()
        self.requests: list[Request] = []
        self.others: list[Request] = []
        self.endings: list[Ending] = []
        #: how many requests for answers there were, also those that are not kept
        self.seen = 0
        self.ended = 0
        #: how many answers stand still now
        self.hanging = 0

    def saw(self, request: Request, *, for_answer: bool) -> None:
        self.seen += for_answer
        self._keeps(self.requests if for_answer else self.others, request)

    def ends(self, ending: Ending) -> None:
        self.ended += 1
        self._keeps(self.endings, ending)

    def hangs(self, change: int) -> None:
        self.hanging += change
        self._tell()

    async def wait(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not {what} within {seconds:g} s; there were {self}") from None

    def __str__(self) -> str:
        return f"{self.seen} requests, {self.ended} endings, {self.hanging} hanging"

    def _keeps(self, kept: list[Any], entry: object) -> None:
        kept.append(entry)
        if self._keep is not None:
            del kept[: len(kept) - self._keep]
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def key_of(headers: Mapping[str, str]) -> str | None:
    bearer = headers.get("authorization", "")
    return headers.get("x-api-key") or (bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else None)
