"""Who can be addressed, and by whom: agents, teams and permissions as they are now."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable

from manydesks.domain.errors import BadInput, UnknownAgent, UnknownTeam
from manydesks.domain.routing import Directory, Team
from manydesks.store.transaction import Transaction

#: an agent that was removed keeps its row, for its history
PRESENT = "removed_at is null"

NAME_RULE = "1 to 32 lowercase letters, digits, '-' or '_', beginning and ending with a letter or digit"
#: what people call an agent or a team
MOST_NAME = 80


#: what was read last, by its number; one that is drawn anew with every change means the same in every store
_read: dict[int, Directory] = {}


def directory(tx: Transaction, version: int | None = None) -> Directory:
    """Who can be addressed. Every message asks, so it is read again only when somebody has changed it.

    `version`: of `people_version`, if that was read already.
    """
    if version is None:
        ((version,),) = tx.all("select value from people_version where only = 1")
    if (known := _read.get(version)) is None:
        _read.clear()
        known = _read[version] = _look(tx)
    return known


def _look(tx: Transaction) -> Directory:
    members: dict[str, list[str]] = {}
    for team, agent in tx.all("select team, agent from team_members order by team, agent"):
        members.setdefault(team, []).append(agent)
    people = tx.all(f"select id, name, reaches from agents where {PRESENT} order by id")
    return Directory(
        agents={id: name for id, name, _ in people},
        teams={
            id: Team(id=id, name=name, leader=leader, members=tuple(members.get(id, ())))
            for id, name, leader in tx.all("select id, name, leader from teams order by id")
        },
        reaches={id: frozenset(json.loads(reaches)) for id, _, reaches in people if reaches != "[]"},
    )


def check_name(name: str, what: str) -> None:
    """What people call an agent or a team stands in prompts and tables: one line of text."""
    if not name.strip() or len(name) > MOST_NAME or not name.isprintable():
        raise BadInput(f"The name of {what} is one line of 1 to {MOST_NAME} characters that can be printed.")


def unknown_agent(id: str, agents: Iterable[str]) -> UnknownAgent:
    return UnknownAgent(agent=id, nearest=_nearest(id, agents))


def unknown_team(id: str, teams: Iterable[str]) -> UnknownTeam:
    return UnknownTeam(team=id, nearest=_nearest(id, teams))


def _nearest(id: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(id, list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""
