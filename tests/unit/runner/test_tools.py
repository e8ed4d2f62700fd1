from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from manydesks.domain.mail import Content, Inbound
from manydesks.runner.tools import registry
from manydesks.runner.tools.base import Call, Outcome, Tool


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

    async def send(message: Inbound, kind: str, content: Content) -> int:
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
        ("dance", {}, "m1", "There is no tool 'dance'; there are: paint, send_message."),
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
