"""Bad days: one sentence on stderr that says what is allowed, a code that is not 0, and nothing lost or changed."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput, Duplicate
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

open_and_closed = pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])


@pytest.fixture
def maybe_office(is_open: bool, make_office: Callable[..., OfficeProcess]) -> OfficeProcess:
    office = make_office()
    office.start()
    if not is_open:
        office.stop()
    return office


def stored(office: OfficeProcess) -> int:
    reader = office.door.reader()
    try:
        return reader.head()
    finally:
        reader.close()


@open_and_closed
def test_what_is_not_allowed_is_said_in_one_sentence(shell: Shell, maybe_office: OfficeProcess) -> None:
    before = stored(maybe_office)
    nearest = "manydesks: There is no agent 'asistant' (did you mean 'assistant'?); `manydesks agent list` shows"
    assert shell.refusal("send", "hello", "--to", "asistant").startswith(nearest)
    assert shell.refusal("agent", "remove", "asistant", "--yes").startswith(nearest)
    assert "is empty" in shell.refusal("send", "")
    assert "is empty" in shell.refusal("send", " \n\t ")
    assert "is empty" in shell.refusal("send", "-", text="\n")
    assert "is not a name for an agent: 1 to 32 lowercase" in shell.refusal("agent", "add", "../etc")
    assert "There is no provider 'oracle'; there are anthropic, claude, openai, rehearsal" in shell.refusal(
        "agent", "add", "amy", "--provider", "oracle"
    )
    assert "from -100 to 100" in shell.refusal("send", "hello", "--priority", "101")
    assert stored(maybe_office) == before


@open_and_closed
@pytest.mark.parametrize("size", [262_145, 5 * 1024 * 1024], ids=["a byte", "much"])
def test_a_message_over_the_limit(shell: Shell, maybe_office: OfficeProcess, size: int) -> None:
    before = stored(maybe_office)
    assert shell.refusal("send", "-", text="x" * size) == (
        f"manydesks: The message has {size} bytes; at most 262144 are allowed (limits.message_bytes)."
    )
    assert stored(maybe_office) == before


@open_and_closed
def test_a_message_of_exactly_the_limit(shell: Shell, maybe_office: OfficeProcess) -> None:
    # a character of two bytes: the limit counts bytes
    id = json.loads(shell.said("send", "-", "--json", text="ä" * 131_072))["messageId"]
    assert maybe_office.door.reader().message(id)["text"] == "ä" * 131_072


def test_up_twice_on_one_home(shell: Shell, office: OfficeProcess) -> None:
    sentence = f"manydesks: An office already runs on {shell.home} (process {office.pid}); `manydesks down` ends it."
    assert shell.refusal("up") == sentence
    assert shell.refusal("up", "--detach") == sentence
    assert shell.value("status")["host"]["pid"] == office.pid


def test_a_store_of_a_newer_version_is_left_alone(shell: Shell, office: OfficeProcess) -> None:
    office.stop()
    with contextlib.closing(sqlite3.connect(office.home.office_db)) as db:
        db.execute("insert into schema_migrations (name, applied_at) values ('m9999_tomorrow', 0)")
        db.commit()
    before = office.home.office_db.read_bytes()
    for command in (("up",), ("send", "hello"), ("events",), ("queue", "status"), ("agent", "add", "amy")):
        said = shell.refusal(*command)
        assert "was written by a newer ManyDesks (it has 'm9999_tomorrow'): update ManyDesks" in said
    assert office.home.office_db.read_bytes() == before


def test_a_store_that_is_none_is_left_alone(shell: Shell, home: Path) -> None:
    home.mkdir()
    (home / "office.db").write_text("dear diary, " * 1000)
    for command in (("up",), ("send", "hello"), ("queue", "status")):
        assert "is damaged or not a ManyDesks store" in shell.refusal(*command)
    assert (home / "office.db").read_text() == "dear diary, " * 1000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[retry]\nbase_seconds = \n", "line 2"),
        ("[retry]\njitter = 0.1\nbase_secondz = 1\n", "line 3: unknown key 'retry.base_secondz', the nearest name is"),
        ("[retry]\n\nbase_seconds = -1\n", "line 3: retry.base_seconds is -1, but must be a number above 0"),
        ("[retri]\nbase_seconds = 1\n", "unknown section 'retri', the nearest name is 'retry'"),
    ],
)
def test_broken_settings_are_named_with_their_line_and_left_alone(
    shell: Shell, home: Path, text: str, says: str
) -> None:
    home.mkdir()
    (home / "settings.toml").write_text(text)
    for command in (("up",), ("send", "hello")):
        said = shell.refusal(*command)
        assert str(home / "settings.toml") in said
        assert says in said
    assert (home / "settings.toml").read_text() == text
    assert not (home / "office.db").exists()


def test_an_unknown_variable_is_named(home: Path) -> None:
    shell = Shell(home, {"MANYDESKS_RETRY__BASE_SECOND": "1"})
    assert "the nearest name is 'MANYDESKS_RETRY__BASE_SECONDS'" in shell.refusal("up")


def test_a_message_without_a_host_is_stored_and_answered_at_the_next_up(
    shell: Shell, make_office: Callable[..., OfficeProcess]
) -> None:
    done = shell.run("send", "!say later", "--json")
    assert done.returncode == 0
    assert json.loads(done.stderr)["notice"].startswith("No office runs; the message is stored")
    said = json.loads(done.stdout)
    assert said["status"] == "stored"
    office = make_office()
    office.start()
    (message,) = office.trace(said["traceId"])["messages"]
    assert (message["messageId"], message["attempts"]) == (said["messageId"], 1)
    assert [response["text"] for response in message["responses"]] == ["later"]


def test_waiting_without_a_host_ends_at_the_timeout_and_names_the_message(shell: Shell) -> None:
    done = shell.run("send", "hello", "--wait", "--timeout", "0.2")
    assert (done.returncode, done.stdout) == (124, "")
    notice, reason = done.stderr.splitlines()
    assert "No office runs" in notice
    (id,) = [event["message"] for event in shell.value("events", "--type", "message_enqueued")]
    assert reason == (f"manydesks: {id} has not ended within 0.2 s; `manydesks trace {id}` shows how it goes on.")


@open_and_closed
def test_a_known_message_id_is_refused(maybe_office: OfficeProcess) -> None:
    door = maybe_office.door
    assert door.ask("send", text="one", message_id="console_aaaaaaaa")["messageId"] == "console_aaaaaaaa"
    before = stored(maybe_office)
    with pytest.raises(Duplicate, match="'console_aaaaaaaa' was accepted before"):
        door.ask("send", text="two", message_id="console_aaaaaaaa")
    assert door.reader().message("console_aaaaaaaa")["text"] == "one"
    assert [e for e in door.reader().events(before, 100) if e["kind"] == "message_enqueued"] == []


NOT_ALLOWED = (
    ("send", {}),
    ("send", {"text": None}),
    ("send", {"text": 7}),
    ("send", {"text": "a", "priority": "1"}),
    ("send", {"text": "a", "priority": 10**30}),
    ("send", {"text": "a", "colour": "red"}),
    ("send", {"self": 1, "text": "a"}),
    ("send", {"text": "\ud800"}),
    ("send", {"text": "a", "sender": "\ud800"}),
    ("send", {"text": "a", "sender": None}),
    ("send", {"text": "a", "message_id": "no spaces"}),
    ("agent_add", {"id": None}),
    ("agent_add", {"id": "amy", "name": "\ud800"}),
    ("agent_remove", {"id": "\ud800"}),
    ("retry", {"id": "\ud800"}),
    ("retry", {"id": None}),
    ("drop", {"id": []}),
    ("cancel", {"id": None}),
    ("pause", {"id": "\ud800"}),
    ("resume", {"id": 7}),
    ("prune", {"days": 0}),
    ("mark_archived", {"seq": True}),
    ("mark_archived", {"seq": -1}),
    ("mark_archived", {"seq": 10**30}),
    ("fly", {}),
    ("perform", {"verb": "send", "args": {}}),
)


@open_and_closed
def test_acts_check_their_arguments(maybe_office: OfficeProcess) -> None:
    before = stored(maybe_office)
    for verb, args in NOT_ALLOWED:
        with pytest.raises(BadInput):
            maybe_office.door.ask(verb, **args)
    assert stored(maybe_office) == before


@pytest.mark.parametrize("warm", [True, False])
def test_an_agent_inside_the_office_does_not_work_without_its_workspace(office: OfficeProcess, warm: bool) -> None:
    """Without its instructions and its memory it would answer as somebody else."""
    if warm:
        office.ask("!say before")
    workspace = office.home.workspace("assistant")
    workspace.rename(office.home.path / "elsewhere")
    (message,) = office.ask("!say hello")["messages"]
    assert (message["status"], message["attempts"]) == ("dead", 1)
    assert message["lastError"] == f"Its workspace {workspace} is not there."
    (office.home.path / "elsewhere").rename(workspace)
    (message,) = office.ask("!say back")["messages"]
    assert message["status"] == "completed"
