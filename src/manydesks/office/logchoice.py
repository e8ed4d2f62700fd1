"""Whose log is meant: the office's own, or that of an agent, a channel or a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from manydesks.domain.errors import BadInput, ManyDesksError
from manydesks.office.hostlog import NAME
from manydesks.office.logs import Line, Source, everything, merged, naming, of_run
from manydesks.office.upstreams import known_secrets
from manydesks.settings.home import Home
from manydesks.settings.secrets import mask
from manydesks.store.reader import Reader


class LogChoice:
    """What a word means. Without one it is the office's log, and no store is needed."""

    def __init__(self, home: Home, what: str | None) -> None:
        self._home = home
        self._what = what
        self._agent: str | None = None
        #: run and session
        self._run: tuple[str, str] | None = None

    def find(self, reader: Reader) -> None:
        """Look the word up. Raises `BadInput` with the nearest name if it means nothing."""
        if (what := self._what) is None:
            return
        known = [str(row["id"]) for row in reader.agents()]
        if what in known or reader.sessions(what):
            self._agent = what
        elif (run := reader.run(what)) is not None:
            self._run = (run["id"], run["session"])
        elif what not in (channels := reader.channels()):
            near = get_close_matches(what, [*known, *channels], n=1)
            hint = f"; did you mean '{near[0]}'?" if near else "."
            raise BadInput(f"There is no agent, channel or run '{what}'{hint}")

    def sources(self, reader: Reader | None) -> dict[str, Source]:
        """The files that have it, by name; of an agent there may be more later. Whoever asked closes them."""
        logs = self._home.logs
        desks = logs / "desks"
        if self._run is not None:
            run, session = self._run
            found = [Source(session, desks / f"{session}.log", of_run(run)), Source("office", logs / NAME, naming(run))]
        elif self._agent is not None:
            found = [
                Source(session, desks / f"{session}.log", everything) for session in _sessions(reader, self._agent)
            ]
            found.append(Source("office", logs / NAME, naming(self._agent)))
        else:
            found = [Source("office", logs / NAME, everything if self._what is None else naming(self._what))]
        return {source.name: source for source in found}

    def last(self, reader: Reader | None, most: int) -> list[Line]:
        """The last lines of them all, masked."""
        sources = self.sources(reader)
        try:
            lines = list(merged([source.last(most) for source in sources.values()]))[-most:]
        finally:
            for source in sources.values():
                source.close()
        return masked(self._home, lines)


def masked(home: Home, lines: Iterable[Line]) -> list[Line]:
    """They are masked as they are written; a secret that was set since is not shown either."""
    found = list(lines)
    secrets = known_secrets(home) if found else {}
    return [replace(line, text=mask(line.text, secrets)) for line in found]


def _sessions(reader: Reader | None, agent: str) -> list[str]:
    if reader is None:
        return []
    try:
        return reader.sessions(agent)
    except ManyDesksError:
        return []  # a store that is just being replaced has no new ones
