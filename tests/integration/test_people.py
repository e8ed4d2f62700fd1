"""Agents and teams through the real command line, with and without a host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from manydesks.store.reader import Reader
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def manual(home: Path, agent: str) -> str:
    return (home / "workspaces" / agent / "AGENTS.md").read_text()


@pytest.fixture(params=["host", "alone"])
def people(request: pytest.FixtureRequest, shell: Shell) -> Shell:
    """Three agents, in an office that is open, or is not."""
    if request.param == "host":
        request.getfixturevalue("office")
    for id in ("coder", "critic", "writer"):
        shell.said("agent", "add", id, "--name", id.title())
    return shell


def test_a_team_comes_changes_and_goes(people: Shell) -> None:
    home = people.home
    assert people.said("team", "add", "web", "--leader", "coder", "--member", "critic") == (
        "Team web: coder leads critic.\n"
    )
    assert "`[#web: text]`" in manual(home, "critic")
    assert "`@writer`" not in manual(home, "critic")
    edited = people.value("team", "edit", "web", "--leader", "writer", "--remove", "coder", "--name", "The web")
    assert edited == {"id": "web", "name": "The web", "leader": "writer", "members": ["critic", "writer"]}
    assert people.value("team", "list") == [edited]
    assert "#web" not in manual(home, "coder")
    assert "'writer' leads the team 'web'" in people.refusal("agent", "remove", "writer", "--yes")
    people.said("team", "remove", "web", "--yes")
    assert people.value("team", "list") == []
    assert "#web" not in manual(home, "writer")
    kinds = [event["kind"] for event in people.value("events")]
    assert [kind for kind in kinds if kind.startswith("team_")] == ["team_added", "team_changed", "team_removed"]


@pytest.mark.parametrize("id", ["../up", "default"])
def test_ids_are_checked_before_they_are_paths(shell: Shell, office: OfficeProcess, id: str) -> None:
    before = sorted(shell.home.rglob("*.md"))
    for command in (
        ("agent", "add", id), ("agent", "edit", id, "--name", "x"), ("agent", "show", id), ("agent", "pause", id),
        ("agent", "reset", id, "--yes"), ("agent", "remove", id, "--yes"), ("team", "add", id, "--leader", "assistant"),
        ("team", "edit", id, "--name", "x"), ("team", "show", id), ("team", "room", id),
        ("team", "remove", id, "--yes"),
    ):  # fmt: skip
        assert shell.refusal(*command).startswith("manydesks: ")
    assert sorted(shell.home.rglob("*.md")) == before
    assert not (shell.home / "up").exists()


def test_one_set_of_names(people: Shell) -> None:
    assert "The name 'critic' is taken" in people.refusal("team", "add", "critic", "--leader", "coder")
    people.said("team", "add", "web", "--leader", "coder")
    assert "There is a team 'web' already" in people.refusal("agent", "add", "web")


def test_what_a_person_writes_in_a_manual_stays(people: Shell) -> None:
    file = people.home / "workspaces" / "coder" / "AGENTS.md"
    text = file.read_text()
    file.write_text("Mine above.\n" + text.replace("You are `coder`", "You are the king") + "Mine below.\n")
    people.said("team", "add", "web", "--leader", "coder", "--member", "critic")
    now = file.read_text()
    assert now.startswith("Mine above.\n# How Coder works\n")
    assert now.endswith("<!-- /manydesks:mates -->\nMine below.\n")
    assert "king" not in now
    file.write_text("All mine.\n")
    people.said("team", "edit", "web", "--add", "writer")
    assert file.read_text() == "All mine.\n"
    assert "its marks were removed" in people.said("agent", "show", "coder")


def test_permission_is_one_way(shell: Shell, office: OfficeProcess) -> None:
    for id in ("coder", "critic"):
        shell.said("agent", "add", id)
    shell.said("team", "add", "web", "--leader", "coder")
    shell.said("team", "add", "desk", "--leader", "critic")

    def reached(sender: str, other: str) -> list[str]:
        trace = office.ask(f"!say [@{other}: !say heard]", to=sender)
        return [message["agent"] for message in trace["messages"]]

    assert reached("coder", "critic") == ["coder"]
    shell.said("agent", "edit", "coder", "--may-reach", "critic")
    assert reached("coder", "critic") == ["coder", "critic"]
    assert reached("critic", "coder") == ["critic"]
    shell.said("agent", "edit", "coder", "--may-reach", "")
    assert reached("coder", "critic") == ["coder"]


def test_an_edited_agent_is_furnished_anew(shell: Shell, office: OfficeProcess) -> None:
    shell.said("agent", "add", "coder", "--name", "Before")
    assert "Before here" in shell.said("send", "hello", "--to", "coder", "--wait")
    shell.said("agent", "edit", "coder", "--name", "After")
    assert "After here" in shell.said("send", "hello", "--to", "coder", "--wait")
    (shell.home / "workspaces" / "coder" / "script.txt").write_text("? hello\n!say from the script\n")
    shell.said("agent", "edit", "coder", "--option", "script=script.txt")
    assert shell.said("send", "hello", "--to", "coder", "--wait") == "from the script\n"
    shell.said("agent", "edit", "coder", "--unset-option", "script")
    assert "After here" in shell.said("send", "hello", "--to", "coder", "--wait")
    changed = [event["data"] for event in shell.value("events", "--type", "agent_changed")]
    assert (changed[0]["before"]["name"], changed[0]["after"]["name"]) == ("Before", "After")
    assert {change["actor"] for change in changed} == {"owner"}


def test_a_reset_waits_for_the_run_and_keeps_the_order(shell: Shell, office: OfficeProcess) -> None:
    shell.said("agent", "add", "coder")
    first = shell.value("send", "!hang", "--to", "coder")["messageId"]

    def runs(reader: Reader) -> bool:
        message = reader.message(first)
        return message is not None and message["status"] == "processing"

    office.until(runs)
    assert "'coder' is at work" in shell.refusal("agent", "reset", "coder", "--yes")
    waiting = [shell.value("send", f"!say {number}", "--to", "coder")["messageId"] for number in range(3)]
    shell.said("agent", "pause", "coder")
    office.kill()
    office.start()
    # the run died with its office; what it worked on waits again, and the agent is paused still
    assert shell.said("agent", "reset", "coder", "--yes") == "coder begins anew. 4 messages went along.\n"
    shell.said("queue", "cancel", first)
    shell.said("agent", "resume", "coder")
    for id in waiting:
        office.trace(id)
    sessions = {event["session"] for event in shell.value("events", "--type", "message_received")}
    assert len(sessions) == 2
    done = [event["message"] for event in shell.value("events", "--type", "message_completed")]
    assert done == waiting


def test_a_command_that_was_cut_off_is_made_up_for_at_the_next_start(
    shell: Shell, make_office: Callable[..., OfficeProcess]
) -> None:
    for id in ("coder", "critic"):
        shell.said("agent", "add", id)
    shell.said("team", "add", "web", "--leader", "coder", "--member", "critic")
    file = shell.home / "workspaces" / "critic" / "AGENTS.md"
    text = file.read_text()
    file.write_text(text.replace("`@coder`", "`@nobody`"))
    (file.parent / ".AGENTS.md.new").write_text("half of it")
    office = make_office()
    office.start()
    assert file.read_text() == text
    assert not (file.parent / ".AGENTS.md.new").exists()


def test_the_room(shell: Shell, office: OfficeProcess) -> None:
    for id in ("coder", "critic"):
        shell.said("agent", "add", id)
    shell.said("team", "add", "web", "--leader", "coder", "--member", "critic")
    posted = shell.value("team", "room", "web", "--post", "!say seen ] \\[@critic: x]")
    assert [message["agent"] for message in posted["messages"]] == ["coder", "critic"]
    office.trace(posted["traceId"])
    (post,) = shell.value("team", "room", "web")
    assert (post["sender"], post["text"]) == ("ada", "!say seen ] \\[@critic: x]")
    office.ask("!say [#web: lunch?]", to="coder")
    assert [post["fromAgent"] for post in shell.value("team", "room", "web")] == [None, "coder"]
    assert shell.said("team", "room", "web", "--limit", "1").endswith("@coder: lunch?\n")
