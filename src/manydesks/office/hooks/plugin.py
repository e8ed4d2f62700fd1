"""One plugin, as the office knows it: what it has, whether it counts, and its two processes.

Messages and events have a process each: a slow listener holds no message up, and one that is killed takes no message's
hook with it. They share no memory.
"""

from __future__ import annotations

from typing import Any

from manydesks.office.hooks.base import EVERY, Spec
from manydesks.office.hooks.found import Found
from manydesks.office.hooks.line import HookFailed, LeftOut, Line, ProcessLost
from manydesks.settings.home import Home

#: so many processes that one hook lost in a row, and it is left out until the settings are read again
MOST_LOST = 3

#: a hook as its process knows it: which of the three, and the function's name
Key = tuple[str, str]


class Plugin:
    def __init__(self, found: Found, home: Home, *, disabled: bool = False) -> None:
        self.found = found
        self.specs: tuple[Spec, ...] = ()
        #: why it is not asked; None: it is
        self.off: str | None = "disabled in the settings" if disabled else None
        self._lines = {"messages": Line(found, home), "events": Line(found, home)}
        #: by hook, as what one of them does well says nothing about another: how often in a row, and the reason of
        #: those that are asked no more
        self._lost: dict[Key, int] = {}
        self._left_out: dict[Key, str] = {}

    @property
    def name(self) -> str:
        return self.found.name

    async def load(self) -> None:
        """Learn what it has. Raises `HookFailed`, and then it is off."""
        if self.off is not None:
            return
        try:
            said = await self._lines["messages"].hooks()
            self.specs = tuple(Spec(**{**spec, "kinds": tuple(spec["kinds"])}) for spec in said)
        except HookFailed as failed:
            self.off = str(failed)
            raise
        if all(spec.hook == "on" for spec in self.specs):
            await self._lines["messages"].close()

    async def ask(self, spec: Spec, given: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Call one of its functions, for so long at most. Raises `HookFailed`; `LeftOut` for one loss too many."""
        line, key = self._lines["events" if spec.hook == "on" else "messages"], _key(spec)

        def look() -> None:
            # it may have been left out while this call waited for its turn
            if (reason := self._left_out.get(key)) is not None:
                raise HookFailed(reason)

        try:
            answer = await line.ask(spec.hook, spec.name, given, seconds, look)
        except ProcessLost as lost:
            times = self._lost[key] = self._lost.get(key, 0) + 1
            if times < MOST_LOST:
                raise
            reason = f"{lost}, {times} times in a row; it is left out until the settings are read again"
            self._left_out[key] = reason
            if not any(self.asks(other) for other in self.specs):
                self.off = reason
            raise LeftOut(reason) from lost
        self._lost.pop(key, None)
        return answer

    def asks(self, spec: Spec) -> bool:
        """Whether this function of it is asked: the plugin is on, and the hook was not left out."""
        return self.off is None and _key(spec) not in self._left_out

    def listens(self) -> bool:
        """Whether there is anybody left to tell of events."""
        return any(spec.hook == "on" and self.asks(spec) for spec in self.specs)

    def kinds(self) -> frozenset[str]:
        """Of the events that it wants."""
        return frozenset(kind for spec in self.specs for kind in spec.kinds)

    def listeners(self, kind: str) -> list[Spec]:
        return [
            spec
            for spec in self.specs
            if spec.hook == "on" and (kind in spec.kinds or EVERY in spec.kinds) and self.asks(spec)
        ]

    async def close(self) -> None:
        for line in self._lines.values():
            await line.close()

    def as_json(self, last_failure: str | None) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.found.source,
            "state": "on" if self.off is None else "off",
            "reason": self.off,
            "hooks": [
                {
                    "hook": spec.hook,
                    "name": spec.name,
                    "order": spec.order,
                    "kinds": list(spec.kinds),
                    "leftOut": self._left_out.get(_key(spec)),
                }
                for spec in self.specs
            ],
            "lastFailure": last_failure,
        }


def _key(spec: Spec) -> Key:
    return spec.hook, spec.name
