"""The tools of agents, in a real office: what they write, and what people get."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from manydesks.domain.errors import UnknownQuestion, WrongState
from manydesks.store.reader import Reader
from manydesks.testing.office import OfficeProcess


def tool(name: str, **arguments: Any) -> str:
    return f"!tool {name} {json.dumps(arguments)}"


def question(reader: Reader) -> dict[str, Any] | None:
    return next(iter(reader.questions()), None)


def operations(trace: dict[str, Any]) -> list[tuple[str, str]]:
    return [(r["operation"], r["text"]) for m in trace["messages"] for r in m["responses"]]


def test_the_answer_reaches_the_tool_that_waits(office: OfficeProcess) -> None:
    asked = tool("ask_user_question", question="Deploy?", options=["yes", "no"], title="Release")
    sent = office.door.ask("send", text=asked, to="assistant", sender="kim")
    open_one = office.until(question)
    assert (open_one["agent"], open_one["question"], open_one["waited"]) == ("assistant", "Deploy?", True)
    # answers do not queue: the run that waits holds the lane
    done = office.door.ask("answer", id=open_one["questionId"], answer="2", by="kim")
    assert done["selectedOption"] == "no"
    trace = office.trace(sent["traceId"])
    first, second = operations(trace)
    assert first == ("ask_question", "Release\nDeploy?\n  1. yes\n  2. no")
    assert '"selectedOption": "no"' in second[1]
    assert len(trace["messages"]) == 1
    reader = office.door.reader()
    try:
        assert reader.questions() == []
        kinds = [event["kind"] for event in reader.events(0, 1000) if event["kind"].startswith("question")]
    finally:
        reader.close()
    assert kinds == ["question_asked", "question_answered"]
    with pytest.raises(WrongState, match="is answered; only an open one can be answered"):
        office.door.ask("answer", id=open_one["questionId"], answer="1")
    with pytest.raises(UnknownQuestion, match="manydesks questions"):
        office.door.ask("answer", id="question_nothere", answer="1")


def test_a_killed_office_asks_once_and_the_retried_run_gets_the_answer(office: OfficeProcess) -> None:
    asked = tool("ask_user_question", question="Which colour?")
    sent = office.door.ask("send", text=asked, to="assistant", sender="kim")
    open_one = office.until(question)
    office.kill()
    office.start()
    office.until(lambda reader: len((reader.trace(sent["traceId"]) or {})["messages"][0]["runs"]) == 2 or None)
    office.door.ask("answer", id=open_one["questionId"], answer="green, please", by="kim")
    trace = office.trace(sent["traceId"])
    shown = operations(trace)
    assert [operation for operation, _ in shown] == ["ask_question", "message"]
    assert "green, please" in shown[1][1]
    assert trace["messages"][0]["status"] == "completed"


def test_a_file_of_the_workspace_reaches_the_office(office: OfficeProcess) -> None:
    workspace = office.home.workspace("assistant")
    (workspace / "notes").mkdir()
    (workspace / "notes" / "plan.txt").write_text("first tea, then work")
    (workspace / "way out").symlink_to(office.home.office_db)
    lines = [
        tool("send_file", path="notes/plan.txt", text="here it is"),
        tool("send_file", path="way out"),
        tool("send_file", path="../../office.db"),
        tool("send_file", path=str(office.home.office_db)),
    ]
    trace = office.ask("\n".join(lines), to="assistant")
    file, final = trace["messages"][0]["responses"]
    assert file["text"] == "here it is"
    for reason in ("symbolic link", "'..' is not allowed", "only files of your workspace"):
        assert reason in final["text"]
    (folder,) = office.home.files.iterdir()
    assert (folder / "plan.txt").read_text() == "first tea, then work"
    session = next(office.home.sessions.glob("assistant/*"))
    office.until(lambda reader: not list((session / "out" / "outbox").iterdir()))


def test_edits_reactions_and_cards(office: OfficeProcess) -> None:
    lines = [
        tool("send_message", text="working"),
        tool("add_reaction", emoji="👀"),
        tool("edit_message", messageId=999, text="never"),
        tool("send_card", title="Done", fields=[{"name": "tests", "value": "12"}]),
    ]
    trace = office.ask("\n".join(lines), to="assistant")
    shown = operations(trace)
    assert shown[:3] == [("message", "working"), ("reaction", "👀"), ("card", "Done\ntests: 12")]
    assert "You have sent no message 999" in shown[3][1]
    # the number that the first row got, as the agent was told
    (number,) = map(int, re.findall(r'send_message gave: {"sent": true, "messageId": (\d+)}', shown[3][1]))
    trace = office.ask(tool("edit_message", messageId=number, text="worked"), to="assistant")
    assert operations(trace)[0] == ("edit", "worked")


def test_an_agent_asks_another_and_gets_its_answer(office: OfficeProcess) -> None:
    office.door.ask("agent_add", id="coder", name="Coder")
    trace = office.ask(tool("send_to_agent", agent="coder", text="!say forty-two"), to="assistant")
    asked, coder, back = trace["messages"]
    assert (asked["agent"], coder["agent"], back["agent"]) == ("assistant", "coder", "assistant")
    assert [r["text"] for r in coder["responses"]] == ["forty-two"]  # the person reads it too
    assert (back["fromAgent"], back["text"]) == ("coder", "@coder: forty-two")
    assert "the office wrote: @coder: forty-two" in back["responses"][0]["text"]


def test_an_agent_that_asks_nobody_is_told(office: OfficeProcess) -> None:
    office.door.ask("agent_add", id="coder", name="Coder")
    trace = office.ask(tool("send_to_agent", agent="codr", text="hello"), to="assistant")
    _, told = trace["messages"]
    assert told["text"] == "Nothing was sent. There is no agent 'codr'; did you mean 'coder'?"


def test_a_desk_that_waits_for_a_person_is_not_counted(make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office(dispatch__desks=1)
    office.start()
    office.door.ask("agent_add", id="coder", name="Coder")
    sent = office.door.ask("send", text=tool("ask_user_question", question="Wait?"), to="assistant")
    open_one = office.until(question)
    # there is one desk, and the agent that asks does not take it
    assert office.ask("!say here", to="coder")["messages"][0]["status"] == "completed"
    office.door.ask("answer", id=open_one["questionId"], answer="no")
    assert office.trace(sent["traceId"])["messages"][0]["status"] == "completed"


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
def test_the_tools_of_a_desk_in_a_process_of_its_own(office: OfficeProcess, sandbox: str) -> None:
    if sandbox == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    office.door.ask("agent_add", id="coder", name="Coder", sandbox=sandbox)
    workspace = office.home.workspace("coder")
    (workspace / "plan.txt").write_text("first tea")
    (workspace / "way out").symlink_to(office.home.office_db)
    lines = [
        tool("send_file", path="plan.txt"),
        tool("send_file", path="way out"),
        tool("add_reaction", emoji="👀"),
        tool("ask_user_question", question="More?"),
    ]
    sent = office.door.ask("send", text="\n".join(lines), to="coder")
    open_one = office.until(question)
    office.door.ask("answer", id=open_one["questionId"], answer="no, thanks")
    shown = operations(office.trace(sent["traceId"]))
    assert [operation for operation, _ in shown] == ["message", "reaction", "ask_question", "message"]
    assert "symbolic link" in shown[3][1]
    assert "no, thanks" in shown[3][1]
    (copy,) = office.home.files.glob("*/plan.txt")
    assert copy.read_text() == "first tea"
