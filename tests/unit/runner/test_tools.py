from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.mail import Content, Inbound, Outbound
from manydesks.runner.answers import Answers
from manydesks.runner.tools import registry
from manydesks.runner.tools.base import Call, Means, Outcome, Tool
from manydesks.testing.mailbox import MemoryMailbox


async def nothing(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    return Outcome(ok=True, result=dict(arguments))


TOOL = Tool(
    name="paint",
    description="Paints.",
    arguments={
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "coats": {"type": "integer"},
        "note": {"type": "string", "minLength": 2, "maxLength": 5},
        "wet": {"type": "boolean"},
    },
    required=frozenset({"colour"}),
    run=nothing,
)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"colour": "red"}, None),
        ({"colour": "blue", "coats": 2, "note": "dry", "wet": False}, None),
        ([], "are an object; allowed are: colour (string, required), coats (integer)"),
        ({}, "needs the argument 'colour'; allowed are:"),
        ({"colour": "red", "size": 1}, "has no argument 'size'; allowed are:"),
        ({"colour": 1}, "'colour' of paint must be of type string"),
        ({"colour": "green"}, "one of red, blue"),
        ({"colour": "red", "coats": True}, "of type integer"),
        ({"colour": "red", "wet": 1}, "of type boolean"),
        ({"colour": "red", "note": "x"}, "at least 2"),
        ({"colour": "red", "note": "too long"}, "at most 5"),
    ],
)
def test_arguments_are_checked_with_a_sentence_to_act_on(arguments: Any, complaint: str | None) -> None:
    found = TOOL.complaint(arguments)
    if complaint is None:
        assert found is None
    else:
        assert complaint in (found or "")


def test_the_schema_is_what_models_read() -> None:
    schema = TOOL.schema()
    assert schema["required"] == ["colour"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"colour", "coats", "note", "wet"}


def box(sent: list[tuple[str, str, Content]]) -> registry.Toolbox:
    row = Inbound(id="m1", run="r", fence=1, kind="chat", at=1, tries=1, content={})

    async def send(message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
        sent.append((message.id, kind, content))
        return 7

    return registry.Toolbox({**registry.find(), "paint": TOOL}, [row], send)


async def test_a_call_is_run_for_its_message() -> None:
    sent: list[tuple[str, str, Content]] = []
    outcome = await box(sent).call("send_message", {"text": "hello"}, message="m1")
    assert outcome == Outcome(ok=True, result={"sent": True, "messageId": 7})
    assert sent == [("m1", "chat", {"text": "hello", "files": []})]


@pytest.mark.parametrize(
    ("name", "arguments", "message", "sentence"),
    [
        (
            "dance",
            {},
            "m1",
            "There is no tool 'dance'; there are: add_reaction, ask_user_question, edit_message, paint, query_history,",
        ),
        ("send_message", {"txt": "x"}, "m1", "no argument 'txt'; allowed are: text (string, required)"),
        ("send_message", {"text": ""}, "m1", "at least 1"),
        ("send_message", None, "m1", "are an object"),
        ("send_message", {"text": "x"}, "m9", "not a message that you were given"),
    ],
)
async def test_a_wrong_call_is_an_outcome_that_says_what_to_do(
    name: str, arguments: Any, message: str, sentence: str
) -> None:
    sent: list[tuple[str, str, Content]] = []
    outcome = await box(sent).call(name, arguments, message=message)
    assert not outcome.ok
    assert sentence in outcome.result
    assert sent == []


def test_every_built_in_tool_explains_itself() -> None:
    for name, tool in registry.find().items():
        assert name == tool.name
        assert len(tool.description) > 40
        assert tool.required <= tool.arguments.keys()
        for argument, schema in tool.arguments.items():
            assert schema.get("description"), argument


# arguments with parts

NESTED = Tool(
    name="stack",
    description="Stacks.",
    arguments={
        "boxes": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 3}, "size": {"type": "integer", "maximum": 9}},
                "required": ["name"],
            },
        },
        "from": {"type": "integer", "minimum": 1},
    },
    required=frozenset(),
    run=nothing,
)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"boxes": [{"name": "a", "size": 9}], "from": 1}, None),
        ({"boxes": []}, "a list of at least 1 items"),
        ({"boxes": [{"name": "a"}] * 3}, "a list of at most 2 items"),
        ({"boxes": ["a"]}, "a list whose item 1 is of type object"),
        ({"boxes": [{"name": "a"}, {}]}, "a list whose item 2 is an object with 'name'"),
        ({"boxes": [{"name": "a", "lid": 1}]}, "an object without 'lid'; it may have name, size"),
        ({"boxes": [{"name": "long"}]}, "whose item 1 is an object whose 'name' is a text of at most 3 characters"),
        ({"boxes": [{"name": "a", "size": 10}]}, "'size' is at most 9"),
        ({"from": 0}, "at least 1"),
    ],
)
def test_the_parts_of_arguments_are_checked_too(arguments: Any, complaint: str | None) -> None:
    found = NESTED.complaint(arguments)
    assert found is None if complaint is None else complaint in (found or "")


