"""`manydesks queue prune`: what is old goes now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.quantity import count
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.domain.errors import BadInput

REMOVED = ("events", "messages", "responses", "runs", "arrivals", "bodies")


@click.command(cls=Command)
@click.option("--days", type=click.FloatRange(min=0), help="Of a file: what ended longer ago; 30 if not given.")
@file_options
@pass_invocation
def prune(invocation: Invocation, days: float | None, file: Path | None, queue: str | None) -> None:
    """Remove now what retention would remove by and by.

    What is older than retention.days leaves the store, if it has ended and the lake has it; settings say more. Dead
    letters and what belongs to them stay until they are dropped.
    """
    refuse_queue_alone(file, queue)
    if file is not None:
        jobs.prune(invocation, file, queue, 30 if days is None else days)
        return
    if days is not None:
        raise BadInput("--days is for a jobs file; for messages the setting retention.days says it.")
    done = dict.fromkeys(REMOVED, 0)
    while True:
        step = invocation.door.ask("prune")
        done = {name: done[name] + step[name] for name in REMOVED}
        if not step["more"]:
            break
    dead = invocation.reader.queue_status()["dead"]
    waits = _waits(step, dead)
    out = invocation.out
    if out.json:
        kept = {"first": step["first"], "archived": step["archived"], "dead": dead}
        out.value({**done, **kept, "waitsForArchive": step["waits_for_archive"]})
        return
    out.table((Column("rows"), Column("pruned", right=True)), ((name, f"{n:,}") for name, n in done.items()))
    for sentence in waits:
        out.line(sentence)


def _waits(step: dict[str, Any], dead: int) -> list[str]:
    """What holds the rest back."""
    said = [f"The ledger begins at event {step['first']:,}."]
    if step["waits_for_archive"]:
        said.append(
            f"The lake covers the ledger up to event {step['archived']:,}; what is old and not in it waits for "
            "`manydesks pipeline run`."
        )
    else:
        # a wall clock that was set forward makes nothing old by itself
        said.append("Everything from there on is younger than retention.days, by the clock or by the office's own.")
    if dead:
        keep = "keeps its trace" if dead == 1 else "keep their traces"
        said.append(f"{count(dead, 'dead letter')} {keep}; `manydesks queue drop` lets go of one.")
    return said
