"""`manydesks pipeline status`: what the lake holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column
from manydesks.cli.pipeline.behind import behind_words
from manydesks.cli.pipeline.master import master_option
from manydesks.cli.pipeline.opening import open_lake, open_settings, open_spark, open_store
from manydesks.cli.pipeline.progress import progress
from manydesks.cli.quantity import count, moment
from manydesks.cli.text import one_line

if TYPE_CHECKING:
    from manydesks.pipeline.place import Place
    from manydesks.settings.model import PipelineSettings

TABLE_COLUMNS = (Column("table"), Column("rows", right=True))


@click.command(cls=Command)
@click.option("--check", is_flag=True, help="Compare the lake with the store, row by row; needs Spark.")
@master_option
@pass_invocation
def status(invocation: Invocation, check: bool) -> int:
    """Show what the lake holds and how far it is behind.

    With --check the exit code is 0 only if lake and store agree on every event that both hold.
    """
    settings = open_settings(invocation)
    lake, db, out = open_lake(invocation, settings), open_store(invocation), invocation.out
    from manydesks.pipeline import tables
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.jobs.runs import latest
    from manydesks.pipeline.schemas import EVENTS
    from manydesks.pipeline.sources.ledger import heads

    head = heads(db).events
    with disk_refusals(lake):
        reached = tables.covered(lake, EVENTS, EVENTS.name)
        counts = {spec.name: tables.count(lake, spec) for spec in tables.present(lake)}
        last = latest(lake)
    behind = max(head - reached, 0)
    found = _reconcile(invocation, settings, lake, reached) if check and reached else None
    if out.json:
        agrees = None if found is None else found.agrees
        told = {"lake": str(lake), "toSeq": reached, "head": head, "behind": behind, "tables": counts}
        out.value({**told, "lastRun": last and _run_value(last), "agrees": agrees})
    else:
        out.line(f"lake      {one_line(str(lake))}")
        out.line(f"reaches   event {reached:,} of {head:,}; {behind_words(behind)}")
        if last is not None:
            outcome = out.status("ok") if last["ok"] else f"{out.status('failed')}: {one_line(last['reason'] or '')}"
            out.line(f"last run  {moment(last['ended_at'])}, {outcome}")
        if found is not None:
            words = (
                f"{count(found.store_rows, 'event')} compared, all alike"
                if found.agrees
                else f"{count(found.only_store, 'event')} only in the store, {found.only_lake:,} only in the lake"
            )
            out.line(f"check     {words}")
        if counts:
            out.table(TABLE_COLUMNS, ((name, f"{rows:,}") for name, rows in counts.items()))
    return exits.OK if found is None or found.agrees else exits.FAILED


def _run_value(row: dict[str, Any]) -> dict[str, Any]:
    names = {"job": "job", "ok": "ok", "reason": "reason", "startedAt": "started_at", "endedAt": "ended_at"}
    return {key: row[name] for key, name in names.items()}


def _reconcile(invocation: Invocation, settings: PipelineSettings, lake: Place, reached: int) -> Any:
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.quality import reconcile_events
    from manydesks.pipeline.sources.ledger import oldest

    db = invocation.home.office_db
    first = oldest(db)  # what was pruned is in the lake alone, and right so
    with progress(invocation.out) as bar, open_spark(invocation, settings, bar) as spark, disk_refusals(lake):
        bar.say("comparing")
        return reconcile_events(spark, lake, db, first, reached)
