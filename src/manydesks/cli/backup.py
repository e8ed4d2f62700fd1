"""`manydesks backup`: the whole office in one file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.quantity import count, size
from manydesks.cli.text import one_line

#: of what was left out, so many are named
NAMED = 5


@click.command(cls=Command)
@click.argument("place", required=False)
@click.option("--with-secrets", is_flag=True, help="Also the keys, the API's token and the list of mounts.")
@click.option(
    "--with-lake/--without-lake", "lake", default=None, help="Also the lake  [default: if it alone has old events]"
)
@pass_invocation
def backup(invocation: Invocation, place: str | None, with_secrets: bool, lake: bool | None) -> None:
    """Make a backup of the office in one file.

    PLACE is a new file, or a folder, in which the file is named after the office and the moment; without it that is the
    current folder. The office may be at work meanwhile. `manydesks restore` puts it back.
    """
    from manydesks.office.backup import backup as make

    home, out = invocation.home, invocation.out
    target = _target(place, home.path.name, invocation.clock.now())
    own = _own_lake(invocation)
    with _resting(own if lake is not False else None):
        made = make(
            home,
            target,
            clock=invocation.clock,
            with_secrets=with_secrets,
            with_lake=lake if own is not None else False,
        )
    manifest = made.manifest
    facts: dict[str, Any] = {
        "seq": manifest.seq,
        "bytes": made.bytes,
        "secrets": manifest.secrets,
        "lake": manifest.lake,
        "left_out": len(manifest.left_out),
    }
    _tell_ledger(invocation, facts)
    if out.json:
        names = {"left_out": "leftOut"}
        out.value({"file": str(made.path), **{names.get(key, key): value for key, value in facts.items()}})
    else:
        out.line(f"{one_line(str(made.path))}: {size(made.bytes)}, {count(len(manifest.members), 'file')}, "
                 f"the ledger up to event {manifest.seq:,}.")  # fmt: skip
    for name, why in list(manifest.left_out.items())[:NAMED]:
        out.note(f"Left out: {name}: {why}.")
    if len(manifest.left_out) > NAMED:
        out.note(f"{len(manifest.left_out) - NAMED} more were left out; manifest.json in the file names them.")
    if made.pruned and not manifest.lake:
        where = "" if own is not None else ", which lies outside the office's folder"
        out.note(f"Events up to {made.pruned} are in the lake only{where}; this backup does not have them.")
    if manifest.secrets:
        out.note("The file holds the office's keys: whoever can read it can use them.")


def _target(place: str | None, home: str, now: int) -> Path:
    given = Path(place) if place else Path.cwd()
    if not given.is_dir():
        return given.absolute()
    moment = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d-%H%M%S")
    return given.absolute() / f"{home.lstrip('.') or 'manydesks'}-{moment}.backup"


def _own_lake(invocation: Invocation) -> Path | None:
    """The lake, if it lies in the office's own folder and there is one."""
    from manydesks.settings.load import load_settings

    home = invocation.home
    pipeline = load_settings(home, invocation.environ).pipeline
    if "://" in pipeline.lake or pipeline.lake_folder(home.lake).resolve() != home.lake.resolve():
        return None
    return home.lake


@contextlib.contextmanager
def _resting(lake: Path | None) -> Iterator[None]:
    """While it is copied nobody adds to it; LakeBusy if somebody does for long."""
    if lake is None or not lake.is_dir() or not any(lake.iterdir()):
        yield
        return
    from manydesks.pipeline.lock import PATIENCE_SECONDS, hold

    with hold(lake, patience=PATIENCE_SECONDS):
        yield


def _tell_ledger(invocation: Invocation, facts: dict[str, Any]) -> None:
    """The backup is made: an office that cannot be told does not make it any worse."""
    from manydesks.domain.errors import ManyDesksError

    try:
        invocation.door.ask("backup_made", **facts)
    except ManyDesksError as error:
        invocation.out.note(f"The backup is made, but the ledger does not say so: {error}")
