"""Makes the example office, in an office that nobody works with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from importlib import resources
from typing import Any

from manydesks.domain.errors import BadInput, HomeError
from manydesks.office.clerk import FIRST_AGENT
from manydesks.office.door import Door
from manydesks.settings.home import Home, reason_of

TEAM = "product"
TEAM_NAME = "Product team"
LEADER = "lead"
#: id → name, the leader first
PEOPLE = {"lead": "Lead", "coder": "Coder", "reviewer": "Reviewer", "tester": "Tester", "writer": "Writer"}
#: in each workspace; an agent of the example office is known by this option
SCRIPT = "script.txt"


def furnish_demo(door: Door, home: Home) -> bool:
    """Add the team and its scripts; what is there already stays. False: all of it was there.

    Whether a host runs or not. Cut off in the middle, it is finished by the next call. Raises `BadInput`, and changes
    nothing, if the office has agents of its own: a person's office is never played in.
    """
    agents, teams = _known(door, home)
    ours = {id for id in PEOPLE if id in agents and _is_ours(agents[id])}
    complete = ours == PEOPLE.keys() and TEAM in teams
    if not complete and (own := sorted(agents.keys() - ours - {FIRST_AGENT}) or sorted(teams - {TEAM})):
        raise BadInput(
            f"The office on {home.path} has agents or teams of its own ({', '.join(own[:5])}); the example office is "
            "made where there are none: name an empty folder with --home."
        )
    for id, name in PEOPLE.items():
        if id not in ours:
            door.ask("agent_add", id=id, name=name, provider="rehearsal", options={"script": SCRIPT})
        _put_script(home, id)
    if TEAM not in teams:
        others = [id for id in PEOPLE if id != LEADER]
        door.ask("team_add", id=TEAM, name=TEAM_NAME, leader=LEADER, members=others)
    return not complete


def _known(door: Door, home: Home) -> tuple[dict[str, dict[str, Any]], set[str]]:
    if not home.office_db.exists():
        return {}, set()
    reader = door.reader()
    try:
        return {row["id"]: row for row in reader.agents()}, {row["id"] for row in reader.teams()}
    finally:
        reader.close()


def _is_ours(agent: Mapping[str, Any]) -> bool:
    """One that costs nothing: an agent that its owner gave a model is the owner's."""
    return bool(agent["provider"] == "rehearsal" and agent["options"].get("script") == SCRIPT)


def _put_script(home: Home, agent: str) -> None:
    """What the agent says, unless somebody has written it already."""
    path = home.workspace(agent) / SCRIPT
    text = resources.files("manydesks.office.demo").joinpath("people", f"{agent}.txt").read_text(encoding="utf-8")
    try:
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as new:
                new.write(text)
    except OSError as error:
        raise HomeError(home=home.path, reason=f"{path} cannot be written, {reason_of(error)}.") from error
