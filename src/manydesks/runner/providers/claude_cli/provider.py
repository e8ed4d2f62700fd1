"""The provider `claude`: a batch in, steps out, over a session's process."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.mail import Inbound
from manydesks.runner.prompt import Prompt, Reader, prompts
from manydesks.runner.providers.base import Answer, Failed, Station, Step, Turn, Usage
from manydesks.runner.providers.claude_cli.exchange import PDF, Exchange, Lost, failed
from manydesks.runner.providers.claude_cli.failure import Verdict
from manydesks.runner.providers.claude_cli.options import read_options
from manydesks.runner.providers.claude_cli.session import NotReady, Session, shielded

log = logging.getLogger(__name__)

#: slash commands that claude carries out itself
COMMANDS = frozenset({"clear", "compact", "context", "cost", "usage"})
TAKES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", PDF})

LOST = (
    "The earlier conversation of this session is not there any more, so this is a new one. What you wrote into your "
    "memory and your working folder is still there."
)


class Claude:
    """A `Provider`, `Pushable`, `Preparable` and `Owing`.

    * A turn is one prompt and its answer; a slash command is one more. What is pushed while it goes on is read between
      two steps of the same answer, or answered right after it: the turn ends when everything that was handed over is
      answered, or with the first failure. An `Answer` names exactly the messages that the model has read.
    * Closing the generator early interrupts claude; the process stays for the next turn.
    * The continuation is the id of claude's session. One that is not there any more begins a new conversation, and the
      agent is told.
    """

    def __init__(
        self,
        station: Station,
        *,
        clock: Clock | None = None,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._options = read_options(station.options)
        self._station = station
        self._clock = clock or SystemClock()
        self._new_uuid = new_uuid
        self._session = Session(station, self._options, new_uuid=new_uuid)
        self._reader = Reader(
            agent=station.agent, zone=self._options.zone, inbox=station.inbox, takes=TAKES, commands=COMMANDS
        )
        self._exchange: Exchange | None = None
        self._takes_more = False

    @property
    def pid(self) -> int | None:
        """The process that is kept warm; None: there is none now."""
        return self._session.pid

    async def prepare(self, continuation: str | None) -> None:
        with suppress(NotReady):  # the turn finds the same, and says so
            await self._session.ready(continuation)

    async def turn(self, batch: Turn) -> AsyncIterator[Step]:
        if not any(message.trigger for message in batch.messages):
            yield Answer(text="", answers=tuple(message.id for message in batch.messages))
            return
        try:
            async with aclosing(self._turn(batch)) as steps:
                async for step in steps:
                    yield step
        finally:
            exchange, self._exchange, self._takes_more = self._exchange, None, False
            if exchange is not None and exchange.given:
                # closed, cancelled or failed: whatever it was, claude must not go on with it by itself
                await shielded(self._session.interrupt(set(exchange.given)))
            if not self._options.warm:
                await self._session.end()

    async def push(self, messages: tuple[Inbound, ...]) -> None:
        """Hand over more messages. Those that come too late, are too long or are slash commands are left alone."""
        if not self._takes_more:
            return
        for prompt in await self._prompts(messages):
            exchange = self._exchange
            # an exchange with nothing left to answer is over, though its turn may not have noticed yet
            late = exchange is None or not exchange.given or not self._takes_more
            if exchange is None or late or prompt.command is not None or self._too_long(prompt):
                return
            await exchange.give(prompt)

    def owed(self) -> tuple[Usage, ...]:
        return self._session.settle()

    async def close(self) -> None:
        await self._session.close()

    async def _turn(self, batch: Turn) -> AsyncGenerator[Step, None]:
        continuation = batch.continuation
        written = await self._prompts(batch.messages)
        for prompt in written:
            if (refusal := self._too_long(prompt)) is not None:
                yield failed(refusal, _longest(_rows(prompt, batch)))
                return
            async with aclosing(self._said(prompt, batch, continuation, last=prompt is written[-1])) as steps:
                async for step in steps:
                    yield step
                    if isinstance(step, Failed):
                        return
            continuation = self._session.id

    async def _said(
        self, prompt: Prompt, batch: Turn, continuation: str | None, *, last: bool
    ) -> AsyncGenerator[Step, None]:
        """One prompt, a second time if claude turns out to have lost its conversation."""
        lost = False
        while True:
            try:
                begun = await self._session.ready(continuation, fresh=lost)
            except NotReady as error:
                yield failed(error.verdict, prompt.messages[0])
                return
            if begun or lost:
                log.info("The conversation of agent '%s' is lost, a new one begins", self._station.agent)
                [prompt, *_] = await self._prompts(_rows(prompt, batch), LOST)
            self._exchange = exchange = Exchange(
                self._session,
                clock=self._clock,
                silence_seconds=self._options.silence_seconds,
                new_uuid=self._new_uuid,
            )
            self._takes_more = last and self._options.warm
            try:
                async with aclosing(exchange.steps(prompt, alone=not self._options.warm)) as steps:
                    async for step in steps:
                        yield step
                return
            except Lost:
                # what was pushed meanwhile is the next turn's
                self._exchange = None
                if lost:
                    raise
                lost = True

    async def _prompts(self, messages: tuple[Inbound, ...], *notices: str) -> tuple[Prompt, ...]:
        return await asyncio.to_thread(prompts, messages, reader=self._reader, now=self._clock.now(), notices=notices)

    def _too_long(self, prompt: Prompt) -> Verdict | None:
        size, most = len(prompt.text.encode(errors="replace")), self._options.max_prompt_bytes
        if size <= most:
            return None
        reason = f"the prompt would have {size} bytes; claude is given at most {most} (option max_prompt_bytes)"
        return Verdict(failure="permanent", reason=reason)


def _rows(prompt: Prompt, batch: Turn) -> tuple[Inbound, ...]:
    return tuple(message for message in batch.messages if message.id in prompt.messages)


def _longest(rows: tuple[Inbound, ...]) -> str:
    return max(rows, key=lambda message: len(str(message.content))).id
