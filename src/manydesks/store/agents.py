"""Agents: who works here. Every change is a ledger event in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from manydesks.domain.errors import BadInput, WrongState
from manydesks.domain.ids import is_name
from manydesks.store import teams, versions
from manydesks.store.directory import NAME_RULE, PRESENT, check_name, directory, unknown_agent
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.places import set_default
from manydesks.store.waits import may_begin

COLUMNS = (
    "id", "name", "provider", "model", "workspace", "sandbox", "options", "concurrency", "budget", "reaches", "paused",
    "created_at", "updated_at",
)  # fmt: skip
SELECT = f"select {', '.join(COLUMNS)} from agents"

#: runs of one agent at one time
MOST_CONCURRENCY = 64
#: what `edit_agent` may be given
EDITABLE = frozenset({"name", "provider", "model", "sandbox", "options", "concurrency", "budget", "reaches"})
#: the bit of `paused` that is a person's; 2 is the budget's (store/budgets.py)
BY_HAND = 1
#: columns that hold JSON
_JSON = ("options", "budget", "reaches")


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
    concurrency: int = 1,
    budget: Mapping[str, Any] | None = None,
    reaches: Sequence[str] = (),
    actor: str = "owner",
) -> dict[str, Any]:
    """A new agent, or a removed one brought back under its old id: as new, but for its sessions."""
    if not is_name(id):
        raise BadInput(f"'{id}' is not a name for an agent: {NAME_RULE}; some words are reserved.")
    if tx.one(f"select 1 from agents where id = ? and {PRESENT}", (id,)) is not None:
        raise BadInput(f"There is an agent '{id}' already; `manydesks agent edit {id}` changes it.")
    if tx.one("select 1 from teams where id = ?", (id,)) is not None:
        raise BadInput(f"There is a team '{id}' already; agents and teams share one set of names.")
    checked = _checked(tx, id, {"name": name or id, "concurrency": concurrency, "reaches": reaches})
    values = {
        "id": id,
        **checked,
        "reaches": _dumps(checked["reaches"]),
        "provider": provider,
        "model": model,
        "workspace": workspace or f"workspaces/{id}",
        "sandbox": sandbox,
        "options": _dumps(options or {}),
        "budget": _dumps(budget) if budget else None,
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
    return {**card, **{column: json.loads(card[column]) for column in _JSON if card[column] is not None}}


def edit_agent(
    tx: OfficeTransaction, id: str, changes: Mapping[str, Any], *, actor: str = "owner", version: str | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Change what is given and nothing else: the card before and after. What changes nothing is no event.

    The caller has checked provider, options, sandbox and budget, which the store only keeps. A run under way goes on as
    it began. `version`: what was read; raises `Stale` if it is another one by now.
    """
    if unknown := sorted(changes.keys() - EDITABLE):
        raise BadInput(f"'{unknown[0]}' of an agent cannot be changed; {', '.join(sorted(EDITABLE))} can.")
    before = get_agent(tx, id)
    versions.check(before, versions.AGENT, version, f"The agent '{id}'")
    news = {**changes, **_checked(tx, id, changes)}
    changed = {key: value for key, value in news.items() if value != before[key]}
    if not changed:
        return before, before
    values = {key: _dumps(value) if key in _JSON and value is not None else value for key, value in changed.items()}
    settings = ", ".join(f"{column} = ?" for column in values)
    tx.run(f"update agents set {settings}, updated_at = ? where id = ?", (*values.values(), tx.now, id))
    after = get_agent(tx, id)
    tx.event("agent_changed", agent=id, before=before, after=after, actor=actor)
    return before, after


