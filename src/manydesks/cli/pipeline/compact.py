"""`manydesks pipeline compact`: many small files become few."""

from __future__ import annotations

import click

from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.consent import consent
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.pipeline.hours import hours
from manydesks.cli.pipeline.opening import open_lake, open_settings, open_store
from manydesks.cli.pipeline.progress import progress
from manydesks.cli.quantity import count, size

COLUMNS = (
    Column("table"),
    Column("files before", right=True),
    Column("files now", right=True),
    Column("bytes before", right=True),
    Column("bytes now", right=True),
    Column("freed", right=True),
)


@click.command(cls=Command)
@click.option("--vacuum", is_flag=True, help="Also remove the files of versions older than --keep.")
@click.option(
    "--keep", metavar="TIME", callback=hours, default="168h", show_default=True, help="With --vacuum: as in 168h or 7d."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def compact(invocation: Invocation, vacuum: bool, keep: int, yes: bool) -> int:
    """Make few files of many small ones; needs no Spark.

    The rows stay as they are, and older versions of the tables stay readable until --vacuum removes them. What was
    forgotten is in no file of the lake after the next run and a --vacuum that keeps less than the time since; only the
    reason of a failure that quotes it stays. A lake that is another office's is left as it is.
    """
    context = click.get_current_context()
    if not vacuum and context.get_parameter_source("keep") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--keep is for --vacuum; without it nothing is removed.")
    settings = open_settings(invocation)
    lake, out = open_lake(invocation, settings), invocation.out
    from manydesks.domain.errors import PipelineError
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.jobs.compact import check_compact
    from manydesks.pipeline.jobs.compact import compact as work
    from manydesks.pipeline.tables import present

    with disk_refusals(lake):
        found = present(lake)
    if not found:  # and none must be made by looking
        raise PipelineError(reason=f"the lake {lake} has no tables yet; `manydesks pipeline run` makes them.")
    # a lake alone, as of an office that is gone, may be kept small too
    db = open_store(invocation) if invocation.home.office_db.exists() else None
    if db is not None:
        check_compact(lake, db)
    if vacuum and keep < 1:
        question = "Remove all older versions? Whoever is just reading the lake may fail."
        if not consent(invocation, question, yes=yes):
            return exits.FAILED
    with progress(out) as bar:
        done = work(lake, bar.step, invocation.clock, db=db, keep_hours=keep if vacuum else None)
    if out.json:
        told = [
            {
                "table": one.name,
                "filesBefore": one.files_before,
                "files": one.files_after,
                "bytesBefore": one.bytes_before,
                "bytes": one.bytes_after,
                "freedFiles": one.freed.files,
                "freedBytes": one.freed.bytes,
            }
            for one in done
        ]
        out.value({"tables": told})
        return exits.OK
    out.table(
        COLUMNS,
        (
            (
                one.name,
                f"{one.files_before:,}",
                f"{one.files_after:,}",
                size(one.bytes_before),
                size(one.bytes_after),
                size(one.freed.bytes) if vacuum else None,
            )
            for one in done
        ),
    )
    before, now = sum(one.files_before for one in done), sum(one.files_after for one in done)
    out.line(f"{count(before, 'file')} became {now:,}." if now < before else f"{count(now, 'file')}, none too small.")
    if vacuum:
        freed = sum(one.freed.files for one in done)
        out.line(f"{count(freed, 'file')} of older versions went, {size(sum(one.freed.bytes for one in done))}.")
    return exits.OK
