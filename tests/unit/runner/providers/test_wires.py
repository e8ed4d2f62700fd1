"""The three wires against the bytes that the scripted model writes, and against bytes that nobody should write."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.runner.providers.http_api.chat import Chat
from manydesks.runner.providers.http_api.failure import CallFailed
from manydesks.runner.providers.http_api.messages import Messages
from manydesks.runner.providers.http_api.responses import Responses
from manydesks.runner.providers.http_api.sse import Events
from manydesks.runner.providers.http_api.talk import Call, Entry, Opaque, Part, Result, Words
from manydesks.runner.providers.http_api.wire import Ask, Reader, Reply, Wire
from manydesks.testing.model.asked import Asked
from manydesks.testing.model.dialect import Reply as Scripted
from manydesks.testing.model.server import DIALECTS
from manydesks.testing.model.turn import ToolCall, Turn, Usage

WIRES: dict[str, Wire] = {"/v1/messages": Messages(), "/v1/responses": Responses(), "/v1/chat/completions": Chat()}
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.builds(ToolCall, name=st.sampled_from(["a", "b"]), arguments=st.dictionaries(TEXT, JSON, max_size=3))
TURNS = st.builds(
    Turn,
    text=TEXT,
    thinking=TEXT,
    calls=st.lists(CALLS, max_size=3).map(tuple),
    usage=st.builds(
        Usage, input=st.integers(0, 999), output=st.integers(0, 999), cache_read=st.integers(0, 99),
        cache_write=st.just(0),
    ),
    piece=st.integers(1, 9),
)  # fmt: skip


def scripted(path: str, turn: Turn, *, stream: bool) -> tuple[bytes, str]:
    """What the model server would write: a stream, and the answer in one piece."""
    body = {"stream": stream, "stream_options": {"include_usage": True}}
    asked = Asked(
        dialect="chat",
        model="m",
        stream=stream,
        conversation="",
        system="",
        said=(),
        tool_results=(),
        tools=(),
        body=body,
    )
    usage = turn.usage
    reply = Scripted(asked=asked, turn=turn, token="t", created=1, input=usage.input or 0, output=usage.output or 0)
    dialect = DIALECTS[path]
    return b"".join(dialect.events(reply)), json.dumps(dialect.whole(reply))


def fed(reader: Reader, data: bytes, cuts: list[int]) -> str:
    events, words = Events(), ""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        for event in events.feed(data[begin:end]):
            words += reader.feed(event)
    return words


def spoken(reply: Reply) -> tuple[str, list[tuple[str, Any]]]:
    words = "".join(part.text for part in reply.parts if isinstance(part, Words))
    return words, [(part.name, part.arguments) for part in reply.parts if isinstance(part, Call)]


@pytest.mark.parametrize("path", WIRES)
@given(turn=TURNS, cuts=st.lists(st.integers(0, 5_000), max_size=20))
def test_an_answer_is_read_however_it_is_cut_and_the_same_in_one_piece(path: str, turn: Turn, cuts: list[int]) -> None:
    stream, whole = scripted(path, turn, stream=True)
    reader, other = WIRES[path].reader(), WIRES[path].reader()
    assert fed(reader, stream, cuts) == turn.text
    assert reader.done
    other.whole(whole)
    for read in (reader.reply(), other.reply()):
        assert spoken(read) == (turn.text, [(call.name, dict(call.arguments)) for call in turn.calls])
        assert read.stop == "end"
        assert (read.usage.input, read.usage.output) == (turn.usage.input, turn.usage.output)
        assert (read.usage.cache_read, read.usage.model) == (turn.usage.cache_read, "m")
    assert reader.reply() == other.reply()


@pytest.mark.parametrize("path", WIRES)
@given(turn=TURNS, data=st.data())
def test_an_answer_that_breaks_off_is_never_taken_for_whole(path: str, turn: Turn, data: st.DataObject) -> None:
    stream, _ = scripted(path, turn, stream=True)
    events = list(Events().feed(stream))
    reader = WIRES[path].reader()
    for event in events[: data.draw(st.integers(0, len(events) - 1))]:
        reader.feed(event)
    try:
        reply = reader.reply()
    except CallFailed as failed:
        outcome: str = failed.failure
    else:
        outcome = "whole"
    assert outcome in ("transient", "whole")
    if outcome == "whole":
        # all but the last word of the protocol was there
        assert spoken(reply) == (turn.text, [(call.name, dict(call.arguments)) for call in turn.calls])


EVENT_TYPES = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
     "message_stop", "error", "response.created", "response.output_item.done", "response.output_text.delta",
     "response.completed", "response.incomplete", "response.failed"]
)  # fmt: skip
KEYS = st.sampled_from(
    ["type", "index", "delta", "message", "content_block", "usage", "choices", "tool_calls", "function", "arguments",
     "name", "id", "content", "text", "response", "item", "output", "output_index", "error", "code", "finish_reason",
     "stop_reason", "refusal", "model", "input_tokens", "prompt_tokens_details"]
)  # fmt: skip
WILD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | EVENT_TYPES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize("path", WIRES)
@given(events=st.lists(WILD | st.builds(lambda kind, rest: {**rest, "type": kind}, EVENT_TYPES,
                                        st.dictionaries(KEYS, WILD, max_size=5)), max_size=6))  # fmt: skip
def test_nonsense_is_a_failed_call_or_an_answer_and_never_a_crash(path: str, events: list[Any]) -> None:
    for whole in (False, True):
        reader = WIRES[path].reader()
        try:
            for event in events:
                text = json.dumps(event)
                if whole:
                    reader.whole(text)
                else:
                    assert isinstance(reader.feed(text), str)
            reply = reader.reply()
        except CallFailed:
            continue
        assert all(isinstance(part, Words | Call | Opaque) for part in reply.parts)
        json.dumps(WIRES[path].body(ask(Entry(role="model", parts=reply.parts))))


def ask(*entries: Entry, **changes: Any) -> Ask:
    return Ask(**{"model": "m", "system": "", "entries": entries, "tools": (), "max_tokens": 9, **changes})


def chat(*chunks: dict[str, Any]) -> Reply:
    reader = Chat().reader()
    for chunk in chunks:
        reader.feed(json.dumps({"choices": [chunk]}))
    return reader.reply()


def piece(**call: Any) -> dict[str, Any]:
    return {"delta": {"tool_calls": [call]}}


END = {"delta": {}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    "chunks",
    [
        # every call has index 0, and its own id
        [
            piece(index=0, id="x", function={"name": "a", "arguments": "{}"}),
            piece(index=0, id="y", function={"name": "b", "arguments": '{"n":1}'}),
        ],
        # neither index nor id, arguments as an object
        [piece(function={"name": "a", "arguments": {}}), piece(function={"name": "b", "arguments": {"n": 1}})],
        # the id again in every piece
        [
            piece(index=0, id="x", function={"name": "a", "arguments": ""}),
            piece(index=1, id="y", function={"name": "b", "arguments": '{"n"'}),
            piece(index=1, id="y", function={"arguments": ":1}"}),
        ],
        # an id without an index
        [
            piece(id="x", function={"name": "a"}),
            piece(id="y", function={"name": "b", "arguments": '{"n"'}),
            piece(function={"arguments": ":1}"}),
        ],
    ],
)
def test_servers_differ_in_how_they_write_parallel_calls(chunks: list[dict[str, Any]]) -> None:
    assert spoken(chat(*chunks, END)) == ("", [("a", {}), ("b", {"n": 1})])


def test_arguments_that_are_no_object_are_left_to_the_tool_and_go_back_as_one() -> None:
    reply = chat(piece(index=0, id="x", function={"name": "a", "arguments": '{"half'}), END)
    (call,) = reply.parts
    assert isinstance(call, Call)
    assert call.arguments == '{"half'
    entry = Entry(role="model", parts=reply.parts)
    sent = Chat().body(ask(entry))["messages"][0]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"unreadable": '{"half'}
    assert Messages().body(ask(entry))["messages"][0]["content"][0]["input"] == {"unreadable": '{"half'}


TALK = (
    Entry(role="user", parts=(Words(text="go"),)),
    Entry(role="model", parts=(Words(text="Well."), Call(id="1", name="a", arguments={"n": 1}))),
    Entry(role="tools", parts=(Result(id="1", ok=False, text="no"),)),
    Entry(role="model", parts=()),
    Entry(role="user", parts=(Words(text="context"),)),
    Entry(role="user", parts=(Words(text="again"),)),
)


def test_a_talk_as_messages() -> None:
    assert Messages().body(ask(*TALK, cache=False))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Well."},
                {"type": "tool_use", "id": "1", "name": "a", "input": {"n": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "no", "is_error": True},
                {"type": "text", "text": "context"},
                {"type": "text", "text": "again"},
            ],
        },
    ]


def test_a_talk_as_chat() -> None:
    function = {"name": "a", "arguments": '{"n":1}'}
    assert Chat().body(ask(*TALK, system="Be brief."))["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "Well.",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "Error: no"},
        {"role": "user", "content": "context"},
        {"role": "user", "content": "again"},
    ]


def test_a_talk_as_responses() -> None:
    def message(role: str, kind: str, text: str) -> dict[str, Any]:
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    body = Responses().body(ask(*TALK, system="Be brief."))
    assert body["instructions"] == "Be brief."
    assert body["store"] is False
    assert body["input"] == [
        message("user", "input_text", "go"),
        message("assistant", "output_text", "Well."),
        {"type": "function_call", "call_id": "1", "name": "a", "arguments": '{"n":1}'},
        {"type": "function_call_output", "call_id": "1", "output": "Error: no"},
        message("user", "input_text", "context"),
        message("user", "input_text", "again"),
    ]


def test_thoughts_go_back_to_their_own_api_only() -> None:
    reader = Responses().reader()
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
    reader.whole(json.dumps({"output": [thought, {"type": "reasoning", "id": "rs_2", "summary": []}]}))
    parts: tuple[Part, ...] = reader.reply().parts
    assert parts == (Opaque(wire="responses", data={"type": "reasoning", "summary": [], "encrypted_content": "abc"}),)
    entry = Entry(role="model", parts=parts)
    assert Responses().body(ask(entry))["input"] == [{"type": "reasoning", "summary": [], "encrypted_content": "abc"}]
    assert Messages().body(ask(entry))["messages"] == []
    assert Chat().body(ask(entry))["messages"] == []
