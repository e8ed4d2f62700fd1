"""Files and slash commands of a person, all the way to the model; and the words of an answer while it is written."""

from __future__ import annotations

import base64
import json
import os
import pty
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manydesks.office.files import keep_file
from manydesks.runner.program import find_program
from manydesks.testing.model import Hang, ScriptedModel, Turn
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

KEY = "sk-really-secret-key-0123456789"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
needs_claude = pytest.mark.skipif(find_program("claude") is None, reason="claude is not installed: `manydesks[dev]`")
PROVIDERS = [pytest.param("anthropic"), pytest.param("openai"), pytest.param("claude", marks=needs_claude)]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(key=KEY) as model:
        yield model


@pytest.fixture
def office(make_office: Callable[..., OfficeProcess], model: ScriptedModel) -> OfficeProcess:
    office = make_office(retry__max_attempts=2)
    office.home.prepare()
    office.home.settings_file.write_text(
        f'[upstreams.lm]\nkind = "anthropic"\nbase_url = "{model.base_url}"\nkey = "lm_key"\n'
        f'[upstreams.other]\nkind = "openai"\nbase_url = "{model.base_url}/v1"\nkey = "lm_key"\n'
    )
    office.home.secrets_file.write_text(f'lm_key = "{KEY}"\n')
    office.home.secrets_file.chmod(0o600)
    office.start()
    return office


def hire(office: OfficeProcess, provider: str) -> None:
    upstream = "other" if provider == "openai" else "lm"
    office.door.ask("agent_add", id="amy", provider=provider, model="scripted", options={"upstream": upstream})


def send(office: OfficeProcess, text: str, *files: Path, to: str | None = "amy") -> dict[str, Any]:
    kept = [keep_file(str(file), office.home.files).as_json() for file in files]
    sent = office.door.ask("send", text=text, to=to, sender="ada", files=kept)
    (message,) = office.trace(sent["traceId"])["messages"]
    return message


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_image_arrives_as_an_image(
    office: OfficeProcess, model: ScriptedModel, provider: str, tmp_path: Path
) -> None:
    hire(office, provider)
    model.play(Turn(text="A dot."))
    (tmp_path / "dot.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_text("remember")
    message = send(office, "what is it?", tmp_path / "dot.png", tmp_path / "notes.txt")
    assert (message["status"], [r["text"] for r in message["responses"]]) == ("completed", ["A dot."])
    assert [file["name"] for file in message["files"]] == ["dot.png", "notes.txt"]
    asked = model.requests[-1].asked
    assert asked is not None
    body = json.dumps(asked.body)
    assert base64.b64encode(PNG).decode() in body  # as it is, not as a path
    (inbox,) = office.home.sessions.glob("amy/*/in/inbox")
    assert (inbox / message["messageId"] / "notes.txt").read_text() == "remember"
    assert str(inbox / message["messageId"] / "notes.txt") in body


@needs_claude
def test_a_command_of_the_owner_goes_to_claude_and_not_to_the_model(
    office: OfficeProcess, model: ScriptedModel
) -> None:
    hire(office, "claude")
    model.play(Turn(text="Hello."), Turn(text="Still here."))
    assert send(office, "hello")["status"] == "completed"
    before = len(model.requests)
    message = send(office, "@amy /context", to=None)
    assert message["status"] == "completed", message["lastError"]
    assert len(model.requests) == before
    assert "/context" not in [request.asked.user for request in model.requests if request.asked]


def test_what_another_agent_says_is_no_command(office: OfficeProcess) -> None:
    office.door.ask("agent_add", id="bob")
    sent = office.door.ask("send", text="!say [@bob: /compact]", to="assistant", sender="ada")
    office.trace(sent["traceId"])
    (inbound,) = office.home.sessions.glob("bob/*/in/inbound.db")
    with closing(sqlite3.connect(inbound)) as db:
        ((content,),) = db.execute("select content from messages_in").fetchall()
    assert json.loads(content)["text"] == "/compact"
    assert "isCommand" not in json.loads(content)


def test_two_messages_with_one_answer(office: OfficeProcess, model: ScriptedModel) -> None:
    hire(office, "anthropic")
    model.play(Turn(text="Both are done."))
    assert office.stop() == 0
    sent = [office.door.ask("send", text=text, to="amy", sender="ada") for text in ("one thing", "another")]
    office.start()
    (one,), (two,) = (office.trace(each["traceId"])["messages"] for each in sent)
    assert [response["text"] for response in one["responses"]] == ["Both are done."]
    assert (two["status"], two["responses"]) == ("completed", [])
    assert two["answeredWith"]["messageId"] == one["messageId"]
    shell = Shell(office.home.path)
    shown = shell.said("trace", two["messageId"])
    assert f"answered together with {one['messageId']}  acked  “Both are done.”" in shown
    assert "tokens" not in shown  # they are shown where the run began
    assert "tokens" in shell.said("trace", one["messageId"])


def read_until(terminal: int, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        try:
            seen += os.read(terminal, 1000)
        except OSError:  # whoever wrote there has ended
            raise AssertionError(f"{words!r} was not shown, only {seen!r}") from None
    return seen


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_words_of_an_answer_are_shown_as_they_come(
    office: OfficeProcess, model: ScriptedModel, provider: str
) -> None:
    hire(office, provider)
    model.play(Turn(text="The first half of it", piece=14, fault=Hang(after_event=4)))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "manydesks", "--home", str(office.home.path), "send", "--to", "amy", "x", "--wait"]
    waiting = subprocess.Popen(command, stdout=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    try:
        seen = read_until(ours, b"amy: The first half")
        model.release()
        seen += read_until(ours, b"The first half of it\r\n")
        # wiped before the answer is printed, which then stands there once
        assert seen.endswith(b"\r\x1b[KThe first half of it\r\n"), seen
        assert waiting.wait(30) == 0
    finally:
        waiting.kill()
        waiting.wait()
        os.close(ours)
