"""Before the office opens: a model within reach is offered to an assistant that only rehearses. Asked once."""

from __future__ import annotations

import asyncio
import getpass
from typing import TYPE_CHECKING

import click

from manydesks.cli.invocation import Invocation
from manydesks.cli.text import one_line
from manydesks.domain.errors import ManyDesksError

if TYPE_CHECKING:
    from manydesks.office.ways import Way

SETTING = "office.offer_model"


def offer(invocation: Invocation) -> None:
    """Ask at a terminal whether to switch; elsewhere only say how. Nothing is switched, stored or spent unasked."""
    from manydesks.office.ways import ways
    from manydesks.settings.load import load_settings
    from manydesks.settings.secrets import load_secrets

    home, environ, out = invocation.home, invocation.environ, invocation.out
    settings = load_settings(home, environ)
    if not settings.office.offer_model or not _rehearses(invocation):
        return
    found = asyncio.run(ways(settings, load_secrets(home, environ), environ))
    if not found:
        return
    way = found[0]
    if not (invocation.interactive() and out.terminal) or out.json:
        out.note(f"{way.found}; to use it: {way.how()}. Until then the assistant only rehearses.")
        return
    switched = _ask(way) and _switch(invocation, way)
    _remember(invocation)
    if not switched:
        out.note(f"The assistant only rehearses, as before; later: {way.how()}.")


def _rehearses(invocation: Invocation) -> bool:
    """Whether there is nobody but the first agent, as it was made; in a new office it is made yet."""
    from manydesks.office.clerk import FIRST_AGENT

    if not invocation.home.office_db.exists():
        return True
    try:
        reader = invocation.door.reader()
    except ManyDesksError:
        return False  # the office itself will say what is the matter with its store, or mend it
    try:
        agents = reader.agents()
    finally:
        reader.close()
    return [(row["id"], row["provider"], row["options"]) for row in agents] == [(FIRST_AGENT, "rehearsal", {})]


def _ask(way: Way) -> bool:
    more = " An API key is needed for it as well, since no login ever enters a desk." if way.wants_key else ""
    copied = f" The key is copied to secrets.toml ({way.secret})." if way.variable else ""
    by = "Claude Code" if way.provider == "claude" else "it"
    return click.confirm(
        f"{way.found}. Shall the assistant be driven by {by}? That costs money.{copied}{more}", err=True
    )


def _switch(invocation: Invocation, way: Way) -> bool:
    from manydesks.office.clerk import FIRST_AGENT
    from manydesks.settings.secrets import set_secret

    changes = {"provider": way.provider}
    if way.needs_model:
        changes["model"] = click.prompt("Which model, by the name that the API has for it", err=True).strip()
    key = invocation.environ[way.variable].strip() if way.variable else None
    if way.wants_key:
        key = getpass.getpass("The API key (it is not shown; empty: not now): ").strip()
        if not key:
            return False
    invocation.home.prepare()
    if key is not None:
        set_secret(invocation.home, way.secret, key)
    invocation.door.ask("agent_edit", id=FIRST_AGENT, changes=changes)
    driven = " ".join(changes.values())
    invocation.out.note(f"The assistant is driven by {one_line(driven)}; `manydesks doctor` says whether all is well.")
    return True


def _remember(invocation: Invocation) -> None:
    """In the settings, where the owner sees it and may have it asked again."""
    from manydesks.settings.file import change_settings

    invocation.home.prepare()
    change_settings(invocation.home, SETTING, False)
