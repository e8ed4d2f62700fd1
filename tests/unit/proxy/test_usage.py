"""Usage, read from answers of each wire, however they are cut into pieces."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.proxy.dialect import Wire
from manydesks.proxy.usage import Meter, Usage


def sse(*events: Any, end: str = "\n") -> bytes:
    lines = []
    for event in events:
        if isinstance(event, dict) and "type" in event:
            lines.append(f"event: {event['type']}{end}")
        lines.append(f"data: {event if isinstance(event, str) else json.dumps(event)}{end}{end}")
    return "".join(lines).encode()


#: text that would fool whoever looks for words only
BAIT = '{"usage": {"input_tokens": 999, "output_tokens": 999, "prompt_tokens": 999, "completion_tokens": 999}} \\" {['

MESSAGES_START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "claude-x",
        "content": [],
        "usage": {
            "input_tokens": 25,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 4,
            "cache_creation": {"ephemeral_5m_input_tokens": 3},
            "output_tokens": 1,
        },
    },
}
MESSAGES = [
    MESSAGES_START,
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": BAIT}},
    {"type": "ping"},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}},
    {"type": "message_stop"},
]
COUNTED = Usage(input=25, output=15, cache_read=4, cache_write=3, model="claude-x", final=True)

RESPONSES = [
    {"type": "response.created", "response": {"model": "gpt-x", "usage": None}},
    {"type": "response.output_text.delta", "delta": BAIT},
    {
        "type": "response.completed",
        "response": {
            "model": "gpt-x",
            "output": [{"type": "message", "content": [{"text": BAIT * 500, "usage": {"output_tokens": 999}}]}],
            "usage": {
                "input_tokens": 30,
                "input_tokens_details": {"cached_tokens": 10},
                "output_tokens": 12,
                "output_tokens_details": {"reasoning_tokens": 5},
                "total_tokens": 42,
            },
        },
    },
]
CHAT = [
    {"id": "c", "model": "gpt-y", "choices": [{"delta": {"content": BAIT}}], "usage": None},
    {"id": "c", "model": "gpt-y", "choices": [{"delta": {}, "finish_reason": "stop"}]},
    {
        "id": "c",
        "model": "gpt-y",
        "choices": [],
        "usage": {"prompt_tokens": 8, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 2}},
    },
    "[DONE]",
]

ANSWERS: dict[str, tuple[Wire, bool, bytes, Usage]] = {
    "messages, streamed": ("messages", True, sse(*MESSAGES), COUNTED),
    "messages, with other line ends": ("messages", True, sse(*MESSAGES, end="\r\n"), COUNTED),
    "messages, with old line ends": ("messages", True, sse(*MESSAGES, end="\r"), COUNTED),
    "messages, cut off": (
        "messages",
        True,
        sse(*MESSAGES[:2]),
        Usage(input=25, output=1, cache_read=4, cache_write=3, model="claude-x", final=False),
    ),
    "messages, plain": (
        "messages",
        False,
        json.dumps(
            {
                "content": [{"type": "text", "text": BAIT}],
                "model": "claude-x",
                "usage": {
                    "input_tokens": 25, "output_tokens": 15,
                    "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3,
                },
            },
            indent=2,
        ).encode(),
        COUNTED,
    ),
    "messages, nulls": (
        "messages",
        False,
        b'{"model": "m", "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": null}}',
        Usage(input=1, output=2, model="m", final=True),
    ),
    "messages, first counts left out later": (
        "messages",
        True,
        sse(MESSAGES_START, {"type": "message_delta", "usage": {"input_tokens": 0, "output_tokens": 15}}),
        COUNTED,
    ),
    "responses, streamed": (
        "responses", True, sse(*RESPONSES), Usage(input=20, output=12, cache_read=10, model="gpt-x", final=True),
    ),
    "responses, cut off": ("responses", True, sse(*RESPONSES[:2]), Usage(model="gpt-x")),
    "responses, plain": (
        "responses",
        False,
        json.dumps(RESPONSES[2]["response"]).encode(),
        Usage(input=20, output=12, cache_read=10, model="gpt-x", final=True),
    ),
    "chat, streamed": ("chat", True, sse(*CHAT), Usage(input=6, output=9, cache_read=2, model="gpt-y", final=True)),
    "chat, streamed without usage": ("chat", True, sse(*CHAT[:2], "[DONE]"), Usage(model="gpt-y")),
    "chat, plain": (
        "chat",
        False,
        b'{"choices":[{"message":{"content":"{"}}],"model":"gpt-y","usage":{"prompt_tokens":8,"completion_tokens":9}}',
        Usage(input=8, output=9, model="gpt-y", final=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
@given(seed=st.integers(0, 2**32))
def test_usage_whatever_the_pieces(name: str, seed: int) -> None:
    wire, streamed, answer, wanted = ANSWERS[name]
    rng = random.Random(seed)
    meter = Meter(wire, streamed=streamed)
    at = 0
    while at < len(answer):
        size = rng.choice([1, 2, 7, 64, 5000])
        meter.feed(answer[at : at + size])
        at += size
    assert meter.usage() == wanted


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b"[]", b'{"usage": null}', b'data: {"usage": {}}\n\n'])
def test_unknown_is_none(streamed: bool, answer: bytes) -> None:
    meter = Meter("messages", streamed=streamed)
    meter.feed(answer)
    assert meter.usage() is None


@pytest.mark.parametrize("count", ["1.5", "-3", '"7"', "true", "1e3", "[7]", '{"a": 7}', "9" * 16])
def test_what_is_no_count_is_unknown(count: str) -> None:
    meter = Meter("messages", streamed=False)
    meter.feed(b'{"usage": {"input_tokens": %s, "output_tokens": 2}}' % count.encode())
    assert meter.usage() == Usage(output=2, final=True)


@given(st.binary(max_size=300), st.booleans())
def test_no_answer_breaks_the_meter(answer: bytes, streamed: bool) -> None:
    meter = Meter("responses", streamed=streamed)
    meter.feed(answer)
    meter.feed(b'\n\ndata: {"usage": {"output_tokens": 3}}\n\n')
    meter.usage()


def test_the_meter_keeps_next_to_nothing() -> None:
    meter = Meter("messages", streamed=True)
    meter.feed(b'data: {"text": "')
    for _ in range(100):
        meter.feed(b"x" * 100_000)
    meter.feed(b'", "nested": ' + b"[" * 100_000)
    picker = meter._picker
    assert len(picker._text) <= 200
    assert len(picker._keys) <= 8
    meter.feed(b"]" * 100_000 + b', "usage": {"output_tokens": 4}}\n\n')
    assert meter.usage() == Usage(output=4, final=True)
