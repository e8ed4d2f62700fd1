"""A provider's steps as rows. Whatever a provider says fits into a row: too long is cut and marked, never refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.mail import Step as StepRow
from manydesks.mailbox import validation
from manydesks.runner.providers.base import Failed, Text, ToolCall, ToolResult, Usage

#: one text within a step
MAX_TEXT = 100_000


def recorded(step: Text | ToolCall | ToolResult | Usage | Failed, *, run: str, at: int) -> StepRow:
    match step:
        case Text():
            return _row("text", run, at, {"text": step.text})
        case ToolCall():
            return _row("tool_call", run, at, {"id": step.id, "tool": step.tool, "arguments": step.arguments})
        case ToolResult():
            data = {"id": step.id, "tool": step.tool, "ok": step.ok, "result": step.result}
            return _row("tool_result", run, at, {**data, "duration_ms": step.duration_ms})
        case Usage():
            tokens = {"input": step.input, "output": step.output}
            cache = {"cache_read": step.cache_read, "cache_write": step.cache_write}
            return _row("usage", run, at, {**tokens, **cache, "cost_usd": step.cost_usd, "model": step.model})
        case Failed():
            data = {"message": step.message, "class": step.failure, "reason": step.reason}
            return _row("error", run, at, {**data, "retry_after": step.retry_after})


def clean(text: str) -> str:
    """Text that every file takes: halves of characters, as broken encoders make them, become question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def clipped(text: str, most: int) -> str:
    """At most `most` characters, saying so when something is missing."""
    text = clean(text)
    if len(text) <= most:
        return text
    mark = f"… ({len(text)} characters in all)"
    return text[: most - len(mark)] + mark


def _row(type: str, run: str, at: int, data: Mapping[str, Any]) -> StepRow:
    fitting = {key: _fit(value) for key, value in data.items()}
    try:
        validation.pack(fitting)
    except validation.RowError as error:
        # many long texts, or nested beyond reason: the step stays visible, its data does not
        fitting = {
            key: value for key, value in fitting.items() if isinstance(value, bool | int) or key in ("id", "tool")
        }
        fitting["omitted"] = str(error)
    return StepRow(run=run, at=at, type=type, data=fitting)


def _fit(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return clipped(value, MAX_TEXT)
    if depth > validation.MAX_DEPTH:
        return clipped(repr(type(value)), 200)
    if isinstance(value, Mapping):
        return {clipped(str(key), 1_000): _fit(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fit(item, depth + 1) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return clipped(str(value), MAX_TEXT)
