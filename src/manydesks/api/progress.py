"""What runs are saying just now: the last words of each, told to those who follow, and then forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from manydesks.api.rendering import rendered_live
from manydesks.office.surface import Live

#: what one run says is told this often at most, and the last of it this long after it was said at the latest
LIVE_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """The last words of a run."""

    #: higher than those of all that was said before
    stamp: int
    live: Live
    data: bytes


class Progress:
    """One for each hub."""

    def __init__(self, *, soon: Callable[[], None], now: Callable[[], None]) -> None:
        """`soon` and `now`: wake whoever follows."""
        self._soon, self._now = soon, now
        self.stamp = 0
        #: by session
        self._said: dict[str, Said] = {}
        #: by run, the tool it called last and has no answer of
        self._tools: dict[str, str] = {}
        #: by session, when its last words were told, and those that have said something since
        self._told_at: dict[str, float] = {}
        self._untold: set[str] = set()
        self._later: asyncio.TimerHandle | None = None

    def say(self, live: Live) -> None:
        loop = asyncio.get_running_loop()
        self._keep(live)
        self._untold.add(live.session)
        left = self._told_at.get(live.session, 0.0) + LIVE_SECONDS - loop.time()
        if left <= 0:
            self._soon()
        elif self._later is None:
            # a model that pauses in the middle of a sentence says nothing that would bring these words along
            self._later = loop.call_later(left, self._now)

    def told(self) -> None:
        """Whoever follows is woken, and hears all of it."""
        self._stop()
        if self._untold:
            now = asyncio.get_running_loop().time()
            self._told_at.update(dict.fromkeys(self._untold, now))
            self._untold.clear()

    def since(self, stamp: int) -> Iterator[Said]:
        """What was said after that stamp."""
        return (said for said in self._said.values() if said.stamp > stamp)

    def take(self, kind: str, row: Mapping[str, Any], *, followed: bool) -> None:
        """An event of the ledger: it tells which tool is in use, and when a run has said its last words."""
        if row["run"] is None:
            return
        if kind == "tool_called":
            self._use(row, row["data"].get("tool"), followed)
        elif kind == "tool_done":
            self._use(row, None, followed)
        elif kind == "chain_step_done":
            self._tools.pop(row["run"], None)
            if (session := row["session"]) is not None:
                self._said.pop(session, None)
                self._told_at.pop(session, None)
                self._untold.discard(session)

    def forget(self) -> None:
        """Nobody follows."""
        self._stop()
        self._said.clear()
        self._told_at.clear()
        self._untold.clear()

    def _use(self, row: Mapping[str, Any], tool: str | None, followed: bool) -> None:
        """A tool is in use, or is no more: who follows is told, with what the run has said so far, if anything."""
        run = row["run"]
        if tool is None:
            self._tools.pop(run, None)
        else:
            self._tools[run] = tool
        if not followed:
            return
        said = self._said.get(row["session"])
        if said is not None and said.live.run == run:
            self._keep(said.live)
        elif tool is not None:
            about = {name: row[name] or "" for name in ("agent", "session", "run", "message", "trace")}
            self._keep(Live(**about, text=""))

    def _keep(self, live: Live) -> None:
        self.stamp += 1
        data = rendered_live(live, self._tools.get(live.run))
        self._said[live.session] = Said(stamp=self.stamp, live=live, data=data)

    def _stop(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
