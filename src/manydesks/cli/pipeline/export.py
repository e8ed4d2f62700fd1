"""`manydesks pipeline export`: transcripts for other programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import dumps
from manydesks.cli.pipeline.day import day
from manydesks.cli.pipeline.master import master_option
from manydesks.cli.pipeline.opening import open_lake, open_settings, open_spark
from manydesks.cli.pipeline.progress import Bar, progress
from manydesks.cli.pipeline.redaction import redaction
from manydesks.cli.pipeline.target import check_target, target
from manydesks.cli.quantity import count
from manydesks.cli.text import one_line

#: how a conversation can have gone; open: a message of it has not ended
OUTCOMES = ("completed", "dead", "cancelled", "open")


@click.command(cls=Command)
@click.option("--agent", "agents", multiple=True, metavar="AGENT", help="Only with this agent; may be given again.")
@click.option("--from", "since", metavar="DAY", callback=day, help="Only from this day on (UTC).")
@click.option("--to", "until", metavar="DAY", callback=day, help="Only up to this day (UTC).")
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only those that ended so, or are open.")
@click.option(
    "--out", "file", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file, not to stdout (-)."
)
@click.option("--force", is_flag=True, help="With --out: replace a file that is there.")
@master_option
@pass_invocation
def export(
    invocation: Invocation,
    agents: tuple[str, ...],
    since: str | None,
    until: str | None,
    outcome: str | None,
    file: Path | None,
    force: bool,
) -> None:
    """Write transcripts as JSON lines, in the usual chat format.

    A line is what was said to one agent in one trace, and what it said: its messages, each with role and content, and
    trace, agent, day, outcome, at and erased. What was forgotten is left out and counted. The office's secrets, and
    what looks like a key, are replaced by ***; that is a net and not a promise.
    """
    out = invocation.out
    if file == Path("-"):
        file = None
    if force and file is None:
        raise click.UsageError("--force is for --out with a file.")
    if since is not None and until is not None and since > until:
        raise click.UsageError(f"--from {since} is after --to {until}.")
    for agent in agents:
        invocation.home.workspace(agent)  # it refuses what can be no agent's id
    settings = open_settings(invocation)
    lake = open_lake(invocation, settings)
    if file is not None:
        check_target(file, invocation.home, lake, force=force)
    redact = redaction(invocation)
    from manydesks.domain.errors import PipelineError
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.jobs.export import Wanted, heard
    from manydesks.pipeline.jobs.export import export as conversations
    from manydesks.pipeline.silver import TRANSCRIPTS
    from manydesks.pipeline.tables import exists

    with disk_refusals(lake):
        if not exists(lake, TRANSCRIPTS):
            raise PipelineError(reason=f"the lake {lake} has no transcripts yet; `manydesks pipeline run` makes them.")
    wanted = Wanted(agents=agents, since=since, until=until, outcome=outcome)
    with progress(out) as bar, open_spark(invocation, settings, bar) as spark:
        found = conversations(lake, spark, wanted, redact, bar.step)
        if file is None:
            lines = _print(invocation, bar, found)
        else:
            with target(file, invocation.home, lake, force=force) as new:
                lines = _write(new, found)
        of_none = [] if lines else sorted({*agents} - heard(lake, spark, agents))
    if not lines:
        # perhaps a slip of the keyboard, perhaps nothing was said to them yet
        names = " or ".join(f"'{agent}'" for agent in of_none)
        out.note(f"The lake has no conversation of {names}." if names else "There are no such conversations.")
    if file is None:
        return
    if out.json:
        out.value({"file": str(file.absolute()), "conversations": lines})
    else:
        out.line(f"{one_line(str(file))}: {count(lines, 'conversation')}.")


def _print(invocation: Invocation, bar: Bar, found: Iterable[dict[str, Any]]) -> int:
    lines = 0
    for conversation in found:
        bar.clear()  # both streams may be one terminal
        invocation.out.value(conversation)
        lines += 1
    return lines


def _write(path: Path, found: Iterable[dict[str, Any]]) -> int:
    lines = 0
    with path.open("w", encoding="utf-8") as file:
        for conversation in found:
            file.write(dumps(conversation) + "\n")
            lines += 1
    return lines
