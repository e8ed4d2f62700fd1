"""Turns what `claude` prints into steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manydesks.runner.providers.base import Progress, Step, Text, ToolCall, ToolResult
from manydesks.runner.providers.claude_cli.command import TOOL_PREFIX

#: the model's name on texts that the program made itself: errors, and what a slash command says
_NO_MODEL = "<synthetic>"


class Hearing:
    """One turn's ear. The last text is held back: it may be the answer, which is sent and not recorded here."""

    def __init__(self) -> None:
        self._held: str | None = None
        self._calls: dict[str, tuple[str, float]] = {}
        #: what the program itself said last
        self.program: str = ""

    @property
    def at_work(self) -> bool:
        """A tool is being used."""
        return bool(self._calls)

    def steps(self, line: Mapping[str, Any], at: float) -> Iterator[Step]:
        """`at` is a clock in seconds, for how long tools took."""
        match line.get("type"):
            case "stream_event":
                yield from _progress(line)
            case "assistant":
                yield from self._said(line, at)
            case "user":
                yield from self._results(line, at)

    def answer(self, text: str) -> Iterator[Step]:
        """The turn's answer is this: what was held back and is something else was said on the way."""
        held, self._held = self._held, None
        if held is not None and held.strip() != text.strip():
            yield Text(text=held)
        self._calls.clear()

    def _said(self, line: Mapping[str, Any], at: float) -> Iterator[Step]:
        message = line.get("message")
        if not isinstance(message, Mapping):
            return
        inner = line.get("parent_tool_use_id") is not None
        for block in _blocks(message):
            text = block.get("text")
            if block.get("type") == "text" and isinstance(text, str) and text:
                if message.get("model") == _NO_MODEL:
                    self.program = text
                elif inner:
                    yield Text(text=text)
                else:
                    yield from self._release()
                    self._held = text
            elif block.get("type") == "tool_use":
                yield from self._release()
                id, tool = str(block.get("id")), str(block.get("name")).removeprefix(TOOL_PREFIX)
                arguments = block.get("input")
                self._calls[id] = (tool, at)
                yield ToolCall(id=id, tool=tool, arguments=arguments if isinstance(arguments, Mapping) else {})

    def _results(self, line: Mapping[str, Any], at: float) -> Iterator[Step]:
        message = line.get("message")
        for block in _blocks(message) if isinstance(message, Mapping) else ():
            if block.get("type") != "tool_result":
                continue
            id = str(block.get("tool_use_id"))
            tool, begun = self._calls.pop(id, ("unknown", at))
            ok = block.get("is_error") is not True
            duration = max(round((at - begun) * 1000), 0)
            yield ToolResult(id=id, tool=tool, ok=ok, result=_plain(block.get("content")), duration_ms=duration)

    def _release(self) -> Iterator[Step]:
        if self._held is not None:
            yield Text(text=self._held)
            self._held = None


def _progress(line: Mapping[str, Any]) -> Iterator[Step]:
    event = line.get("event")
    if not isinstance(event, Mapping) or line.get("parent_tool_use_id") is not None:
        return
    delta = event.get("delta")
    if event.get("type") == "content_block_delta" and isinstance(delta, Mapping) and delta.get("type") == "text_delta":
        text = delta.get("text")
        if isinstance(text, str) and text:
            yield Progress(text=text)


def _blocks(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping):
            yield block


def _plain(content: Any) -> Any:
    """The result of a tool without its pictures, which are in the conversation and too large for a record."""
    if not isinstance(content, list):
        return content
    parts = [
        block["text"] if isinstance(block.get("text"), str) else f"({block.get('type')})"
        for block in content
        if isinstance(block, Mapping)
    ]
    return "\n".join(parts)
