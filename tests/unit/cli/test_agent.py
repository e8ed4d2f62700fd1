from __future__ import annotations

import json

AGENT = {
    "id": "coder",
    "name": "The Coder",
    "provider": "rehearsal",
    "model": None,
    "workspace": "workspaces/coder",
    "sandbox": None,
    "options": {},
    "paused": 0,
    "pending": 2,
    "processing": 1,
}


def test_add(run, door):
    door.answers["agent_add"] = AGENT
    result = run("agent", "add", "coder", "--name", "The Coder", "--provider", "rehearsal")
    assert (result.exit_code, result.stdout) == (
        0,
        "Agent coder added (rehearsal); its workspace is workspaces/coder.\n",
    )
    wanted = {"id": "coder", "name": "The Coder", "provider": "rehearsal", "model": None, "sandbox": None}
    wanted["options"] = {}
    assert door.asked == [("agent_add", wanted)]
    assert json.loads(run("agent", "add", "coder", "--json").stdout) == AGENT


def test_add_with_options(run, door):
    door.answers["agent_add"] = AGENT
    given = ("--option", "warm=false", "--option", 'zone="Europe/Rome"', "--option", "text=a b = c", "--option", "n=3")
    assert run("agent", "add", "coder", "--sandbox", "none", *given).exit_code == 0
    ((_, asked),) = door.asked
    assert asked["sandbox"] == "none"
    assert asked["options"] == {"warm": False, "zone": "Europe/Rome", "text": "a b = c", "n": 3}


def test_an_option_without_a_value(run, door):
    result = run("agent", "add", "coder", "--option", "warm")
    assert (result.exit_code, door.asked) == (2, [])
    assert "An option is KEY=VALUE, not 'warm'." in result.stderr


def test_show(run, reader):
    reader.people = [{**AGENT, "model": "big", "options": {"warm": False}}]
    assert run("agent", "show", "coder").stdout.splitlines() == [
        "agent:     coder",
        "name:      The Coder",
        "provider:  rehearsal big",
        "sandbox:   as the settings say",
        "options:   warm = false",
        "workspace: workspaces/coder",
        "state:     active, 2 pending, 1 processing",
    ]
    assert json.loads(run("agent", "show", "coder", "--json").stdout) == reader.people[0]


def test_show_nobody(run, reader):
    reader.people = [AGENT]
    result = run("agent", "show", "codr")
    assert result.exit_code == 2
    assert "There is no agent 'codr' (did you mean 'coder'?)" in result.stderr


def test_list(run, reader):
    reader.people = [AGENT, {**AGENT, "id": "x", "name": "\x1b[2J", "paused": 1}]
    assert run("agent", "list").stdout.splitlines() == [
        "ID     NAME       PROVIDER   MODEL  SANDBOX  STATE   PENDING  PROCESSING",
        "coder  The Coder  rehearsal  -      -        active        2           1",
        "x      \\x1b[2J    rehearsal  -      -        paused        2           1",
    ]
    assert json.loads(run("agent", "list", "--json").stdout) == reader.people


def test_an_empty_list(run):
    result = run("agent", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "manydesks agent add" in result.stderr
    assert run("agent", "list", "--json").stdout == "[]\n"


class TestRemove:
    def test_with_yes(self, run, door):
        assert run("agent", "remove", "coder", "--yes").stdout == "Agent coder removed.\n"
        assert door.asked == [("agent_remove", {"id": "coder"})]

    def test_what_it_made_stays_and_is_said(self, run, home):
        home.workspace("coder").mkdir(parents=True)
        said = run("agent", "remove", "coder", "--yes").stdout
        assert said == f"Agent coder removed. Its workspace stays: {home.path}/workspaces/coder\n"

    def test_without_a_terminal_yes_is_needed(self, run, door):
        result = run("agent", "remove", "coder", input="y\n")
        assert (result.exit_code, door.asked) == (2, [])
        assert "give --yes" in result.stderr

    def test_a_person_says_yes(self, run, door):
        result = run("agent", "remove", "coder", "--json", input="y\n", person=True)
        assert (result.exit_code, result.stdout) == (0, "{}\n")
        assert "Remove the agent coder? [y/N]" in result.stderr
        assert door.asked

    def test_a_person_says_no(self, run, door):
        for answer in ("n\n", "\n"):
            result = run("agent", "remove", "coder", input=answer, person=True)
            assert (result.exit_code, door.asked) == (1, [])
            assert "Nothing was changed." in result.stderr

    def test_a_person_says_nothing(self, run, door):
        result = run("agent", "remove", "coder", input="", person=True)
        assert (result.exit_code, door.asked) == (130, [])
