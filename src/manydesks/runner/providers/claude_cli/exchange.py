"""One prompt until its answer, and what was pushed meanwhile until its own."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any

from manydesks.domain.clock import Clock
from manydesks.runner.prompt import Prompt
from manydesks.runner.providers.base import Answer, Failed, Step
from manydesks.runner.providers.claude_cli import failure
from manydesks.runner.providers.claude_cli.failure import Retry, Verdict
from manydesks.runner.providers.claude_cli.hearing import Hearing
from manydesks.runner.providers.claude_cli.process import LineTooLong
from manydesks.runner.providers.claude_cli.session import Session, shielded

#: a pause between two tries that is longer than this is the office's to keep, not claude's
MAX_PAUSE = 30.0
#: while a tool is at work, which has limits of its own, silence means nothing
_TOOL_SECONDS = 86_400.0

PDF = "application/pdf"


class Lost(Exception):
    """claude does not find the conversation that it was to go on with; nothing was read."""


class Exchange:
    """Over a session that is ready. `steps` runs once."""

    def __init__(
        self, session: Session, *, clock: Clock, silence_seconds: float, new_uuid: Callable[[], uuid.UUID]
    ) -> None:
        self._session = session
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._new_uuid = new_uuid
        self._hearing = Hearing()
        self._read: set[str] = set()
        self._retry: Retry | None = None
        #: why a turn that nobody asked for failed; the reason, if the process ends next
        self._error: str | None = None
        self._command: str | None = None
        #: inputs that were handed over and are not answered: id → messages
        self.given: dict[str, tuple[str, ...]] = {}

    async def give(self, prompt: Prompt) -> None:
        """Hand over one input."""
        id = str(self._new_uuid())
        self.given[id] = prompt.messages
        line = {"type": "user", "uuid": id, "message": {"role": "user", "content": _content(prompt)}}
        await self._session.process.write(line)

    async def steps(self, prompt: Prompt, *, alone: bool) -> AsyncGenerator[Step, None]:
        """Until everything given is answered, or the first failure; `alone`: nothing can be pushed.

        Raises `Lost`.
        """
        self._command = prompt.command
        for usage in self._session.settle():
            yield usage
        await self.give(prompt)
        if alone:
            self._session.process.finish_input()
        while self.given:
            line, verdict = await self._line()
            if line is None:
                for step in (*self._hearing.answer(""), *self._session.settle()):
                    yield step
            elif line["type"] == "result":
                for usage in self._session.spending.result(line):
                    yield usage
                covered = self._covered(line)
                verdict = failure.of_result(line, self._retry)
                if covered and verdict is None:
                    for step in self._answered(line, covered):
                        yield step
                elif covered:
                    for step in self._hearing.answer(""):
                        yield step
                else:
                    # A turn of claude's own, after a program in the background: nobody's answer, and nobody's failure.
                    self._error, verdict = None if verdict is None else verdict.reason, None
            else:
                verdict = await self._heed(line)
                for step in self._hearing.steps(line, self._clock.monotonic() / 1000):
                    yield step
            if verdict is not None:
                ending = self._failed(verdict, line)
                # before it is said: with the failure the run is over, and nothing can be booked to it any more
                given, self.given = set(self.given), {}
                if given:
                    await shielded(self._session.interrupt(given))
                for usage in self._session.settle():
                    yield usage
                yield ending
                return

    async def _line(self) -> tuple[dict[str, Any] | None, Verdict | None]:
        """The next line, or why there is none."""
        session = self._session
        try:
            line = await session.process.line(_TOOL_SECONDS if self._hearing.at_work else self._silence_seconds)
        except TimeoutError:
            return None, Verdict(failure="transient", reason=f"claude said nothing for {self._silence_seconds:g} s")
        except LineTooLong:
            await session.end(now=True)
            return None, Verdict(failure="transient", reason="claude printed a line longer than 64 MiB")
        if line is not None:
            if failure.is_lost(line) and not self._read:
                raise Lost
            return line, None
        process = session.process
        code = await session.end()
        return None, failure.of_end(code, process.tail(), self._error)

    async def _heed(self, line: Mapping[str, Any]) -> Verdict | None:
        """What a line means besides its steps."""
        match line["type"]:
            case "stream_event":
                event = line.get("event")
                self._session.spending.event(event if isinstance(event, Mapping) else {})
            case "user" if line.get("isReplay") is True:
                self._read.add(str(line.get("uuid")))
            case "system" if line.get("subtype") == "status" and line.get("status") == "compacting":
                await self._session.archive(self._clock.now())
            case "system" if (retry := failure.retry_of(line)) is not None:
                self._retry = retry
                if retry.delay > MAX_PAUSE:
                    reason = f"the model's service answered {retry.status or 'nothing'} and asks for {retry.delay:g} s"
                    return Verdict(failure="transient", reason=reason, retry_after=retry.delay)
        return None

    def _answered(self, result: Mapping[str, Any], covered: list[str]) -> Iterator[Step]:
        text = result.get("result")
        if not isinstance(text, str):
            text = ""
        if not text and self._command is not None:
            # a slash command is never answered in silence
            text = self._hearing.program or f"/{self._command}: done."
        yield from self._hearing.answer(text)
        self._session.answered(str(result.get("session_id") or self._session.id))
        self._retry = self._command = None
        answers = tuple(message for id in covered for message in self.given.pop(id))
        yield Answer(text=text, answers=answers, continuation=self._session.id)

    def _covered(self, result: Mapping[str, Any]) -> list[str]:
        """Which inputs a result is about: those that claude names, else those that it repeated as read."""
        named = result.get("user_message_uuids")
        ids = set(map(str, named)) if isinstance(named, list) and named else self._read
        return [id for id in self.given if id in ids]

    def _failed(self, verdict: Verdict, line: Mapping[str, Any] | None) -> Failed:
        """About the oldest message that was read, else the oldest."""
        id = next((id for id in self.given if id in self._read), next(iter(self.given)))
        message = self.given[id][0]
        if line is not None and line["type"] == "result":
            # claude is done with these, so there is nothing to interrupt
            for id in self._covered(line):
                del self.given[id]
        return failed(verdict, message)


def failed(verdict: Verdict, message: str) -> Failed:
    return Failed(failure=verdict.failure, reason=verdict.reason, message=message, retry_after=verdict.retry_after)


def _content(prompt: Prompt) -> str | list[dict[str, Any]]:
    if not prompt.files:
        return prompt.text
    parts: list[dict[str, Any]] = [{"type": "text", "text": prompt.text}]
    for file in prompt.files:
        data = base64.b64encode(file.data).decode()
        kind = "document" if file.mime == PDF else "image"
        parts.append({"type": kind, "source": {"type": "base64", "media_type": file.mime, "data": data}})
    return parts
