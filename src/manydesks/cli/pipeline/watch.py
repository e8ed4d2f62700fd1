"""`manydesks pipeline watch`: the lake is kept up with the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.number import Whole
from manydesks.cli.pipeline.behind import behind_words
from manydesks.cli.pipeline.master import master_option
from manydesks.cli.pipeline.opening import open_lake, open_settings, open_spark, open_store
from manydesks.cli.pipeline.progress import progress
from manydesks.cli.quantity import count, moment

if TYPE_CHECKING:
    from manydesks.pipeline.jobs.watch import Round


@click.command(cls=Command)
@master_option
@click.option("--parent", type=Whole(1), hidden=True, help="End when this is no longer the parent process.")
@pass_invocation
def watch(invocation: Invocation, parent: int | None) -> None:
    """Keep the lake up with the ledger, until Ctrl-C.

    New events are in bronze and silver within seconds, in gold and what is published of it within about a minute. Each
    round is a line; with --json an object a line. Runs, queries and backups beside it are fine.
    """
    settings = open_settings(invocation)
    lake, db, out = open_lake(invocation, settings), open_store(invocation), invocation.out
    from manydesks.domain.errors import SparkNotStarted
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.jobs.archive import check_archive
    from manydesks.pipeline.jobs.watch import Watch
    from manydesks.pipeline.lock import PATIENCE_SECONDS, hold, watching
    from manydesks.pipeline.stop import Stop, listening
    from manydesks.pipeline.tables import sweep

    stop = Stop(parent)
    with listening(stop):
        check_archive(db, lake)
        # what is in the way is said at once, not after Spark has started
        with watching(lake), hold(lake, patience=PATIENCE_SECONDS) as held, disk_refusals(lake):
            sweep(held)
        try:
            with progress(out) as bar, open_spark(invocation, settings, bar) as spark:
                stop.listen()  # Spark has taken Ctrl-C for itself
                bar.say("")
                if not out.json and out.terminal:
                    out.line("The lake is kept up with the ledger; Ctrl-C ends it.")
                    out.flush()
                Watch(
                    db,
                    lake,
                    spark,
                    invocation.home.run / "spark",
                    told=lambda round: _print(invocation, round),
                    archived=lambda seq: _mark(invocation, seq),
                    stop=stop,
                ).run()
        except SparkNotStarted:
            # a signal to a whole group of processes ends a Java that starts as well
            if not stop.asked:
                raise


def _mark(invocation: Invocation, seq: int) -> bool:
    """The store may forget what the lake has; an office that cannot be told is told with the next round."""
    from manydesks.domain.errors import OfficeError, StoreError

    try:
        invocation.door.ask("mark_archived", seq=seq)
    except (OfficeError, StoreError) as error:
        invocation.out.note(f"The office does not know yet how far the lake reaches: {error}")
        return False
    return True


def _print(invocation: Invocation, round: Round) -> None:
    out = invocation.out
    if out.json:
        out.value(
            {
                "round": round.kind,
                "events": round.events,
                "toSeq": round.to_seq,
                "seconds": round.seconds,
                "behind": round.behind,
            }
        )
    else:
        what = count(round.events, "event") if round.kind == "events" else round.kind
        until = f"up to event {round.to_seq:,} in {round.seconds:.1f} s; {behind_words(round.behind)}"
        out.line(f"{moment(invocation.clock.now())}  {what} {until}.")
    out.flush()