def _checked(tx: OfficeTransaction, id: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of these values the ones that the store itself understands, as a card has them."""
    found: dict[str, Any] = {}
    if "name" in given:
        check_name(given["name"], "an agent")
        found["name"] = given["name"]
    if "concurrency" in given:
        runs = given["concurrency"]
        if type(runs) is not int or not 1 <= runs <= MOST_CONCURRENCY:
            raise BadInput(f"The concurrency of an agent is a whole number from 1 to {MOST_CONCURRENCY}.")
        found["concurrency"] = runs
    if "reaches" in given:
        found["reaches"] = _reachable(tx, id, given["reaches"])
    return found


def _reachable(tx: OfficeTransaction, id: str, wanted: Sequence[str]) -> list[str]:
    people = directory(tx)
    for agent in wanted:
        if agent == id:
            raise BadInput(f"The agent '{id}' cannot be permitted to reach itself.")
        if agent in people.teams:
            raise BadInput(f"'{agent}' is a team; permission is for agents, so name those of its members.")
        if agent not in people.agents:
            raise unknown_agent(agent, people.agents)
    return sorted(set(wanted))


def remove_agent(tx: OfficeTransaction, id: str, *, actor: str = "owner") -> dict[str, Any]:
    """The agent leaves; its workspace and history stay. Refused while it has work."""
    before = get_agent(tx, id)
    if waiting := unfinished(tx, id):
        raise BadInput(
            f"The agent '{id}' still has {waiting} {'message' if waiting == 1 else 'messages'} pending, running or "
            f"held; wait for them, or end them: `manydesks queue cancel --agent {id}`."
        )
    led = tx.one("select id from teams where leader = ?", (id,))
    if led is not None:
        raise BadInput(f"The agent '{id}' leads the team '{led[0]}'; give it another leader first.")
    teams.leave(tx, id, actor=actor)
    # or whoever comes under this id one day would be reached by those who never were meant to
    for (other,) in tx.all(f"select id from agents where {PRESENT} and reaches like ?", (f'%"{id}"%',)):
        left = [agent for agent in get_agent(tx, other)["reaches"] if agent != id]
        edit_agent(tx, other, {"reaches": left}, actor=actor)
    tx.run("update agents set removed_at = ?, updated_at = ? where id = ?", (tx.now, tx.now, id))
    for (place,) in tx.all("select id from conversations where default_agent = ?", (id,)):
        set_default(tx, place, id, None, actor)
    tx.event("agent_removed", agent=id, before=before, actor=actor)
    return before


def pause(tx: OfficeTransaction, id: str, *, actor: str = "owner") -> bool:
    """The agent begins no more runs; one under way goes on. False: it was paused before."""
    return _set_paused(tx, id, 1, "agent_paused", actor)


def resume(tx: OfficeTransaction, id: str, *, actor: str = "owner") -> bool:
    """The agent may begin runs again. False: it was not paused. Raises WrongState if its budget keeps it paused."""
    if not get_agent(tx, id)["paused"] & BY_HAND and (why := over_budget(tx, id)) is not None:
        raise WrongState(
            f"The agent '{id}' is paused by a budget: {why} Answer its question (`manydesks questions`), raise the "
            "cap, or wait for the next day."
        )
    return _set_paused(tx, id, 0, "agent_resumed", actor)


def _set_paused(tx: OfficeTransaction, id: str, paused: int, kind: str, actor: str) -> bool:
    before = get_agent(tx, id)["paused"]
    if before & BY_HAND == paused:
        return False
    # what a budget has paused, a budget resumes
    tx.run("update agents set paused = ?, updated_at = ? where id = ?", (before & ~BY_HAND | paused, tx.now, id))
    tx.event(kind, agent=id, actor=actor)
    if not paused:
        may_begin(tx, id)
    return True


def over_budget(tx: OfficeTransaction, id: str) -> str | None:
    """Why its budget has paused the agent; None: it has not."""
    row = tx.one("select pause_reason from agents where id = ? and paused >= 2", (id,))
    return row[0] if row else None


def unfinished(tx: OfficeTransaction, id: str) -> int:
    """Messages of the agent that have not ended."""
    return sum(n for state, n in tx.counts("messages", id).items() if state <= 2)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
