from __future__ import annotations

import json

import pytest

from manydesks.domain.errors import WrongState

LETTER = {
    "id": 7,
    "messageId": "console_dddddddd",
    "agent": "coder",
    "sender": "rene",
    "text": "fix\nit",
    "reason": "bad key",
    "attempts": 5,
    "at": None,
}

HELD = {
    "id": 8,
    "messageId": "internal_hhhhhhhh",
    "agent": "critic",
    "sender": "coder",
    "text": "your\nturn",
    "reason": "loop_guard",
    "detail": "20 hops",
    "at": None,
}


def test_status(run, reader):
    reader.counts["dead"] = 2
    lines = run("queue", "status").stdout.splitlines()
    assert lines[0].split() == ["STATE", "MESSAGES"]
    assert ["dead", "2"] in [line.split() for line in lines]


def test_dead(run, reader):
    reader.letters = [LETTER, {**LETTER, "agent": "other", "messageId": "m2"}]
    assert run("queue", "dead", "--agent", "coder").stdout.splitlines() == [
        "ID                AGENT  FROM  DIED  ATTEMPTS  REASON   TEXT",
        "console_dddddddd  coder  rene  -            5  bad key  fix it",
    ]
    assert json.loads(run("queue", "dead", "--json").stdout) == reader.letters


def test_none_dead(run):
    result = run("queue", "dead")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "manydesks: There are no dead letters.\n"


def test_held(run, reader):
    reader.waiting = [HELD, {**HELD, "agent": "other", "messageId": "m2"}]
    assert run("queue", "held", "--agent", "critic").stdout.splitlines() == [
        "ID                 AGENT   FROM   SINCE  REASON      DETAIL   TEXT",
        "internal_hhhhhhhh  critic  coder  -      loop_guard  20 hops  your turn",
    ]
    assert json.loads(run("queue", "held", "--json").stdout) == reader.waiting


def test_none_held(run):
    result = run("queue", "held")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "manydesks: No messages are held.\n"


@pytest.mark.parametrize("command", ["dead", "held"])
class TestOfOneAgent:
    def test_nobody_has_that_name(self, run, reader, command):
        reader.people = [{"id": "coder"}]
        result = run("queue", command, "--agent", "codr", "--json")
        assert (result.exit_code, result.stdout) == (2, "")
        said = json.loads(result.stderr)["error"]
        assert said.startswith("There is no agent 'codr' (did you mean 'coder'?);")

    def test_somebody_without_letters(self, run, reader, command):
        reader.people = [{"id": "coder"}]
        result = run("queue", command, "--agent", "coder", "--json")
        assert (result.exit_code, result.stdout) == (0, "[]\n")

    def test_somebody_who_left_letters_behind(self, run, reader, command):
        reader.letters, reader.waiting = [{**LETTER, "agent": "gone"}], [{**HELD, "agent": "gone"}]
        result = run("queue", command, "--agent", "gone", "--json")
        assert [letter["agent"] for letter in json.loads(result.stdout)] == ["gone"]


def test_release(run, door):
    door.answers["release"] = {"messageId": "m1", "status": "pending"}
    assert run("queue", "release", "m1").stdout == "m1 is pending now.\n"
    assert json.loads(run("queue", "release", "m1", "--json").stdout) == {"messageId": "m1", "status": "pending"}
    assert door.asked == [("release", {"id": "m1"})] * 2


def test_release_of_what_is_not_held(run, door):
    door.answers["release"] = WrongState(what="The message 'm1'", status="dead", allowed="a held one", act="released")
    result = run("queue", "release", "m1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "manydesks: The message 'm1' is dead; only a held one can be released.\n"


def test_retry(run, door):
    assert run("queue", "retry", "m1").stdout == "m1 is pending again.\n"
    run("queue", "retry", "m1", "--message", "better")
    run("queue", "retry", "m1", "--message", "-", input="from stdin\n")
    assert [args["text"] for _, args in door.asked] == [None, "better", "from stdin"]


def test_retry_with_nothing(run, door):
    assert run("queue", "retry", "m1", "--message", "").exit_code == 2
    assert door.asked == []


def test_drop(run, door):
    assert run("queue", "drop", "m1").exit_code == 2
    assert door.asked == []
    assert run("queue", "drop", "m1", "--yes").stdout == "m1 dropped.\n"
    assert door.asked == [("drop", {"id": "m1"})]
