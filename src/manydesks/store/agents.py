"""Agents and teams: who works here. Every change is a ledger event in the same transaction."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from manydesks.domain.errors import BadInput, UnknownAgent
from manydesks.domain.ids import is_name
from manydesks.domain.routing import Directory, Team
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.places import set_default

COLUMNS = (
    "id", "name", "provider", "model", "workspace", "sandbox", "options", "concurrency", "paused", "created_at",
    "updated_at",
)  # fmt: skip
SELECT = f"select {', '.join(COLUMNS)} from agents"
PRESENT = "removed_at is null"

NAME_RULE = "1 to 32 lowercase letters, digits, '-' or '_', beginning and ending with a letter or digit"


def add_agent(
    tx: OfficeTransaction,
    *,
    id: str,
    provider: str,
    name: str | None = None,
    model: str | None = None,
    workspace: str | None = None,
    sandbox: str | None = None,
    options: Mapping[str, Any] | None = None,
    actor: str = "owner",
) -> dict[str, Any]:
    """A new agent, or a removed one brought back under its old id."""
    if not is_name(id):
        raise BadInput(f"'{id}' is not a name for an agent: {NAME_RULE}; some words are reserved.")
    if tx.one(f"select 1 from agents where id = ? and {PRESENT}", (id,)) is not None:
        raise BadInput(f"There is an agent '{id}' already; `manydesks agent remove {id}` removes it.")
    if tx.one("select 1 from teams where id = ?", (id,)) is not None:
        raise BadInput(f"There is a team '{id}' already; agents and teams share one set of names.")
    values = {
        "id": id,
        "name": name or id,
        "provider": provider,
        "model": model,
        "workspace": workspace or f"workspaces/{id}",
        "sandbox": sandbox,
        "options": json.dumps(options or {}, ensure_ascii=False),
        "created_at": tx.now,
        "updated_at": tx.now,
    }
    tx.run("delete from agents where id = ? and removed_at is not null and not exists "
           "(select 1 from sessions where agent = agents.id)", (id,))  # fmt: skip
    if tx.one("select 1 from agents where id = ?", (id,)) is None:
        tx.insert("agents", values)
    else:
        settings = ", ".join(f"{column} = ?" for column in values)
        tx.run(f"update agents set {settings}, paused = 0, removed_at = null where id = ?", (*values.values(), id))
    added = get_agent(tx, id)
    tx.event("agent_added", agent=id, after=added, actor=actor)
    return added


def get_agent(tx: OfficeTransaction, id: str) -> dict[str, Any]:
    row = tx.one(f"{SELECT} where id = ? and {PRESENT}", (id,))
    if row is None:
        raise unknown_agent(id, directory(tx).agents)
    card = dict(zip(COLUMNS, row, strict=True))
    return {**card, "options": json.loads(card["options"])}


def remove_agent(tx: OfficeTransaction, id: str, *, actor: str = "owner") -> dict[str, Any]:
    """The agent leaves; its workspace and history stay. Refused while it has work."""
    before = get_agent(tx, id)
    if waiting := unfinished(tx, id):
        raise BadInput(
            f"The agent '{id}' still has {waiting} {'message' if waiting == 1 else 'messages'} pending, running or "
            "held; wait for them, or drop the held ones."
        )
    led = tx.one("select id from teams where leader = ?", (id,))
    if led is not None:
        raise BadInput(f"The agent '{id}' leads the team '{led[0]}'; give it another leader first.")
    tx.run("delete from team_members where agent = ?", (id,))
    tx.run("update agents set removed_at = ?, updated_at = ? where id = ?", (tx.now, tx.now, id))
    for (place,) in tx.all("select id from conversations where default_agent = ?", (id,)):
        set_default(tx, place, id, None, actor)
    tx.event("agent_removed", agent=id, before=before, actor=actor)
    return before


def pause(tx: OfficeTransaction, id: str, *, actor: str = "owner") -> bool:
    """The agent begins no more runs; one under way goes on. False: it was paused before."""
    return _set_paused(tx, id, 1, "agent_paused", actor)


def resume(tx: OfficeTransaction, id: str, *, actor: str = "owner") -> bool:
    """The agent may begin runs again. False: it was not paused."""
    return _set_paused(tx, id, 0, "agent_resumed", actor)


def _set_paused(tx: OfficeTransaction, id: str, paused: int, kind: str, actor: str) -> bool:
    if get_agent(tx, id)["paused"] == paused:
        return False
    tx.run("update agents set paused = ?, updated_at = ? where id = ?", (paused, tx.now, id))
    tx.event(kind, agent=id, actor=actor)
    return True


def unfinished(tx: OfficeTransaction, id: str) -> int:
    """Messages of the agent that have not ended."""
    row = tx.one("select sum(n) from counters where scope = 'messages' and agent = ? and state <= 2", (id,))
    return int(row[0] or 0) if row else 0


def add_team(
    tx: OfficeTransaction, *, id: str, name: str, leader: str, members: Iterable[str], actor: str = "owner"
) -> None:
    if not is_name(id):
        raise BadInput(f"'{id}' is not a name for a team: {NAME_RULE}; some words are reserved.")
    if tx.one("select 1 from teams where id = ? union select 1 from agents where id = ?", (id, id)) is not None:
        raise BadInput(f"The name '{id}' is taken; agents and teams share one set of names.")
    everyone = sorted({leader, *members})
    for agent in everyone:
        get_agent(tx, agent)
    tx.insert("teams", {"id": id, "name": name, "leader": leader, "created_at": tx.now})
    for agent in everyone:
        tx.insert("team_members", {"team": id, "agent": agent})
    tx.event("team_added", after={"id": id, "name": name, "leader": leader, "members": everyone}, actor=actor)


def directory(tx: OfficeTransaction) -> Directory:
    """Who can be addressed."""
    members: dict[str, list[str]] = {}
    for team, agent in tx.all("select team, agent from team_members order by team, agent"):
        members.setdefault(team, []).append(agent)
    return Directory(
        agents=dict(tx.all(f"select id, name from agents where {PRESENT} order by id")),
        teams={
            id: Team(id=id, leader=leader, members=tuple(members.get(id, ())))
            for id, leader in tx.all("select id, leader from teams")
        },
    )


def unknown_agent(id: str, agents: Iterable[str]) -> UnknownAgent:
    near = difflib.get_close_matches(id, list(agents), n=1)
    return UnknownAgent(agent=id, nearest=f" (did you mean '{near[0]}'?)" if near else "")


def claimable(tx: OfficeTransaction, queues: list[str]) -> list[tuple[str, int]]:
    """Of these agents those that may begin another run now, with how many."""
    able = []
    for agent in queues:
        row = tx.one(f"select concurrency from agents where id = ? and paused = 0 and {PRESENT}", (agent,))
        if row is None:
            continue
        running = tx.one("select count(distinct fence) from messages where state = 1 and queue = ?", (agent,))
        free = row[0] - (running[0] if running else 0)
        if free > 0:
            able.append((agent, free))
    return able
