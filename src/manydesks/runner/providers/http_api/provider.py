"""The loop with a model behind an API: ask, use tools, ask again, answer."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from manydesks.domain.clock import Clock
from manydesks.runner.providers.base import Answer, Failed, Progress, Step, Text, ToolCall, ToolResult, Turn
from manydesks.runner.providers.http_api.briefing import Briefing
from manydesks.runner.providers.http_api.context import Brief, Context
from manydesks.runner.providers.http_api.ending import note_of
from manydesks.runner.providers.http_api.failure import CallFailed, permanent
from manydesks.runner.providers.http_api.history import Past
from manydesks.runner.providers.http_api.memory import Memory, settled
from manydesks.runner.providers.http_api.options import Options
from manydesks.runner.providers.http_api.talk import Call, Entry, Exchange, Part, Result
from manydesks.runner.providers.http_api.wire import Reply
from manydesks.runner.recording import clipped
from manydesks.runner.tools.base import Outcome

#: characters of a tool's result that the model gets
MAX_RESULT = 100_000


class ApiProvider:
    """A `Provider` for one session.

    One answer covers the whole batch; its text goes to the first message that wants one. A turn whose messages want
    none is remembered, and asks nobody.
    """

    def __init__(self, context: Context, memory: Memory, briefing: Briefing, *, options: Options, clock: Clock) -> None:
        self._context = context
        self._memory = memory
        self._briefing = briefing
        self._options = options
        self._clock = clock

    async def turn(self, batch: Turn) -> AsyncIterator[Step]:
        answers = _answers(batch)
        try:
            # closed here and not by chance: with it goes the connection
            async with aclosing(self._steps(batch, answers)) as steps:
                async for step in steps:
                    yield step
        except CallFailed as failed:
            if failed.usage is not None:
                yield failed.usage
            yield Failed(
                failure=failed.failure, reason=failed.reason, message=answers[0], retry_after=failed.retry_after
            )

    async def close(self) -> None:
        await self._context.close()

    async def _steps(self, batch: Turn, answers: tuple[str, ...]) -> AsyncGenerator[Step, None]:
        past = await self._memory.recall(batch.continuation)
        if past.exchanges and past.exchanges[-1].density is not None:
            self._context.density = past.exchanges[-1].density
        said = [await settled(lambda: self._briefing.batch(batch))]
        if not any(message.trigger for message in batch.messages):
            yield await self._answer("", answers, past, said)
            return
        system = await asyncio.to_thread(self._briefing.system)
        brief = Brief(system=system, tools=batch.tools.offered())
        taken = {call.id for exchange in past.exchanges for entry in exchange.entries for call in entry.calls()}
        for round in itertools.count():
            reply: Reply | None = None
            async with aclosing(self._context.ask(past, said, brief)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Reply):
                        reply = piece
                    else:
                        yield Progress(text=piece)
            assert reply is not None, "a line ends with a reply or raises"
            yield reply.usage
            past = self._context.past
            entry = Entry(role="model", parts=_distinct(reply, taken))
            # whether there are calls, and not what the server says about its end: servers differ. After any other end
            # the last call may be half of one
            if reply.stop != "end" or not entry.calls():
                note = note_of(reply, max_tokens=self._options.max_tokens)
                said.append(_kept(entry))
                text = entry.words() + (f"\n\n({note})" if note else "")
                yield await self._answer(text, answers, past, said)
                return
            if round == self._options.max_rounds:
                raise permanent(f"the model still called tools after {round} rounds, which is all that a turn may have")
            said.append(entry)
            if entry.words().strip():
                yield Text(text=entry.words())
            results: list[Part] = []
            for call in entry.calls():
                shown = call.arguments if isinstance(call.arguments, dict) else {"unreadable": call.arguments}
                yield ToolCall(id=call.id, tool=call.name, arguments=shown)
                begun = self._clock.monotonic()
                outcome = await batch.tools.call(call.name, call.arguments, message=answers[0])
                duration = self._clock.monotonic() - begun
                yield ToolResult(id=call.id, tool=call.name, ok=outcome.ok, result=outcome.result, duration_ms=duration)
                results.append(Result(id=call.id, ok=outcome.ok, text=_shown(outcome)))
            said.append(Entry(role="tools", parts=tuple(results)))

    async def _answer(self, text: str, answers: tuple[str, ...], past: Past, said: list[Entry]) -> Answer:
        exchange = Exchange(entries=tuple(said), density=self._context.density)
        return Answer(text=text, answers=answers, continuation=await self._memory.keep(past, exchange))


class Unready:
    """A `Provider` that cannot work as it was set up, and says so to whoever asks it."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def turn(self, batch: Turn) -> AsyncIterator[Step]:
        yield Failed(failure="permanent", reason=self._reason, message=_answers(batch)[0])

    async def close(self) -> None:
        """Nothing was opened."""


def _answers(batch: Turn) -> tuple[str, ...]:
    """All messages of the batch: those that want an answer first, since the first gets the text."""
    return tuple(message.id for message in sorted(batch.messages, key=lambda message: not message.trigger))


def _distinct(reply: Reply, taken: set[str]) -> tuple[Part, ...]:
    """The parts, with ids for calls that this conversation has not had: some servers count from 0 in every answer."""
    parts: list[Part] = []
    for part in reply.parts:
        if isinstance(part, Call):
            names: Iterable[str] = itertools.chain([part.id], (f"{part.id}_{number}" for number in itertools.count(2)))
            id = next(name for name in names if name not in taken)
            taken.add(id)
            part = replace(part, id=id)
        parts.append(part)
    return tuple(parts)


def _kept(entry: Entry) -> Entry:
    """The end of a turn, for later: without calls that nobody has made, and no thoughts that led to no word."""
    spoken = bool(entry.words().strip())
    return replace(entry, parts=tuple(part for part in entry.parts if spoken and not isinstance(part, Call)))


def _shown(outcome: Outcome) -> str:
    result: Any = outcome.result
    words = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    return clipped(words, MAX_RESULT) or "(nothing)"
