"""`manydesks logs`: what the office and its desks say of themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from manydesks.cli import complete
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import Whole
from manydesks.cli.output import Output, dumps
from manydesks.cli.text import harmless

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
    type=Whole(0, 1_000_000),
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
    from manydesks.office.logchoice import LogChoice, masked
    from manydesks.office.logs import merged

    out = invocation.out
    choice = LogChoice(invocation.home, what)
    # the office's own log is there without a store too
    reader = invocation.reader if what is not None else None
    if reader is not None:
        choice.find(reader)
    sources = choice.sources(reader)
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
                sources |= {name: source for name, source in choice.sources(reader).items() if name not in sources}
            fresh = merged([list(source.more()) for source in sources.values()])
            for line in masked(invocation.home, fresh):
                _print(out, line, several=len(sources) > 1)
    finally:
        for source in sources.values():
            source.close()


def _show(invocation: Invocation, found: Iterable[Line], sources: dict[str, Source], most: int, follow: bool) -> None:
    from manydesks.office.logchoice import masked

    out = invocation.out
    shown = masked(invocation.home, list(found)[-most:] if most else [])
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
