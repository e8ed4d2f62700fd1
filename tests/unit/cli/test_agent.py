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
    "concurrency": 1,
    "budget": None,
    "reaches": [],
    "teams": [],
    "pauseReason": None,
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


def test_show(run, reader, home):
    reader.people = [{**AGENT, "model": "big", "options": {"warm": False}, "reaches": ["amy"], "concurrency": 2}]
    manual = home.workspace("coder") / "AGENTS.md"
    manual.parent.mkdir(parents=True)
    manual.write_text("<!-- manydesks:mates --><!-- /manydesks:mates -->")
    assert run("agent", "show", "coder").stdout.splitlines() == [
        "agent:     coder",
        "name:      The Coder",
        "provider:  rehearsal big",
        "sandbox:   as the settings say",
        "options:   warm = false",
        "runs:      2 at one time",
        "teams:     none",
        "may reach: whoever is in no team, amy",
        "workspace: workspaces/coder",
        "manual:    AGENTS.md, kept up to date by the office",
        "today:     no cap",
        "state:     active, 2 pending, 1 processing",
    ]
    assert json.loads(run("agent", "show", "coder", "--json").stdout) == {**reader.people[0], "caps": []}


def test_show_says_what_became_of_the_manual(run, reader, home):
    reader.people = [{**AGENT, "teams": ["web"]}]
    assert "manual:    AGENTS.md cannot be read: its folder" in run("agent", "show", "coder").stdout
    home.workspace("coder").mkdir(parents=True)
    assert "manual:    AGENTS.md, not there" in run("agent", "show", "coder").stdout
    (home.workspace("coder") / "AGENTS.md").write_text("mine")
    shown = run("agent", "show", "coder").stdout
    assert "manual:    AGENTS.md, not kept up to date: its marks were removed" in shown
    assert "may reach: its team mates\n" in shown


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


class TestEdit:
    def test_only_what_is_given_is_asked(self, run, door):
        door.answers["agent_edit"] = {**AGENT, "changed": True}
        assert run("agent", "edit", "coder", "--model", "", "--concurrency", "3").stdout == "Agent coder changed.\n"
        assert door.asked == [("agent_edit", {"id": "coder", "changes": {"model": "", "concurrency": 3}})]

    def test_everything(self, run, door):
        door.answers["agent_edit"] = {**AGENT, "changed": False, "notices": ["The manual of 'x' …"]}
        given = {"--name": "C", "--provider": "p", "--model": "m", "--sandbox": "s", "--option": "a=1"}
        given |= {"--unset-option": "b", "--concurrency": "2", "--may-reach": "amy, Ben,amy", "--budget": "2usd/day"}
        result = run("agent", "edit", "coder", *(word for pair in given.items() for word in pair))
        assert result.stdout == "Agent coder was so already.\n"
        assert "The manual of 'x'" in result.stderr
        ((_, asked),) = door.asked
        assert asked["changes"] == {
            "name": "C", "provider": "p", "model": "m", "sandbox": "s", "concurrency": 2, "budget": "2usd/day",
            "reaches": ["amy", "ben"], "set_options": {"a": 1}, "unset_options": ["b"],
        }  # fmt: skip

    def test_nobody_may_be_reached_any_more(self, run, door):
        run("agent", "edit", "coder", "--may-reach", "")
        assert door.asked == [("agent_edit", {"id": "coder", "changes": {"reaches": []}})]

    def test_nothing(self, run, door):
        result = run("agent", "edit", "coder")
        assert (result.exit_code, door.asked) == (2, [])
        assert "Say what is to change" in result.stderr


class TestReset:
    def test_it_says_what_went_along(self, run, door):
        door.answers["agent_reset"] = {"agent": "coder", "sessions": [{"moved": 1}]}
        result = run("agent", "reset", "coder", "--yes")
        assert (result.exit_code, result.stdout) == (0, "coder begins anew. 1 message went along.\n")
        assert json.loads(run("agent", "reset", "coder", "--yes", "--json").stdout) == door.answers["agent_reset"]
        door.answers["agent_reset"] = {"agent": "coder", "sessions": []}
        assert "there is nothing to forget" in run("agent", "reset", "coder", "--yes").stdout

    def test_it_asks(self, run, door):
        assert run("agent", "reset", "coder").exit_code == 2
        assert run("agent", "reset", "coder", input="n\n", person=True).exit_code == 1
        assert door.asked == []


def test_pause_and_resume(run, door):
    door.answers |= {"pause": {"changed": True}, "resume": {"changed": True}}
    assert run("agent", "pause", "coder").stdout == (
        "coder is paused; its messages wait until `manydesks agent resume coder`.\n"
    )
    assert run("agent", "resume", "coder").stdout == "coder works again.\n"
    assert door.asked == [("pause", {"id": "coder"}), ("resume", {"id": "coder"})]
    door.answers |= {"pause": {"changed": False}, "resume": {"changed": False}}
    assert "is paused already;" in run("agent", "pause", "coder").stdout
    assert run("agent", "resume", "coder").stdout == "coder was not paused.\n"
    assert json.loads(run("agent", "pause", "coder", "--json").stdout) == {"changed": False}
