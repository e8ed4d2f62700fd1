"""The example office: a team of five whose answers are scripted, and arrive side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.office.demo.furnish import PEOPLE, furnish_demo
from manydesks.office.demo.play import CHAIN, JOIN, PLAN, SPRINT, STANDUP
from manydesks.testing.office import OfficeProcess


@pytest.fixture
def office(home: Path) -> Iterator[OfficeProcess]:
    office = OfficeProcess(home, dict(os.environ))
    yield office
    office.kill()


def said(trace: dict[str, Any]) -> dict[str, str]:
    """Agent → its answer; everybody answered well, once."""
    assert {message["status"] for message in trace["messages"]} == {"completed"}
    assert all(len(message["responses"]) == 1 for message in trace["messages"])
    return {message["agent"]: message["responses"][0]["text"] for message in trace["messages"]}


def order(office: OfficeProcess, trace: str) -> list[tuple[str, str]]:
    """(agent, begins or ends), as it happened."""
    reader = office.door.reader()
    try:
        kinds = {"chain_step_start": "begins", "chain_step_done": "ends"}
        events = reader.events(0, 10_000, kinds=list(kinds), trace=trace)
        return [(event["agent"], kinds[event["kind"]]) for event in events]
    finally:
        reader.close()


def test_the_example_office_plays(office: OfficeProcess) -> None:
    assert furnish_demo(office.door, office.home)
    office.start()
    # again, while it is open: nothing is left to do
    assert not furnish_demo(office.door, office.home)

    trace = office.ask(SPRINT)
    answers = said(trace)
    assert answers.keys() == {"coder", "reviewer", "tester"}
    assert "My open PRs" in answers["coder"]
    assert "Waiting on me" in answers["reviewer"]
    assert "Coverage of the auth module" in answers["tester"]
    for answer in answers.values():
        assert all(word in answer for word in ("Status", "Blockers", "Next step"))
    # side by side: all begin before the first has ended
    assert [what for _, what in order(office, trace["traceId"])][:3] == ["begins"] * 3

    trace = office.ask(CHAIN)
    assert "changelog" not in said(trace)["writer"]
    assert order(office, trace["traceId"]) == [
        (agent, what) for agent in ("coder", "reviewer", "writer") for what in ("begins", "ends")
    ]

    trace = office.ask(JOIN)
    assert "Decision" in said(trace)["lead"]
    assert order(office, trace["traceId"])[-2:] == [("lead", "begins"), ("lead", "ends")]

    answers = said(office.ask(PLAN))
    assert answers.keys() == {"lead", "coder", "tester", "writer"}
    assert "[@" not in answers["lead"]
    assert "2.4" in answers["writer"]

    assert said(office.ask(STANDUP)).keys() == PEOPLE.keys()


def test_a_persons_office_is_left_alone(office: OfficeProcess) -> None:
    office.door.ask("agent_add", id="coder", name="My own")
    with pytest.raises(BadInput, match=r"agents or teams of its own \(coder\)"):
        furnish_demo(office.door, office.home)
    reader = office.door.reader()
    assert [agent["id"] for agent in reader.agents()] == ["assistant", "coder"]
    reader.close()


def test_an_agent_that_was_given_a_model_is_its_owners(office: OfficeProcess) -> None:
    furnish_demo(office.door, office.home)
    office.door.ask("agent_edit", id="coder", changes={"provider": "claude", "unset_options": ["script"]})
    with pytest.raises(BadInput, match=r"\(coder\)"):
        furnish_demo(office.door, office.home)


def test_one_that_was_cut_off_is_finished(office: OfficeProcess) -> None:
    furnish_demo(office.door, office.home)
    office.door.ask("team_remove", id="product")
    office.door.ask("agent_remove", id="writer")
    (office.home.workspace("tester") / "script.txt").unlink()
    own = office.home.workspace("coder") / "script.txt"
    own.write_text("? hello\n!say mine\n")
    assert furnish_demo(office.door, office.home)
    assert (office.home.workspace("tester") / "script.txt").exists()
    assert own.read_text() == "? hello\n!say mine\n"
    reader = office.door.reader()
    assert reader.teams()[0]["members"] == sorted(PEOPLE)
    reader.close()


def test_a_guest_does_not_close_the_example_office(office: OfficeProcess) -> None:
    furnish_demo(office.door, office.home)
    office.door.ask("agent_add", id="guest")
    assert not furnish_demo(office.door, office.home)