# each tool


class Bench:
    """A toolbox with everything a desk has, and what was sent with it."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.workspace, self.outbox = folder / "workspace", folder / "outbox"
        self.workspace.mkdir()
        self.outbox.mkdir()
        self.sent: list[tuple[str, Content, str | None]] = []
        self.known = {2: "m1", 7: "out_7"}
        row = Inbound(id="m1", run="r", fence=1, kind="chat", at=1, tries=1, content={}, seq=2)
        values: dict[str, Any] = {"workspace": self.workspace, "outbox": self.outbox, "find": self._find}
        self._box = registry.Toolbox(registry.find(), [row], self._send, Means(**values | changes))

    async def _find(self, number: int) -> str | None:
        return self.known.get(number)

    async def _send(self, message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
        self.sent.append((kind, content, id))
        return 9

    async def call(self, tool: str, /, **arguments: Any) -> Outcome:
        return await self._box.call(tool, arguments, message="m1")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_send_file_copies_before_it_says_so(bench: Bench) -> None:
    (bench.workspace / "notes").mkdir()
    (bench.workspace / "notes" / "plan.txt").write_text("tea")
    outcome = await bench.call("send_file", path="./notes/plan.txt", text="the plan")
    assert outcome == Outcome(ok=True, result={"sent": True, "messageId": 9, "name": "plan.txt"})
    ((kind, content, id),) = bench.sent
    assert (kind, content) == ("chat", {"text": "the plan", "files": ["plan.txt"]})
    assert (bench.outbox / str(id) / "plan.txt").read_text() == "tea"


async def test_send_file_takes_absolute_paths_of_the_workspace_and_the_outbox(bench: Bench) -> None:
    (bench.workspace / "a").write_text("a")
    (bench.outbox / "b").write_text("b")
    assert (await bench.call("send_file", path=str(bench.workspace / "a"), name="first.txt")).ok
    assert (await bench.call("send_file", path=str(bench.outbox / "b"))).ok
    assert [content["files"] for _, content, _ in bench.sent] == [["first.txt"], ["b"]]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../secret", "'..' is not allowed"),
        ("notes/../../secret", "'..' is not allowed"),
        ("/etc/passwd", "only files of your workspace and of your outbox"),
        ("link", "'link' is a symbolic link"),
        ("up/secret", "'up' is a symbolic link"),
        ("nothing", "there is no 'nothing'"),
        (".", "a path names a file"),
        ("notes", "not a regular file"),
    ],
)
async def test_send_file_sends_nothing_else(bench: Bench, path: str, reason: str) -> None:
    (bench.workspace.parent / "secret").write_text("key")
    (bench.workspace / "notes").mkdir()
    (bench.workspace / "link").symlink_to(bench.workspace.parent / "secret")
    (bench.workspace / "up").symlink_to(bench.workspace.parent)
    outcome = await bench.call("send_file", path=path)
    assert not outcome.ok
    assert outcome.result.startswith(f"'{path}' was not sent: ")
    assert reason in outcome.result
    assert bench.sent == []


async def test_send_file_says_where_it_cannot(tmp_path: Path) -> None:
    bench = Bench(tmp_path, workspace=None)
    assert "cannot be sent from this desk" in (await bench.call("send_file", path="a")).result


async def test_edit_message_is_for_own_messages(bench: Bench) -> None:
    assert (await bench.call("edit_message", messageId=7, text="new")).ok
    for number in (2, 5):
        outcome = await bench.call("edit_message", messageId=number, text="new")
        assert f"You have sent no message {number}" in outcome.result
    assert [content for _, content, _ in bench.sent] == [
        {"operation": "edit", "messageId": 7, "target": "out_7", "text": "new"}
    ]


async def test_add_reaction_is_for_the_message_at_hand_unless_another_is_named(bench: Bench) -> None:
    assert (await bench.call("add_reaction", emoji="👍")).ok
    assert (await bench.call("add_reaction", emoji="1️⃣", messageId=7)).ok
    for emoji in ("ok", "  ", ":+1:"):
        assert "not a word" in (await bench.call("add_reaction", emoji=emoji)).result
    assert "There is no message 5" in (await bench.call("add_reaction", emoji="👍", messageId=5)).result
    assert [(c["messageId"], c["target"], c["emoji"]) for _, c, _ in bench.sent] == [(2, "m1", "👍"), (7, "out_7", "1️⃣")]


async def test_send_card_comes_with_a_text_for_places_without_cards(bench: Bench) -> None:
    links = [{"label": "log", "url": "https://example.org/1"}]
    assert (await bench.call("send_card", title="Done", description="All of it.", actions=links)).ok
    ((_, content, _),) = bench.sent
    assert content["fallbackText"] == "Done\nAll of it.\nlog: https://example.org/1"
    assert content["card"]["actions"] == links
    outcome = await bench.call("send_card", title="x", actions=[{"label": "run", "url": "file:///etc/passwd"}])
    assert "must begin with https://" in outcome.result


async def test_send_to_agent_asks_the_office(bench: Bench) -> None:
    outcome = await bench.call("send_to_agent", agent="@Coder", text="count")
    assert outcome.ok
    # whether it may is the office's to say, and it has not been asked yet
    assert outcome.result["handed"] == "to the office"
    assert "sent" not in outcome.result
    assert bench.sent == [("system", {"action": "send_to_agent", "payload": {"agent": "coder", "text": "count"}}, None)]
    assert not (await bench.call("send_to_agent", agent="@", text="count")).ok


async def test_a_question_gets_its_answer_and_says_that_it_was_heard(tmp_path: Path) -> None:
    answers = Answers()
    bench = Bench(tmp_path, answer=answers.wait)
    call = asyncio.create_task(bench.call("ask_user_question", question="Tea?", options=["yes", "no", "yes"]))
    async with asyncio.timeout(20):
        await answers.wanted.wait()
        ((_, content, _),) = bench.sent
        assert content["options"] == [{"label": "yes", "value": "yes"}, {"label": "no", "value": "no"}]
        answers.say({"questionId": "question_other", "status": "answered", "text": "not mine"})
        answers.say({"questionId": content["questionId"], "status": "answered", "selectedOption": "no", "text": "no"})
        answers.say({"questionId": content["questionId"], "status": "answered", "text": "too late"})
        outcome = await call
    assert outcome == Outcome(ok=True, result={"answered": True, "selectedOption": "no", "text": "no"})
    assert bench.sent[1][:2] == (
        "system",
        {"action": "question_heard", "payload": {"questionId": content["questionId"]}},
    )
    assert not answers.wanted.is_set()


async def test_a_question_that_nobody_answers_in_time_stays_open(tmp_path: Path) -> None:
    bench = Bench(tmp_path, answer=Answers().wait, ask_seconds=0.01)
    outcome = await bench.call("ask_user_question", question="Tea?")
    assert (outcome.ok, outcome.result["answered"]) == (True, False)
    assert "end your turn" in outcome.result["note"]
    assert [content.get("action") for _, content, _ in bench.sent] == [None, "question_left"]


async def test_an_expired_question_is_no_answer(tmp_path: Path) -> None:
    async def expired(id: str) -> Content:
        return {"questionId": id, "status": "expired", "result": "Nobody answered."}

    outcome = await Bench(tmp_path, answer=expired).call("ask_user_question", question="Tea?")
    assert outcome.result["answered"] is False
    assert outcome.result["note"] == "Nobody answered."


async def test_what_no_row_takes_is_an_answer_to_the_model(tmp_path: Path) -> None:
    box = MemoryMailbox()
    box.desk.open()
    row = Inbound(id="m1", run="r", fence=1, kind="chat", at=1, tries=1, content={})

    async def send(message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
        out = Outbound(id="out_1", run="r", fence=1, in_reply_to="m1", at=1, kind=kind, content=content)
        return box.desk.write(messages=[out]).messages[0]

    outcome = await registry.Toolbox(registry.find(), [row], send).call(
        "send_message", {"text": "\ud800"}, message="m1"
    )
    assert not outcome.ok
    assert "half a character" in outcome.result
