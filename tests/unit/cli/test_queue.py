from __future__ import annotations

import json

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
