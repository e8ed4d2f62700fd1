"""`manydesks pipeline run` and `rebuild`: the lake is brought up to the ledger."""

from __future__ import annotations

import click

from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.pipeline.behind import begins_words, behind_words
from manydesks.cli.pipeline.master import master_option
from manydesks.cli.pipeline.opening import open_lake, open_settings, open_spark, open_store
from manydesks.cli.pipeline.progress import progress

STEP_COLUMNS = (
    Column("step"),
    Column("rows in", right=True),
    Column("rows out", right=True),
    Column("seconds", right=True),
)


@click.command(cls=Command)
@click.option("--begin-incomplete", "incomplete", is_flag=True, help="Begin a lost lake with what the store still has.")
@master_option
@pass_invocation
def run(invocation: Invocation, incomplete: bool) -> None:
    """Bring the lake up to the ledger, and its tables with it.

    Running it twice changes nothing; one that was stopped is taken up where it was. If the lake is lost and the store
    has let go of old events, there is no way to have these again but a copy of the lake: --begin-incomplete begins one
    without them, and the lake says so from then on. If only its texts are lost, it goes on without them.
    """
    _bring(invocation, rebuild=False, incomplete=incomplete)


@click.command(cls=Command)
@click.option("--yes", is_flag=True, help="Do not ask.")
@master_option
@pass_invocation
def rebuild(invocation: Invocation, yes: bool) -> int:
    """Make silver and gold anew from all that was archived.

    The result is the same as what the runs have made; for a lake whose tables somebody has damaged. If it is stopped,
    the next run goes on with it.
    """
    if not consent(invocation, "Make all tables of silver and gold anew?", yes=yes):
        return exits.FAILED
    _bring(invocation, rebuild=True)
    return exits.OK


def _bring(invocation: Invocation, *, rebuild: bool, incomplete: bool = False) -> None:
    settings = open_settings(invocation)
    lake, db, out = open_lake(invocation, settings), open_store(invocation), invocation.out
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.jobs.archive import check_archive
    from manydesks.pipeline.jobs.underway import Underway
    from manydesks.pipeline.jobs.whole import run as bring
    from manydesks.pipeline.lock import PATIENCE_SECONDS, hold
    from manydesks.pipeline.much import is_much
    from manydesks.pipeline.rebuilding import unbuilt
    from manydesks.pipeline.sources.ledger import heads
    from manydesks.pipeline.tables import sweep

    check_archive(db, lake, incomplete=incomplete)
    # a lake that is busy or cannot be written: said now, not after Spark has started
    with progress(out) as bar:
        waits = lambda pid: bar.say(f"waiting for the lake, which process {pid} works on")  # noqa: E731
        with hold(lake, patience=PATIENCE_SECONDS, waits=waits) as held, disk_refusals(lake):
            sweep(held)
            # a rebuild that was broken off is gone on with
            bulk = is_much(lake, db, anew=rebuild or bool(unbuilt(lake)))
    begun = invocation.clock.monotonic()
    with (
        progress(out) as bar,
        open_spark(invocation, settings, bar, bulk=bulk, followed=bar.shown) as spark,
        bar.follow(Underway(spark)) as tell,
    ):
        started = (invocation.clock.monotonic() - begun) / 1000
        report = bring(
            db,
            lake,
            spark,
            tell,
            rebuild=rebuild,
            patience=PATIENCE_SECONDS,
            ended=bar.ended,
            incomplete=incomplete,
        )
    # after the commit, and also when nothing was new: an earlier run may have been stopped just before this
    if report.to_seq:
        invocation.door.ask("mark_archived", seq=report.to_seq)
    behind = max(heads(db).events - report.to_seq, 0)
    steps = [("spark", None, None, started), *((s.name, s.taken, s.rows, s.seconds) for s in report.steps)]
    if out.json:
        told = [
            {"step": name, "rowsIn": taken, "rowsOut": rows, "seconds": seconds} for name, taken, rows, seconds in steps
        ]
        reach = {"beginsAt": report.begins, "fromSeq": report.from_seq, "toSeq": report.to_seq, "behind": behind}
        out.value({**reach, "steps": told})
        return
    out.table(
        STEP_COLUMNS,
        ((name, _number(taken), _number(rows), f"{seconds:.1f}") for name, taken, rows, seconds in steps),
    )
    out.line(f"The lake reaches event {report.to_seq:,}; {behind_words(behind)}.")
    if report.begins > 1:
        out.line(begins_words(report.begins))


def _number(rows: int | None) -> str | None:
    return None if rows is None else f"{rows:,}"
