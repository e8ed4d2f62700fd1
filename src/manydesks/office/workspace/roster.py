"""The part of an agent's manual that lists whom it can reach. Pure: text in, text out."""

from __future__ import annotations

import re
from itertools import islice

from manydesks.domain.routing import Directory, Team

#: names in one list; a longer one would be most of the manual, and change with everybody who comes
MOST = 40

_BEGIN = re.compile(rb"<!-- manydesks:mates\b[^>]*-->")
_END = re.compile(rb"<!-- /manydesks:mates -->")

#: what a person who opens the file should know
BEGIN = (
    "<!-- manydesks:mates | The office writes this part anew whenever agents or teams change: what you change between "
    "the two marks is replaced. Write above or below them. If you remove the marks, the office leaves the file alone. "
    "-->"
)
END = "<!-- /manydesks:mates -->"


def roster(people: Directory, agent: str) -> str:
    """Whom the agent can reach, as its manual says it."""
    teams = [people.teams[id] for id in sorted(people.teams_of(agent))]
    parts = [f"You are `{agent}`." if teams else f"You are `{agent}`, and in no team."]
    listed = {agent}
    for team in teams:
        mates = [mate for mate in team.everyone if mate != agent and mate in people.agents]
        parts += [_about(team, agent), _list(people, mates, leader=team.leader)]
        listed.update(mates)
    # who is in a team reaches nobody else without permission: in a large office most pairs need no look
    candidates = people.reaches.get(agent, ()) if teams else people.agents
    able = (other for other in sorted(candidates) if other not in listed and people.may_address(agent, other))
    others = list(islice(able, MOST + 1))
    if others:
        parts += ["You may also address:" if teams else "You may address:", _list(people, others)]
    elif not teams:
        parts.append("There is nobody whom you may address.")
    return "\n\n".join(part for part in parts if part)


def _about(team: Team, agent: str) -> str:
    called = f" ({_plain(team.name)})" if team.name and team.name != team.id else ""
    led = "led by you" if team.leader == agent else f"led by `{team.leader}`"
    reached = "" if team.leader == agent else f" `@{team.id}` reaches its leader."
    return f"Your team `{team.id}`{called} is {led}.{reached} Its room: `[#{team.id}: text]`."


def _list(people: Directory, agents: list[str], *, leader: str | None = None) -> str:
    lines = []
    for agent in agents[:MOST]:
        name = _plain(people.agents[agent])
        called = f": {name}" if name and name != agent else ""
        lines.append(f"* `@{agent}`{called}{', leads the team' if agent == leader else ''}")
    if len(agents) > MOST:
        lines.append("* and others; ask the person who you work for if you need somebody else")
    return "\n".join(lines)


def _plain(name: str) -> str:
    """A name on one line, that ends neither a code span nor a comment."""
    shown = "".join(character if character.isprintable() else " " for character in name)
    return " ".join(shown.translate({ord("`"): "'", ord("<"): "(", ord(">"): ")"}).split())[:80]


def renewed(manual: bytes, part: str) -> bytes | None:
    """The manual with that part between its marks, every other byte as it was; None: it has not just one pair."""
    begins, ends = list(_BEGIN.finditer(manual)), list(_END.finditer(manual))
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        return None
    return manual[: begins[0].start()] + f"{BEGIN}\n{part}\n{END}".encode() + manual[ends[0].end() :]
