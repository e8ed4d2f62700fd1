"""`manydesks agent add` and `edit`: what an agent is."""

from __future__ import annotations

import tomllib
from typing import Any

import click

from manydesks.cli import complete
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.names import names
from manydesks.cli.number import Whole
from manydesks.cli.text import one_line

CONCURRENCY = "How many of its sessions may run at one time, 1 to 64"
BUDGET = "What it may spend, such as '2usd/day, 50runs/day'"


@click.command(cls=Command)
@click.argument("id")
@click.option("--name", help="What people call it  [default: its id]")
@click.option("--provider", help="What drives it  [default: rehearsal]")
@click.option("--model", help="The provider's model  [default: the provider's]")
@click.option("--sandbox", help="What holds its programs  [default: the setting sandbox.kind]")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the provider; repeatable.")
@click.option("--concurrency", type=Whole(), metavar="N", help=f"{CONCURRENCY}  [default: 1]")
@click.option("--may-reach", metavar="AGENT,…", help="Whom it may address beyond its team mates.")
@click.option("--budget", metavar="CAPS", help=f"{BUDGET}  [default: the settings']")
@pass_invocation
def add(
    invocation: Invocation,
    id: str,
    name: str | None,
    provider: str | None,
    model: str | None,
    sandbox: str | None,
    options: tuple[str, ...],
    concurrency: int | None,
    may_reach: str | None,
    budget: str | None,
) -> None:
    """Add an agent, with a workspace of its own."""
    more: dict[str, Any] = {}
    if concurrency is not None:
        more["concurrency"] = concurrency
    if may_reach is not None:
        more["reaches"] = names(may_reach)
    if budget is not None:
        more["budget"] = budget
    given = dict(_option(text) for text in options)
    made = invocation.door.ask(
        "agent_add", id=id, name=name, provider=provider, model=model, sandbox=sandbox, options=given, **more
    )
    out = invocation.out
    for notice in made.get("notices", ()):
        out.note(notice)
    if out.json:
        out.value(made)
        return
    driven = " ".join(one_line(part) for part in (made["provider"], made.get("model")) if part)
    out.line(f"Agent {one_line(made['id'])} added ({driven}); its workspace is {one_line(str(made['workspace']))}.")


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.agents)
@click.option("--name", help="What people call it")
@click.option("--provider", help="What drives it")
@click.option("--model", help="The provider's model; '' for the provider's own choice")
@click.option("--sandbox", help="What holds its programs; '' for the setting sandbox.kind")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the provider; repeatable.")
@click.option("--unset-option", "unset", multiple=True, metavar="KEY", help="An option that it loses; repeatable.")
@click.option("--concurrency", type=Whole(), metavar="N", help=CONCURRENCY)
@click.option("--may-reach", metavar="AGENT,…", help="Whom it may address beyond its team mates; '' for nobody")
@click.option("--budget", metavar="CAPS", help=f"{BUDGET}; 'none' for the settings'")
@pass_invocation
def edit(
    invocation: Invocation,
    id: str,
    name: str | None,
    provider: str | None,
    model: str | None,
    sandbox: str | None,
    options: tuple[str, ...],
    unset: tuple[str, ...],
    concurrency: int | None,
    may_reach: str | None,
    budget: str | None,
) -> None:
    """Change what is given of an agent, and nothing else.

    A run under way goes on as it began; the next one is as the agent is then. Permission to address another agent is
    one way: the other may answer, but not begin.
    """
    given = {"name": name, "provider": provider, "model": model, "sandbox": sandbox, "concurrency": concurrency}
    changes: dict[str, Any] = {key: value for key, value in {**given, "budget": budget}.items() if value is not None}
    if may_reach is not None:
        changes["reaches"] = names(may_reach)
    if options:
        changes["set_options"] = dict(_option(text) for text in options)
    if unset:
        changes["unset_options"] = list(unset)
    if not changes:
        raise click.UsageError("Say what is to change; `manydesks agent edit --help` shows what can.")
    done, out = invocation.door.ask("agent_edit", id=id, changes=changes), invocation.out
    for notice in done.get("notices", ()):
        out.note(notice)
    if out.json:
        out.value(done)
    else:
        out.line(f"Agent {one_line(id)} {'changed' if done.get('changed') else 'was so already'}.")


def _option(text: str) -> tuple[str, Any]:
    """KEY=VALUE; the value as TOML if it is, else as plain text."""
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise click.UsageError(f"An option is KEY=VALUE, not '{text[:80]}'.")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return key.strip(), value
    return key.strip(), parsed["value"] if len(parsed) == 1 else value
