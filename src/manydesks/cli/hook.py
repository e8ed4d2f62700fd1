"""`manydesks hook`: the owner's plugins."""

from __future__ import annotations

from typing import Any

import click

from manydesks.cli.command import Group, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Column

COLUMNS = (
    Column("name"),
    Column("state"),
    Column("hooks", flexible=True),
    Column("from", flexible=True),
    Column("last failure", flexible=True),
)


@click.group(cls=Group)
def hook() -> None:
    """Look at the plugins that see messages and events."""


@hook.command("list")
@pass_invocation
def list_hooks(invocation: Invocation) -> None:
    """List the plugins, what each hooks into, and what went wrong with it last.

    While an office runs, as it sees them; else each is loaded for a moment. HOOKS are in the form hook:function, with
    its order where that is not 100; one that lost its process too often is left out, and says so.
    """
    found, out = _found(invocation), invocation.out
    if out.json:
        out.value(found)
        return
    if not found:
        out.note(f"There are no plugins; a file in {invocation.home.plugins} is one.")
        return
    out.table(COLUMNS, ((row["name"], row["state"], _hooks(row), row["source"], _trouble(row)) for row in found))


def _found(invocation: Invocation) -> list[dict[str, Any]]:
    if invocation.door.host() is not None:
        return list(invocation.door.ask("hooks")["plugins"])
    import asyncio

    from manydesks.office.hooks.examine import examine
    from manydesks.settings.load import load_settings

    settings = load_settings(invocation.home, invocation.environ)
    failures = invocation.reader.hook_failures() if invocation.home.office_db.exists() else {}
    return asyncio.run(examine(invocation.home, settings.hooks, failures))


def _hooks(row: dict[str, Any]) -> str | None:
    said = []
    for spec in row["hooks"]:
        word = f"on {', '.join(spec['kinds'])}" if spec["hook"] == "on" else spec["hook"]
        order = f" ({spec['order']})" if spec["order"] != 100 else ""
        said.append(f"{word}:{spec['name']}{order}{' (left out)' if spec.get('leftOut') else ''}")
    return "; ".join(said) or None


def _trouble(row: dict[str, Any]) -> str | None:
    left_out = [f"{spec['hook']}:{spec['name']}: {spec['leftOut']}" for spec in row["hooks"] if spec.get("leftOut")]
    said = row["reason"] or "; ".join(left_out) or row["lastFailure"]
    return str(said) if said else None
