"""One plugin, as the office knows it: what it has, whether it counts, and its two processes.

Messages and events have a process each: a slow listener holds no message up, and one that is killed takes no message's
hook with it. They share no memory.
"""

from __future__ import annotations

from typing import Any

from manydesks.office.hooks.base import EVERY, Spec
from manydesks.office.hooks.found import Found
from manydesks.office.hooks.line import HookFailed, Line, ProcessLost
from manydesks.settings.home import Home

#: so many lost processes in a row, and the plugin is left alone until the settings are read again
MOST_LOST = 3


class Plugin:
    def __init__(self, found: Found, home: Home, *, disabled: bool = False) -> None:
        self.found = found
        self.specs: tuple[Spec, ...] = ()
        #: why it is not asked; None: it is
        self.off: str | None = "disabled in the settings" if disabled else None
        self._lines = {"messages": Line(found, home), "events": Line(found, home)}
        self._lost = 0

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
        """Call one of its functions, for so long at most. Raises `HookFailed`."""
        line = self._lines["events" if spec.hook == "on" else "messages"]
        try:
            answer = await line.ask(spec.hook, spec.name, given, seconds)
        except ProcessLost as lost:
            self._lost += 1
            if self._lost >= MOST_LOST:
                self.off = f"{lost}, {self._lost} times in a row; it is left alone until the settings are read again"
                raise HookFailed(self.off) from lost
            raise
        self._lost = 0
        return answer

    def kinds(self) -> frozenset[str]:
        """Of the events that it wants."""
        return frozenset(kind for spec in self.specs for kind in spec.kinds)

    def listeners(self, kind: str) -> list[Spec]:
        return [spec for spec in self.specs if spec.hook == "on" and (kind in spec.kinds or EVERY in spec.kinds)]

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
                {"hook": spec.hook, "name": spec.name, "order": spec.order, "kinds": list(spec.kinds)}
                for spec in self.specs
            ],
            "lastFailure": last_failure,
        }
