"""A run on tape: JSON lines, made from what a desk wrote, and played back by the provider `rehearsal`.

Each line is an object with a `type`: `text`, `tool_call`, `tool_result` and `usage` hold what the steps of the mailbox
hold, `answer` has the `text` and the number of `messages` that it answered, `error` the `class`, `reason` and
`retry_after` of a failure. Up to an answer or an error is a *take*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NoReturn

from manydesks.domain.errors import BadInput
from manydesks.domain.mail import FAILURES, Ack, Collected, Failure, Outbound, Step
from manydesks.runner.providers.base import Text, ToolCall, ToolResult, Usage

#: of one tape
MAX_BYTES = 32 << 20

Line = dict[str, Any]
Row = Outbound | Ack | Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    text: str
    #: how many messages it covered
    messages: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Failing:
    failure: Failure
    reason: str
    #: seconds
    retry_after: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Take:
    steps: tuple[Text | ToolCall | ToolResult | Usage, ...]
    #: None: the runner died there
    end: Answered | Failing | None


def lines_of(pages: Iterable[Collected], run: str) -> list[Line]:
    """What a desk wrote in one run, as the lines of a tape. What its tools sent is not there: their calls are."""
    rows: list[Row] = []
    for page in pages:
        rows += [*page.messages, *page.acks, *page.steps]
    rows = sorted((row for row in rows if row.run == run), key=attrgetter("seq"))
    lines: list[Line] = []
    written: list[Row] = []
    for row in rows:
        # the desk leaves out a number between two of its transactions; an answer is one with the acks that it covers
        if written and row.seq - written[-1].seq > 2:
            lines += _transaction(written)
            written = []
        written.append(row)
    return lines + _transaction(written)


def read_tape(text: str) -> tuple[Take, ...]:
    """The takes on a tape. Raises `BadInput` with one sentence about the first line that is none."""
    takes: list[Take] = []
    steps: list[Text | ToolCall | ToolResult | Usage] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = _read(json.loads(line))
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, _NoLineError) else "it is no JSON"
            raise BadInput(reason=f"line {number} of the recording cannot be played: {why}.") from None
        if isinstance(found, Answered | Failing):
            takes.append(Take(steps=tuple(steps), end=found))
            steps = []
        else:
            steps.append(found)
    if steps:
        takes.append(Take(steps=tuple(steps), end=None))
    if not takes:
        raise BadInput(reason="the recording is empty.")
    return tuple(takes)


def _transaction(rows: list[Row]) -> list[Line]:
    lines: list[Line] = []
    acks = [row for row in rows if isinstance(row, Ack)]
    for row in rows:
        # a failure is taken from its ack, which has all of it
        if isinstance(row, Step) and row.type != "error":
            lines.append({"type": row.type, **row.data})
    for ack in acks:
        if ack.status == "failed":
            lines.append({"type": "error", "class": ack.failure, "reason": ack.reason, "retry_after": ack.retry_after})
    if completed := [ack for ack in acks if ack.status == "completed"]:
        said = [str(row.content.get("text", "")) for row in rows if isinstance(row, Outbound)]
        lines.append({"type": "answer", "text": said[0] if said else "", "messages": len(completed)})
    return lines


class _NoLineError(ValueError):
    """The end of a sentence: why not."""


def _read(line: object) -> Text | ToolCall | ToolResult | Usage | Answered | Failing:
    if not isinstance(line, dict):
        raise _NoLineError("it is no object")
    # a step that was too long for its row has lost some of its fields
    match line.get("type"):
        case "text":
            return Text(text=_field(line, "text", str, ""))
        case "tool_call":
            arguments = _field(line, "arguments", dict, {})
            return ToolCall(id=_field(line, "id", str), tool=_field(line, "tool", str), arguments=arguments)
        case "tool_result":
            return ToolResult(
                id=_field(line, "id", str),
                tool=_field(line, "tool", str),
                ok=_field(line, "ok", bool),
                result=line.get("result"),
                duration_ms=_field(line, "duration_ms", int, 0),
            )
        case "usage":
            counts = {name: _field(line, name, int, None) for name in ("input", "output", "cache_read", "cache_write")}
            cost = _field(line, "cost_usd", (int, float), None)
            return Usage(**counts, cost_usd=cost, model=_field(line, "model", str, None))
        case "answer":
            return Answered(text=_field(line, "text", str), messages=max(1, _field(line, "messages", int, 1)))
        case "error":
            if line.get("class") not in FAILURES:
                raise _NoLineError(f"its class must be {', '.join(FAILURES)}")
            wait = _field(line, "retry_after", (int, float), None)
            reason = _field(line, "reason", str, None) or "as recorded"
            return Failing(failure=line["class"], reason=reason, retry_after=wait)
        case _:
            raise _NoLineError("its type must be text, tool_call, tool_result, usage, answer or error")


_NEEDED: Any = object()


def _field(line: Mapping[str, Any], name: str, kind: type | tuple[type, ...], default: Any = _NEEDED) -> Any:
    value = line.get(name)
    if value is None and default is not _NEEDED:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        _wrong(name, kind)
    return value


def _wrong(name: str, kind: type | tuple[type, ...]) -> NoReturn:
    words = {str: "a text", dict: "an object", bool: "true or false", int: "a whole number"}
    raise _NoLineError(f"its {name} must be {words.get(kind, 'a number') if isinstance(kind, type) else 'a number'}")
