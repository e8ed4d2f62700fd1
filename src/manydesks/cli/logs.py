"""`manydesks logs`: what the office and its desks say of themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from manydesks.cli import complete
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Output, dumps
from manydesks.cli.text import harmless
from manydesks.domain.errors import BadInput, ManyDesksError

if TYPE_CHECKING:
    from manydesks.office.logs import Line, Source

#: how often files are looked at, and how often it is asked for new sessions
LOOK_SECONDS = 0.25
SESSIONS_SECONDS = 2.0


@click.command(cls=Command)
@click.argument("what", metavar="[AGENT|CHANNEL|RUN]", required=False, shell_complete=complete.logged)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 1_000_000),
    default=200,
    show_default=True,
    metavar="N",
    help="How many of the last lines to show.",
)
@pass_invocation
def logs(invocation: Invocation, what: str | None, follow: bool, lines: int) -> None:
    """Show the log of the office, an agent, a channel or a run.

    Of an agent: what is printed at its desks, and the office's lines that name it. Of a channel: the office's lines
    that name it. A run's id, or a message's, stands for what was printed during the run. Secrets are masked. With
    --json it is one array; with -f one object a line.
    """
    from manydesks.office.logs import merged

    out = invocation.out
    choice = _Choice(invocation, what)
    sources = choice.sources()
    try:
        _show(invocation, merged([source.last(lines) for source in sources.values()]), sources, lines, follow)
        if not follow:
            return
        asked = invocation.clock.monotonic()
        while True:
            out.flush()
            time.sleep(LOOK_SECONDS)
            if invocation.clock.monotonic() - asked > SESSIONS_SECONDS * 1000:
                asked = invocation.clock.monotonic()
                sources |= {name: source for name, source in choice.sources().items() if name not in sources}
            fresh = merged([list(source.more()) for source in sources.values()])
            for line in _masked(invocation, fresh):
                _print(out, line, several=len(sources) > 1)
    finally:
        for source in sources.values():
            source.close()


class _Choice:
    """What a word of the command line means."""

    def __init__(self, invocation: Invocation, what: str | None) -> None:
        self._invocation = invocation
        self._what = what
        self._agent: str | None = None
        #: run and session
        self._run: tuple[str, str] | None = None
        if what is not None:
            self._find(what)

    def _find(self, what: str) -> None:
        reader = self._invocation.reader
        known = [str(row["id"]) for row in reader.agents()]
        if what in known or reader.sessions(what):
            self._agent = what
        elif (run := reader.run(what)) is not None:
            self._run = (run["id"], run["session"])
        elif what not in (channels := reader.channels()):
            from difflib import get_close_matches

            near = get_close_matches(what, [*known, *channels], n=1)
            hint = f"; did you mean '{near[0]}'?" if near else "."
            raise BadInput(f"There is no agent, channel or run '{what}'{hint}")

    def sources(self) -> dict[str, Source]:
        from manydesks.office.hostlog import NAME
        from manydesks.office.logs import Source, everything, naming, of_run

        logs = self._invocation.home.logs
        desks = logs / "desks"
        if self._run is not None:
            run, session = self._run
            found = [Source(session, desks / f"{session}.log", of_run(run)), Source("office", logs / NAME, naming(run))]
        elif self._agent is not None:
            sessions = self._sessions(self._agent)
            found = [Source(session, desks / f"{session}.log", everything) for session in sessions]
            found.append(Source("office", logs / NAME, naming(self._agent)))
        else:
            found = [Source("office", logs / NAME, everything if self._what is None else naming(self._what))]
        return {source.name: source for source in found}

    def _sessions(self, agent: str) -> list[str]:
        try:
            return self._invocation.reader.sessions(agent)
        except ManyDesksError:
            return []  # a store that is just being replaced has no new ones


def _show(invocation: Invocation, found: Iterable[Line], sources: dict[str, Source], most: int, follow: bool) -> None:
    out = invocation.out
    shown = _masked(invocation, list(found)[-most:] if most else [])
    if out.json and not follow:
        out.value([_as_json(line) for line in shown])
        return
    several = len({line.source for line in shown}) > 1 or (follow and len(sources) > 1)
    for line in shown:
        _print(out, line, several=several)
    if not shown and not follow:
        out.note(f"There are no such lines in {invocation.home.logs}.")


def _print(out: Output, line: Line, *, several: bool) -> None:
    if out.json:
        out.line(dumps(_as_json(line)))
    else:
        out.line(f"{f'{line.source}  ' if several else ''}{harmless(line.text)}")


def _as_json(line: Line) -> dict[str, str]:
    return {"source": line.source, "at": line.at, "text": line.text}


def _masked(invocation: Invocation, lines: Iterable[Line]) -> list[Line]:
    """They are masked as they are written; a secret that was set since is not shown either."""
    from dataclasses import replace

    from manydesks.office.upstreams import known_secrets
    from manydesks.settings.secrets import mask

    found = list(lines)
    secrets = known_secrets(invocation.home) if found else {}
    return [replace(line, text=mask(line.text, secrets)) for line in found]
