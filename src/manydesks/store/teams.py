"""Teams: agents with a leader and a room. Every change is a ledger event in the same transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.domain.ids import is_name
from manydesks.store import versions
from manydesks.store.directory import NAME_RULE, check_name, directory, unknown_agent, unknown_team
from manydesks.store.ledger import OfficeTransaction


def get_team(tx: OfficeTransaction, id: str) -> dict[str, Any]:
    row = tx.one("select id, name, leader from teams where id = ?", (id,))
    if row is None:
        raise unknown_team(id, directory(tx).teams)
    members = [agent for (agent,) in tx.all("select agent from team_members where team = ? order by agent", (id,))]
    return {"id": row[0], "name": row[1], "leader": row[2], "members": members}


def add_team(
    tx: OfficeTransaction,
    *,
    id: str,
    leader: str,
    name: str | None = None,
    members: Iterable[str] = (),
    actor: str = "owner",
) -> dict[str, Any]:
    """A new team. The room of a removed one of the same id is there again, with what was said in it."""
    if not is_name(id):
        raise BadInput(f"'{id}' is not a name for a team: {NAME_RULE}; some words are reserved.")
    if tx.one("select 1 from teams where id = ? union select 1 from agents where id = ?", (id, id)) is not None:
        raise BadInput(f"The name '{id}' is taken; teams and agents, removed ones too, share one set of names.")
    check_name(name or id, "a team")
    everyone = sorted({leader, *members})
    _refuse_strangers(tx, everyone)
    values = {"id": id, "name": name or id, "leader": leader, "created_at": tx.now, "updated_at": tx.now}
    tx.insert("teams", values)
    for agent in everyone:
        tx.insert("team_members", {"team": id, "agent": agent})
    added = get_team(tx, id)
    tx.event("team_added", after=added, actor=actor)
    return added


def edit_team(
    tx: OfficeTransaction,
    id: str,
    *,
    name: str | None = None,
    leader: str | None = None,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    exactly: Iterable[str] | None = None,
    version: str | None = None,
    actor: str = "owner",
) -> dict[str, Any]:
    """Change what is given and nothing else; the team afterwards. A new leader becomes a member.

    `exactly`: who is in it, in the place of `add` and `remove`. `version`: what was read, else `Stale`.
    """
    before = get_team(tx, id)
    versions.check(before, versions.TEAM, version, f"The team '{id}'")
    if exactly is not None:
        wanted = {*exactly, leader or before["leader"]}
        add, remove = wanted - set(before["members"]), set(before["members"]) - wanted
    coming, leaving = {*add, *((leader,) if leader is not None else ())}, set(remove)
    if both := sorted(coming & leaving):
        raise BadInput(f"'{both[0]}' cannot join the team '{id}' and leave it at once.")
    if strangers := sorted(leaving - set(before["members"])):
        raise BadInput(f"'{strangers[0]}' is not in the team '{id}'.")
    if (leader or before["leader"]) in leaving:
        raise BadInput(f"'{before['leader']}' leads the team '{id}'; give it another leader first.")
    if name is not None:
        check_name(name, "a team")
    _refuse_strangers(tx, sorted(coming))
    tx.run("update teams set name = coalesce(?, name), leader = coalesce(?, leader) where id = ?", (name, leader, id))
    for agent in sorted(coming - set(before["members"])):
        tx.insert("team_members", {"team": id, "agent": agent})
    for agent in leaving:
        tx.run("delete from team_members where team = ? and agent = ?", (id, agent))
    return _changed(tx, before, actor)


def remove_team(tx: OfficeTransaction, id: str, *, actor: str = "owner") -> dict[str, Any]:
    """The team is no more. What was posted is still delivered to those who were its members, and stays to be read."""
    before = get_team(tx, id)
    tx.run("delete from team_members where team = ?", (id,))
    tx.run("delete from teams where id = ?", (id,))
    tx.event("team_removed", before=before, actor=actor)
    return before


def leave(tx: OfficeTransaction, agent: str, *, actor: str) -> None:
    """The agent is in no team any more; who leads one is no business of this."""
    for (team,) in tx.all("select team from team_members where agent = ? order by team", (agent,)):
        before = get_team(tx, team)
        tx.run("delete from team_members where team = ? and agent = ?", (team, agent))
        _changed(tx, before, actor)


def _changed(tx: OfficeTransaction, before: dict[str, Any], actor: str) -> dict[str, Any]:
    after = get_team(tx, before["id"])
    if after != before:
        tx.run("update teams set updated_at = ? where id = ?", (tx.now, before["id"]))
        tx.event("team_changed", before=before, after=after, actor=actor)
    return after


def _refuse_strangers(tx: OfficeTransaction, agents: Iterable[str]) -> None:
    known = directory(tx).agents
    for agent in agents:
        if agent not in known:
            raise unknown_agent(agent, known)
