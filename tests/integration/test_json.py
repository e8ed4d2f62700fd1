"""`--json`: exactly one JSON value on stdout, wherever the option stands, and errors as JSON on stderr."""

from __future__ import annotations

import json

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

EVERY = (
    ("status",),
    ("send", "hello"),
    ("send", "hello", "--wait"),
    ("send", "[@assistant: a] and @nobody", "--wait"),
    ("agent", "list"),
    ("agent", "add", "coder"),
    ("queue", "status"),
    ("queue", "dead"),
    ("events",),
    ("events", "--type", "agent_removed"),
)


@pytest.fixture(params=EVERY, ids=" ".join)
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param


@pytest.mark.usefixtures("office")
def test_every_command_that_shows_something_gives_one_value(shell: Shell, command: tuple[str, ...]) -> None:
    first = shell.run("--json", *command)
    assert first.returncode == 0, first.stderr
    json.loads(first.stdout)


def test_the_life_of_an_office_in_json(shell: Shell) -> None:
    assert shell.value("up", "--detach")["pid"] > 0
    dead = shell.run("send", "!fail permanent no", "--wait", "--json")
    assert (dead.returncode, json.loads(dead.stdout)["status"]) == (1, "dead")
    assert "no" in json.loads(dead.stderr)["error"]
    id = json.loads(dead.stdout)["messageId"]
    assert shell.value("trace", id)["messages"][0]["status"] == "dead"
    assert shell.value("queue", "retry", id)["messageId"] == id
    assert shell.value("agent", "add", "amy")["id"] == "amy"
    assert shell.value("agent", "remove", "amy", "--yes")["id"] == "amy"
    assert shell.value("down") == {"stopped": True}


@pytest.mark.usefixtures("office")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--home", "{home}", "--json", "queue", "status"),
        ("queue", "--home", "{home}", "--json", "status"),
        ("queue", "status", "--json", "--home", "{home}"),
        ("--json", "queue", "status", "--home", "{home}"),
    ],
    ids=" ".join,
)
def test_home_and_json_stand_before_or_after(shell: Shell, arguments: tuple[str, ...]) -> None:
    other = Shell(shell.home.parent / "elsewhere")
    done = other.run(*(argument.format(home=shell.home) for argument in arguments))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pending"] == 0
    assert not other.home.exists()


def test_an_error_is_json_too(shell: Shell, office: OfficeProcess) -> None:
    refused = shell.run("send", "hello", "--to", "asistant", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "did you mean 'assistant'?" in json.loads(refused.stderr)["error"]
    assert office.door.reader().queue_status()["pending"] == 0
