"""Which turn a request gets, and scripts as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadInput
from manydesks.testing.model import (
    Asked,
    Cut,
    Fail,
    Garble,
    Hang,
    Pace,
    Refuse,
    Script,
    ToolCall,
    Turn,
    Usage,
    When,
    load_script,
    read_script,
)
from manydesks.testing.model.script import Player


def asked(user: str = "hi", *, conversation: str = "c", results: tuple[str, ...] = (), **more: Any) -> Asked:
    given: dict[str, Any] = {"dialect": "chat", "model": "m", "stream": False, "system": "", "tools": (), "body": {}}
    return Asked(**{**given, "conversation": conversation, "said": (user,), "tool_results": results, **more})


def said(player: Player, *requests: Asked) -> list[str]:
    return [player.choose(request).text for request in requests]


def test_turns_come_in_order_and_then_the_model_echoes() -> None:
    player = Player(Script(turns=(Turn(text="one"), Turn(text="two", times=2))))
    assert said(player, *[asked("hi")] * 4) == ["one", "two", "two", "hi"]
    assert said(player, asked("go", results=("found", "lost"))) == ["lost"]
    assert said(player, asked("")) == ["Nothing was said."]


def test_every_conversation_has_the_turns_to_itself() -> None:
    player = Player(Script(turns=(Turn(text="one"), Turn(text="two"))))
    a, b = asked(conversation="a"), asked(conversation="b")
    assert said(player, a, b, b, a) == ["one", "one", "two", "two"]


def test_a_shared_script_is_used_up_by_all() -> None:
    player = Player(Script(turns=(Turn(text="one"), Turn(text="two")), shared=True))
    a, b = asked(conversation="a"), asked(conversation="b")
    assert said(player, a, b, a) == ["one", "two", "hi"]


def test_the_first_turn_that_fits_is_taken() -> None:
    weather = When(user="weather")
    turns = (
        Turn(when=weather, calls=(ToolCall(name="look"),)),
        Turn(when=weather, text="Rain."),
        Turn(text="Other."),
    )
    player = Player(Script(turns=turns, default=Turn(text="Over.")))
    asks = asked("the weather?")
    assert said(player, asked("hi"), asks, asks, asks) == ["Other.", "", "Rain.", "Over."]


def test_a_turn_for_ever() -> None:
    player = Player(Script(turns=(Turn(when=When(user="x"), text="always", times=None), Turn(text="once"))))
    assert said(player, asked("x"), asked("y"), asked("x"), asked("y")) == ["always", "once", "always", "y"]


def test_a_function_makes_turns_or_declines() -> None:
    def counts(request: Asked) -> Turn | None:
        return Turn(text=str(len(request.said))) if request.user == "count" else None

    player = Player(Script(turns=(counts, Turn(text="one"))))
    assert said(player, asked("count"), asked("hi"), asked("count")) == ["1", "one", "1"]


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        (When(), True),
        (When(user="lo wo"), True),
        (When(user="Lo wo"), False),
        (When(user_matches=r"^h.*d$"), True),
        (When(user_matches=r"^w"), False),
        (When(system="brief"), True),
        (When(system="long"), False),
        (When(tool_result="4"), True),
        (When(tool_result="5"), False),
        (When(after_tool=True), True),
        (When(after_tool=False), False),
        (When(tool="look"), True),
        (When(tool="loo"), False),
        (When(model="m"), True),
        (When(model="n"), False),
        (When(dialect="chat"), True),
        (When(dialect="messages"), False),
        (When(user="hello", model="n"), False),
    ],
)
def test_conditions(when: When, holds: bool) -> None:
    request = asked("hello world", results=("42",), system="Be brief.", tools=("look",))
    assert when.holds(request) is holds


def test_a_script_as_json_is_the_script_in_python() -> None:
    written = [
        {"text": "a", "thinking": "b", "calls": [{"name": "c", "arguments": {"d": [1]}}], "stop": "length"},
        {"usage": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4, "reasoning": 5}, "piece": 2},
        {"when": {"user": "x", "after_tool": False}, "times": None, "delay": 1, "pace": {"bytes": 1, "seconds": 0.5}},
        {"fault": {"kind": "refuse", "status": 429, "headers": {"retry-after": "2"}}},
        {"fault": {"kind": "hang", "after_event": 2, "ping_seconds": 1.5}},
        {"fault": {"kind": "cut", "after_byte": 10, "reset": True}},
        {"fault": {"kind": "garble", "event": 3}},
        {"fault": {"kind": "fail", "after_event": 3, "status": 500, "message": "m"}},
    ]
    turns = (
        Turn(text="a", thinking="b", calls=(ToolCall(name="c", arguments={"d": [1]}),), stop="length"),
        Turn(usage=Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5), piece=2),
        Turn(when=When(user="x", after_tool=False), times=None, delay=1, pace=Pace(bytes=1, seconds=0.5)),
        Turn(fault=Refuse(status=429, headers={"retry-after": "2"})),
        Turn(fault=Hang(after_event=2, ping_seconds=1.5)),
        Turn(fault=Cut(after_byte=10, reset=True)),
        Turn(fault=Garble(event=3)),
        Turn(fault=Fail(after_event=3, status=500, message="m")),
    )
    assert read_script(json.dumps(written)) == Script(turns=turns)
    more = {"turns": written, "shared": True, "default": {"text": "z"}}
    assert read_script(json.dumps(more)) == Script(turns=turns, shared=True, default=Turn(text="z"))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('{"turns": [', "the text"),
        ("3", "the text"),
        ('[{"txt": "a"}]', "turns[0].txt"),
        ('{"turns": [{}, {"text": 3}]}', "turns[1].text"),
        ('[{"fault": {"kind": "explode"}}]', "'refuse', 'hang', 'cut', 'garble', 'fail'"),
        ('[{"fault": {"kind": "refuse"}}]', "turns[0].fault.refuse.status"),
        ('[{"fault": {"kind": "refuse", "status": 200}}]', "from 400 to 599"),
        ('[{"fault": {"kind": "cut", "after_byte": -1}}]', "counted from 0"),
        ('[{"fault": {"kind": "hang", "ping_seconds": 0}}]', "above 0"),
        ('[{"times": 0}]', "'times' must be at least 1"),
        ('[{"piece": 0}]', "'piece' must be at least 1"),
        ('[{"delay": -1}]', "'delay' must not be below 0"),
        ('[{"pace": {"bytes": 0, "seconds": 1}}]', "at least 1 byte"),
        ('[{"when": {"user_matches": "("}}]', "regular expression"),
        ('[{"stop": "enough"}]', "turns[0].stop"),
    ],
)
def test_a_bad_script_is_refused_in_a_sentence(written: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        read_script(written)
    assert words in str(refused.value)
    path = tmp_path / "script.json"
    path.write_text(written)
    with pytest.raises(BadInput, match=r"script\.json") as refused:
        load_script(path)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nothing\.json cannot be read"):
        load_script(tmp_path / "nothing.json")
