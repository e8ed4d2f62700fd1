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
    from manydesks.pipeline.rebuilding import Unbuilt
    from manydesks.pipeline.standing import Standing
    from manydesks.settings.model import PipelineSettings

TABLE_COLUMNS = (Column("table"), Column("rows", right=True))


@click.command(cls=Command)
@click.option("--check", is_flag=True, help="Compare the lake with the store, row by row; needs Spark.")
@master_option
@pass_invocation
def status(invocation: Invocation, check: bool) -> int:
    """Show what the lake holds and how far it is behind.

    Each layer is shown with the event that it reaches, whoever works on the lake just now, and what a run or a rebuild
    has left undone. With --check the exit code is 0 only if lake and store agree on every event that both hold.
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
            ("nothing yet" if found.damage is None else "damaged")
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
    if found.lost:
        told.append(
            "Bronze has lost events that silver and gold were made of: its table 'events', or the log of it, is gone."
            + ("" if found.refusal is not None else " `manydesks pipeline run` reads them from the store again.")
        )
    if found.lacks_texts and found.refusal is None:
        told.append(
            "Bronze has lost texts that its events name: its table 'bodies', or the log of it, is gone."
            " `manydesks pipeline run` reads them from the store again."
        )
    if found.refusal is not None:
        told.append(f"The pipeline does not go on with this lake: {found.refusal}")
    elif found.ahead:
        told.append("The lake is of another ledger, or of this one before it was emptied: nothing is archived into it.")
    if found.forgotten:
        told.append(_forgotten_words(found))
    if found.unbuilt:
        told.append(_rebuild_words(found))
    if found.damage is not None:
        told.append(
            f"What is published for agents and the report is damaged ({found.damage}); `manydesks pipeline run` makes"
            " it anew."
        )
    if found.worker is not None or found.watcher is not None or found.lacks_texts or not found.left_undone:
        return told
    lack = "what bronze has is not yet in all of silver, gold and what is published"
    if found.broken_off:
        told.append(f"A run was broken off before its end, so {lack}; `manydesks pipeline run` goes on where it was.")
    elif found.outdated:
        told.append(f"Tables are made in another way by now ({', '.join(found.outdated)}); the next run does so.")
    elif not found.unbuilt:
        told.append(f"{lack.capitalize()}; `manydesks pipeline run` goes on where it was.")
    return told


def _forgotten_words(found: Standing) -> str:
    """That texts are still there, and what has to be done so that they are not."""
    one = found.forgotten == 1
    until = "the watch has made its next round of gold" if found.watcher else "the next `manydesks pipeline run`"
    return (
        f"{count(found.forgotten, 'text')} that {'was' if one else 'were'} forgotten may still be in the lake until "
        f"{until}; older versions of its files have {'it' if one else 'them'} until "
        "`manydesks pipeline compact --vacuum --keep 0h` after that."
    )


def _rebuild_words(found: Standing) -> str:
    """Which layers a rebuild has left, and who goes on with it."""
    from manydesks.pipeline.gold import GOLD
    from manydesks.pipeline.silver import SILVER

    layers = (("silver", found.unbuilt.silver, SILVER), ("gold", found.unbuilt.gold, GOLD))
    left = [
        f"all of {layer}" if len(names) == len(known) else f"{', '.join(names)} of {layer}"
        for layer, names, known in layers
        if names
    ]
    left += ["what is published"] if found.unbuilt.published else []
    if found.worker is not None:
        return f"A rebuild has not come to its end yet; still to be made anew: {'; '.join(left)}."
    goes_on = "the watch does so with its next round" if found.watcher else "`manydesks pipeline run` does so"
    return f"A rebuild was broken off before its end. Still to be made anew: {'; '.join(left)}; {goes_on}."


def _rebuild_value(left: Unbuilt) -> dict[str, Any] | None:
    if not left:
        return None
    return {"silver": list(left.silver), "gold": list(left.gold), "published": left.published}


def _standing_value(found: Standing) -> dict[str, Any]:
    reach = {"bronze": found.bronze, "silver": found.silver, "gold": found.gold, "published": found.published}
    return {
        "beginsAt": found.begins,
        "toSeq": found.bronze,
        "head": found.head,
        "behind": found.behind,
        "ahead": found.ahead,
        "layers": {**reach, "forgotten": found.erased},
        "erasuresWaiting": found.forgotten,
        # with the ledger: all that is made of bronze may be level with bronze while there are newer events
        "level": found.level and found.bronze == found.head,
        "brokenOff": found.broken_off,
        "damage": found.damage,
        "outdated": list(found.outdated),
        "rebuilding": _rebuild_value(found.unbuilt),
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
