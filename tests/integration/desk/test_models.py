"""Agents with models, through the whole office: proxy, key, sandbox, continuation, and the real `claude`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manydesks.desk.furnish import office_mark
from manydesks.desk.process import MARK
from manydesks.desk.sandboxes import tree
from manydesks.domain.errors import BadInput
from manydesks.runner.program import find_program
from manydesks.testing.model import Hang, Refuse, ScriptedModel, ToolCall, Turn
from manydesks.testing.office import OfficeProcess

KEY = "sk-really-secret-key-0123456789"

needs_claude = pytest.mark.skipif(find_program("claude") is None, reason="claude is not installed: `manydesks[dev]`")
#: one that sits inside the host, and the real program in a sandbox
PROVIDERS = [pytest.param("anthropic"), pytest.param("claude", marks=needs_claude)]


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
    )
    office.home.secrets_file.write_text(f'lm_key = "{KEY}"\n')
    office.home.secrets_file.chmod(0o600)
    office.start()
    return office


def hire(office: OfficeProcess, provider: str) -> None:
    office.door.ask("agent_add", id="amy", provider=provider, model="scripted", options={"upstream": "lm"})


def ask(office: OfficeProcess, text: str) -> dict[str, Any]:
    (message,) = office.ask(text, to="amy")["messages"]
    return message


def said(message: dict[str, Any]) -> list[str]:
    return [r["text"] for r in message["responses"] if r["operation"] == "message" and r["status"] == "acked"]


def desks(office: OfficeProcess) -> set[int]:
    return tree.marked(f"{MARK}{office_mark(office.home)}-*")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_it_answers_with_a_key_that_no_desk_sees(office: OfficeProcess, model: ScriptedModel, provider: str) -> None:
    hire(office, provider)
    model.play(Turn(text="Good morning."))
    message = ask(office, "hello")
    assert (message["status"], said(message)) == ("completed", ["Good morning."]), message["lastError"]
    assert {request.key for request in model.requests} == {KEY}
    for pid in desks(office):
        for name in ("environ", "cmdline"):
            assert KEY.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    for top in (office.home.sessions, office.home.workspaces, office.home.logs):
        for file in top.rglob("*"):
            if file.is_file() and not file.is_symlink():
                assert KEY.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_conversation_goes_on_across_a_restart(office: OfficeProcess, model: ScriptedModel, provider: str) -> None:
    hire(office, provider)
    model.play(Turn(text="Noted."), Turn(text="It is blue."))
    assert said(ask(office, "the colour is blue")) == ["Noted."]
    assert office.stop() == 0
    assert desks(office) == set()
    office.start()
    assert said(ask(office, "which colour?")) == ["It is blue."]
    asked = model.requests[-1].asked
    assert asked is not None
    assert any("the colour is blue" in text for text in asked.said)
    assert any("which colour?" in text for text in asked.said)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_usage_is_booked(office: OfficeProcess, model: ScriptedModel, provider: str) -> None:
    hire(office, provider)
    model.play(Turn(text="Counted."))
    ask(office, "count")
    with closing(sqlite3.connect(f"file:{office.home.office_db}?mode=ro", uri=True)) as db:
        ((tokens_in, tokens_out),) = db.execute("select input_tokens, output_tokens from runs").fetchall()
    assert tokens_in is not None
    assert tokens_out > 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_key_is_dead_at_once(office: OfficeProcess, model: ScriptedModel, provider: str) -> None:
    hire(office, provider)
    model.play(Turn(fault=Refuse(status=401), times=None))
    message = ask(office, "hello")
    assert (message["status"], message["attempts"]) == ("dead", 1)
    assert KEY not in str(message)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_missing_key_says_what_to_set(office: OfficeProcess, model: ScriptedModel, provider: str) -> None:
    office.home.secrets_file.write_text("")
    hire(office, provider)
    message = ask(office, "hello")
    assert message["status"] == "dead"
    assert "`manydesks secret set lm_key` stores it" in message["lastError"]
    assert model.requests == ()


def test_a_missing_model_server_says_what_there_is(office: OfficeProcess) -> None:
    words = "There is no model server 'elsewhere'; the settings name anthropic, lm, openai."
    about = {"provider": "anthropic", "model": "m"}
    # before it costs a message
    with pytest.raises(BadInput, match=words):
        office.door.ask("agent_add", id="amy", **about, options={"upstream": "elsewhere"})
    office.door.ask("agent_add", id="amy", **about)
    with pytest.raises(BadInput, match=words):
        office.door.ask("agent_edit", id="amy", changes={"set_options": {"upstream": "elsewhere"}})
    # one that is there all the same, since its server was taken out of the settings later
    office.stop()
    with closing(sqlite3.connect(office.home.office_db)) as db, db:
        db.execute("update agents set options = ? where id = 'amy'", ('{"upstream": "elsewhere"}',))
    office.start()
    message = ask(office, "hello")
    assert message["status"] == "dead"
    assert words in message["lastError"]


def test_a_model_server_of_the_agents_own(office: OfficeProcess, model: ScriptedModel) -> None:
    options = {"base_url": model.base_url, "key": "lm_key"}
    office.door.ask("agent_add", id="amy", provider="anthropic", model="m", options=options)
    model.play(Turn(text="Here."))
    assert said(ask(office, "hello")) == ["Here."]


@needs_claude
def test_claude_works_in_its_folder_and_sees_nothing_else(office: OfficeProcess, model: ScriptedModel) -> None:
    hire(office, "claude")
    look = f"echo made > made.txt; ls {office.home.path}; cat {office.home.secrets_file}; env"
    model.play(
        Turn(text="I look.", calls=(ToolCall(name="Bash", arguments={"command": look, "description": "Look."}),))
    )
    message = ask(office, "look around")
    assert message["status"] == "completed", message["lastError"]
    assert (office.home.workspace("amy") / "made.txt").read_text() == "made\n"
    asked = model.requests[-1].asked
    assert asked is not None
    (result,) = asked.tool_results
    assert "office.db" not in result
    assert KEY not in result
    assert "No such file" in result


@needs_claude
def test_claude_calls_a_tool_of_the_desk(office: OfficeProcess, model: ScriptedModel) -> None:
    hire(office, "claude")
    call = ToolCall(name="mcp__manydesks__send_message", arguments={"text": "on my way"})
    model.play(Turn(text="", calls=(call,)), Turn(text="There."))
    message = ask(office, "come")
    assert (message["status"], said(message)) == ("completed", ["on my way", "There."]), message["lastError"]


@needs_claude
def test_two_messages_of_one_run(office: OfficeProcess, model: ScriptedModel) -> None:
    """The second comes while the first is being answered: it joins the run, and each is answered once."""
    hire(office, "claude")
    model.play(Turn(text="Wait", fault=Hang()))
    first = office.door.ask("send", text="first thing", to="amy", sender="ada")
    model.wait_hanging(1)
    second = office.door.ask("send", text="second thing", to="amy", sender="ada")
    office.until(lambda reader: reader.message(second["messageId"])["status"] == "processing")
    model.release()
    (one,), (two,) = (office.trace(sent["traceId"])["messages"] for sent in (first, second))
    assert (one["status"], two["status"]) == ("completed", "completed")
    assert one["runs"][0]["id"] == two["runs"][0]["id"]
    assert any("second thing" in text for text in model.requests[-1].asked.said)


@needs_claude
def test_claude_is_killed_in_the_middle_and_the_conversation_goes_on(
    office: OfficeProcess, model: ScriptedModel
) -> None:
    hire(office, "claude")
    model.play(Turn(text="Noted."), Turn(text="Wait", fault=Hang()), Turn(text="It is blue."))
    assert said(ask(office, "the colour is blue")) == ["Noted."]
    sent = office.door.ask("send", text="which colour?", to="amy", sender="ada")
    model.wait_hanging(1)
    for pid in desks(office):
        if b"claude" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
            os.kill(pid, 9)
    (message,) = office.trace(sent["traceId"])["messages"]
    assert (message["status"], message["attempts"], said(message)) == ("completed", 2, ["It is blue."])
    asked = model.requests[-1].asked
    assert asked is not None
    assert any("the colour is blue" in text for text in asked.said)
