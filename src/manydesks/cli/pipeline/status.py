"""`manydesks pipeline status`: what the lake holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from manydesks.cli import exits
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column, Output
from manydesks.cli.pipeline.behind import begins_words, behind_words
from manydesks.cli.pipeline.master import master_option
from manydesks.cli.pipeline.opening import open_lake, open_settings, open_spark, open_store
from manydesks.cli.pipeline.progress import progress
from manydesks.cli.quantity import count, moment
from manydesks.cli.text import one_line

if TYPE_CHECKING:
    from manydesks.pipeline.place import Place
    from manydesks.pipeline.standing import Standing
    from manydesks.settings.model import PipelineSettings

TABLE_COLUMNS = (Column("table"), Column("rows", right=True))


@click.command(cls=Command)
@click.option("--check", is_flag=True, help="Compare the lake with the store, row by row; needs Spark.")
@master_option
@pass_invocation
def status(invocation: Invocation, check: bool) -> int:
    """Show what the lake holds and how far it is behind.

    Each layer is shown with the event that it reaches, and whoever works on the lake just now. With --check the exit
    code is 0 only if lake and store agree on every event that both hold.
    """
    settings = open_settings(invocation)
    lake, db, out = open_lake(invocation, settings), open_store(invocation), invocation.out
    from manydesks.pipeline import tables
    from manydesks.pipeline.disk import disk_refusals
    from manydesks.pipeline.standing import standing

    with disk_refusals(lake):
        found = standing(lake, db)
        counts = {spec.name: tables.count(lake, spec) for spec in tables.present(lake)}
    agreed = _reconcile(invocation, settings, lake, found.bronze) if check and found.bronze else None
    if out.json:
        agrees = None if agreed is None else agreed.agrees
        out.value({"lake": str(lake), **_standing_value(found), "tables": counts, "agrees": agrees})
    else:
        out.line(f"lake       {one_line(str(lake))}")
        _show(out, found)
        if agreed is not None:
            words = (
                f"{count(agreed.store_rows, 'event')} compared, all alike"
                if agreed.agrees
                else f"{count(agreed.only_store, 'event')} only in the store, {agreed.only_lake:,} only in the lake"
            )
            out.line(f"check      {words}")
        for sentence in remarks(found):
            out.line(one_line(sentence))
        if counts:
            out.table(TABLE_COLUMNS, ((name, f"{rows:,}") for name, rows in counts.items()))
    return exits.OK if agreed is None or agreed.agrees else exits.FAILED


def _show(out: Output, found: Standing) -> None:
    for layer in ("bronze", "silver", "gold", "published"):
        reached = getattr(found, layer)
        words = (
            "nothing yet"
            if reached is None
            else f"event {reached:,} of {found.head:,}; {behind_words(found.head - reached)}"
        )
        out.line(f"{layer:<10} {words}")
    if found.watcher is not None:
        out.line(f"watch      process {one_line(found.watcher)} keeps the lake up with the ledger")
    if found.worker is not None:
        out.line(f"now        process {one_line(found.worker)} works on the lake")
    if (last := found.last) is not None:
        outcome = out.status("ok") if last["ok"] else f"{out.status('failed')}: {one_line(last['reason'] or '')}"
        out.line(f"last run   {moment(last['ended_at'])}, {outcome}")


def remarks(found: Standing) -> list[str]:
    """What a person should know of it, and what to do, a sentence or two each."""
    told = []
    if found.begins > 1:
        told.append(begins_words(found.begins))
    if found.refusal is not None:
        told.append(f"The pipeline does not go on with this lake: {found.refusal}")
    elif found.ahead:
        told.append("The lake is of another ledger, or of this one before it was emptied: nothing is archived into it.")
    if found.worker is not None or found.watcher is not None or found.level:
        return told
    lack = "what bronze has is not yet in all of silver, gold and what is published"
    if found.broken_off:
        told.append(f"A run was broken off before its end, so {lack}; `manydesks pipeline run` goes on where it was.")
    elif found.outdated:
        told.append(f"Tables are made in another way by now ({', '.join(found.outdated)}); the next run does so.")
    else:
        told.append(f"{lack.capitalize()}; `manydesks pipeline run` goes on where it was.")
    if found.erased < found.bronze:
        told.append(f"Texts that were forgotten after event {found.erased:,} are still in the lake until then.")
    return told


def _standing_value(found: Standing) -> dict[str, Any]:
    reach = {"bronze": found.bronze, "silver": found.silver, "gold": found.gold, "published": found.published}
    return {
        "beginsAt": found.begins,
        "toSeq": found.bronze,
        "head": found.head,
        "behind": found.behind,
        "ahead": found.ahead,
        "layers": {**reach, "forgotten": found.erased},
        # with the ledger: all that is made of bronze may be level with bronze while there are newer events
        "level": found.level and found.bronze == found.head,
        "brokenOff": found.broken_off,
        "outdated": list(found.outdated),
        "refusal": found.refusal,
        "worker": _pid(found.worker),
        "watcher": _pid(found.watcher),
        "lastRun": found.last and _run_value(found.last),
    }


def _pid(signed: str | None) -> int | None:
    """0: somebody, who has not said yet who."""
    return None if signed is None else int(signed) if signed.isdecimal() else 0


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
