from __future__ import annotations

import json

import pytest

WEB = {"id": "web", "name": "The web", "leader": "lea", "members": ["coder", "lea"]}
POST = {"id": 7, "fromAgent": "coder", "sender": "coder", "text": "done \x1b[2J", "createdAt": 0}


def test_add(run, door):
    door.answers["team_add"] = {**WEB, "notices": ["A manual failed."]}
    result = run("team", "add", "web", "--leader", "lea", "--member", "coder, Critic", "--member", "coder")
    assert (result.exit_code, result.stdout) == (0, "Team web: lea leads coder.\n")
    assert "A manual failed." in result.stderr
    wanted = {"id": "web", "leader": "lea", "members": ["coder", "critic"], "name": None}
    assert door.asked == [("team_add", wanted)]
    assert json.loads(run("team", "add", "web", "--leader", "lea", "--json").stdout) == door.answers["team_add"]
    assert run("team", "add", "web").exit_code == 2


def test_list(run, reader):
    reader.groups = [WEB, {**WEB, "id": "x", "name": "\x1b[2J"}]
    assert run("team", "list").stdout.splitlines() == [
        "ID   NAME     LEADER  MEMBERS",
        "web  The web  lea     coder, lea",
        "x    \\x1b[2J  lea     coder, lea",
    ]
    assert json.loads(run("team", "list", "--json").stdout) == reader.groups


def test_an_empty_list(run):
    result = run("team", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "manydesks team add" in result.stderr


def test_show(run, reader):
    reader.groups = [WEB]
    reader.people = [
        {"id": "lea", "name": "Lea", "paused": 1, "pending": 2, "processing": 0},
        {"id": "coder", "name": "Coder", "paused": 0, "pending": 0, "processing": 1},
    ]
    assert run("team", "show", "web").stdout.splitlines() == [
        "team:    web",
        "name:    The web",
        "leader:  lea (Lea), paused, 2 pending, 0 processing",
        "member:  coder (Coder), active, 0 pending, 1 processing",
    ]
    assert json.loads(run("team", "show", "web", "--json").stdout) == WEB
    result = run("team", "show", "wep")
    assert result.exit_code == 2
    assert "There is no team 'wep' (did you mean 'web'?)" in result.stderr


def test_edit(run, door):
    door.answers["team_edit"] = {**WEB, "members": ["lea"]}
    result = run("team", "edit", "web", "--add", "a,b", "--remove", "c", "--leader", "lea", "--name", "W")
    assert (result.exit_code, result.stdout) == (0, "Team web: lea leads nobody yet.\n")
    wanted = {"id": "web", "name": "W", "leader": "lea", "add": ["a", "b"], "remove": ["c"]}
    assert door.asked == [("team_edit", wanted)]
    assert run("team", "edit", "web").exit_code == 2


def test_remove(run, door):
    assert run("team", "remove", "web").exit_code == 2
    assert run("team", "remove", "web", input="n\n", person=True).exit_code == 1
    assert door.asked == []
    assert run("team", "remove", "web", "--yes").stdout == "Team web removed; its agents stay.\n"
    assert door.asked == [("team_remove", {"id": "web"})]


class TestRoom:
    def test_it_shows_the_last_posts(self, run, reader):
        reader.groups, reader.said = [WEB], [{**POST, "id": 6, "fromAgent": None, "sender": "ada", "text": "hi"}, POST]
        result = run("team", "room", "web")
        assert [line.split(" ", 2)[-1].strip() for line in result.stdout.splitlines()] == [
            "ada: hi", "@coder: done \x1b[2J",
        ]  # fmt: skip
        assert json.loads(run("team", "room", "web", "--limit", "1", "--json").stdout) == [POST]

    def test_nothing_was_said(self, run, reader):
        reader.groups = [WEB]
        result = run("team", "room", "web")
        assert (result.exit_code, result.stdout) == (0, "")
        assert "Nothing was said yet in the room of web." in result.stderr

    def test_of_a_team_that_is_gone(self, run, reader):
        assert run("team", "room", "web").exit_code == 2
        reader.said = [POST]
        assert "done" in run("team", "room", "web").stdout
        assert run("team", "room", "web", "--post", "hi").exit_code == 2

    def test_following_goes_on_where_it_was(self, run, reader):
        reader.groups, reader.said = [WEB], [POST]

        def after_wait():
            if len(reader.waits) == 2:
                reader.said.append({**POST, "id": 9, "text": "more"})
            elif len(reader.waits) == 4:
                raise KeyboardInterrupt

        reader.after_wait = after_wait
        result = run("team", "room", "web", "-f", "--json")
        assert result.exit_code == 130
        assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [7, 9]

    def test_a_post_is_sent_as_it_is(self, run, door, reader):
        reader.groups = [WEB]
        messages = [{"messageId": "m", "agent": "coder", "status": "pending"}]
        door.answers["send"] = {"messageId": "m", "traceId": "t", "messages": messages, "notices": []}
        result = run("team", "room", "web", "--post", "see ] [@coder: x]")
        assert (result.exit_code, result.stdout) == (0, "Posted in web, to coder.\n")
        ((verb, asked),) = door.asked
        assert (verb, asked["to"], asked["text"]) == ("send", "#web", "see ] [@coder: x]")
        assert asked["message_id"].startswith("chatroom_")

    @pytest.mark.parametrize("given", [["--post", "x", "-f"], ["--limit", "0"]])
    def test_bad_calls(self, run, door, reader, given):
        reader.groups = [WEB]
        assert (run("team", "room", "web", *given).exit_code, door.asked) == (2, [])
