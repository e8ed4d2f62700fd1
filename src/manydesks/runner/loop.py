"""The loop at the desk: poll the mailbox, drive the provider, write what it says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol, cast

from manydesks.domain.attachment import MAX_FILES
from manydesks.domain.clock import Clock
from manydesks.domain.errors import MailboxError, RunnerCrashed
from manydesks.domain.ids import new_id
from manydesks.domain.mail import Ack, Content, Control, Inbound, Outbound, Written
from manydesks.domain.mail import Step as StepRow
from manydesks.mailbox.base import DeskSide
from manydesks.mailbox.validation import MAX_REASON, MAX_RETRY_AFTER
from manydesks.runner.answers import Answers
from manydesks.runner.instructions import workspace_fault
from manydesks.runner.overlong import SAID_CHARS, shortened
from manydesks.runner.providers.base import Answer, Failed, Progress, Provider, Step, Turn
from manydesks.runner.pushing import Pushing
from manydesks.runner.recording import clean, clipped, recorded
from manydesks.runner.room import when_there_is_room
from manydesks.runner.sending import with_files
from manydesks.runner.tools import registry
from manydesks.runner.tools.base import Means, Tool, Tools

log = logging.getLogger(__name__)
#: where a run begins and ends among what its programs print
runs = logging.getLogger("manydesks.runner.runs")

HEARTBEAT_SECONDS = 5.0
Exit = Literal["stopped", "idle"]
_After = Literal["goes on", "ended"]


class Nudge(Protocol):
    """What `asyncio.Event` offers of itself to the loop."""

    async def wait(self) -> object: ...

    def is_set(self) -> bool: ...

    def clear(self) -> None: ...


class Serving(Protocol):
    """Whoever serves the tools to programs at the desk: `ToolServer`."""

    def turn(self, tools: Tools, message: str) -> AbstractContextManager[None]:
        """While it lasts, calls from outside are calls of this turn, for this message."""


class Runner:
    """One desk's loop. It owns the desk's side of the mailbox, which is open already.

    * Rows of one (run, fence) are one turn, oldest first; the next turn begins when it has ended.
    * An answer and the acks of what it answers are one write; steps are written as they come.
    * What a provider raises becomes a transient failure of the first message that is not acknowledged yet.
      `RunnerCrashed`, cancellation and a mailbox that cannot be written end the loop and leave no ack behind. A full
      disk is waited out: what was said, and paid for, is written when there is room.
    * The host's `stop` ends the loop after the turn; `stop` with `{"now": true}` ends the turn too, without acks.
      Words said before the loop began are not for this runner.
    """

    def __init__(
        self,
        mailbox: DeskSide,
        provider: Provider,
        *,
        agent: str,
        clock: Clock,
        nudge: Nudge,
        on_output: Callable[[], None],
        on_progress: Callable[[str], None] = lambda text: None,
        idle_seconds: float,
        poll_seconds: float,
        name: str | None = None,
        continuation: str | None = None,
        tools: Mapping[str, Tool] | None = None,
        means: Means | None = None,
        tool_server: Serving | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        sure_of_nudges: bool = False,
    ) -> None:
        """`sure_of_nudges`: whoever puts something into the mailbox nudges, and no nudge is ever lost."""
        self._mailbox = mailbox
        self._provider = provider
        self._agent = agent
        self._name = name or agent
        self._clock = clock
        self._nudge = nudge
        self._on_output = on_output
        self._on_progress = on_progress
        self._idle_ms = idle_seconds * 1000
        self._poll_seconds = poll_seconds
        self._continuation = continuation
        self._tools = registry.find() if tools is None else tools
        self._answers = Answers()
        # what only the loop can give: the mailbox's numbers, and the host's words
        self._means = replace(means or Means(), find=self._find, answer=self._answers.wait)
        self._tool_server = tool_server
        self._heartbeat_seconds = heartbeat_seconds
        self._sure_of_nudges = sure_of_nudges
        self._control = 0
        self._stop = False
        self._turn: asyncio.Task[None] | None = None

    async def run(self) -> Exit:
        """Until the host says stop, or nothing came for the idle time."""
        for word in await asyncio.to_thread(self._mailbox.controls, 0):
            self._control = word.seq
        last_work = self._clock.monotonic()
        while True:
            # cleared before the look, so a nudge that comes while looking causes another look
            self._nudge.clear()
            words, rows = await asyncio.to_thread(self._look)
            self._hear(words)
            if self._stop:
                return "stopped"
            if rows:
                batch = _first_group(rows)
                is_all = await self._watched(batch) and len(batch) == len(rows)
                last_work = self._clock.monotonic()
                if not (is_all and self._sure_of_nudges):
                    continue
            rest_ms = self._idle_ms - (self._clock.monotonic() - last_work)
            if self._nudge.is_set():
                continue
            # Nothing is awaited between that look at the nudge and the end: a nudge in this loop is never lost.
            if rest_ms <= 0:
                return "idle"
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nudge.wait(), min(self._poll_seconds, rest_ms / 1000))

    def _look(self) -> tuple[list[Control], list[Inbound]]:
        """What there is; if there is work, the host is shown that somebody has begun with it.

        Whatever the host says after this look is heard: it nudges, and the turn has an ear for that.
        """
        words, rows = self._mailbox.look(self._control)
        if rows:
            self._mailbox.heartbeat()
        return words, rows

    def _hear(self, words: list[Control]) -> bool:
        """Take the host's words to heart; True when the turn has to end now."""
        now = False
        for word in words:
            self._control = word.seq
            if word.verb == "stop":
                self._stop = True
                now = now or word.data.get("now") is True
            elif word.verb == "answer":
                self._answers.say(word.data)
        return now

    async def _find(self, number: int) -> str | None:
        return await asyncio.to_thread(self._mailbox.find, number)

    async def _watched(self, batch: tuple[Inbound, ...]) -> bool:
        """One turn, with a heartbeat beside it and an ear for the host. False: a look may find something, also if
        nobody nudges from now on."""
        run = batch[0].run
        runs.info("run %s begins: %s", run, ", ".join(message.id for message in batch))
        try:
            return await self._turned(batch)
        finally:
            runs.info("run %s ends", run)

    async def _turned(self, batch: tuple[Inbound, ...]) -> bool:
        open_messages = {message.id: message for message in batch}
        toolbox = self._toolbox(batch)
        turn = asyncio.create_task(self._work(batch, open_messages, toolbox))
        pushing = Pushing(self._provider, batch, open_messages, toolbox)
        ear: asyncio.Task[object] | None = None
        nudged = False
        try:
            while True:
                ear = ear or asyncio.ensure_future(self._nudge.wait())
                await asyncio.wait({turn, ear}, timeout=self._heartbeat_seconds, return_when=asyncio.FIRST_COMPLETED)
                if turn.done():
                    break
                await asyncio.to_thread(self._mailbox.heartbeat)
                if ear.done():
                    # cleared before the look; messages that nobody took are looked for after the turn in any case
                    self._nudge.clear()
                    ear, nudged = None, True
                if self._hear(await asyncio.to_thread(self._mailbox.controls, self._control)):
                    return False
                if pushing.possible:
                    pushing.offer(await asyncio.to_thread(self._mailbox.waiting))
        finally:
            if ear is not None:
                ear.cancel()
            await pushing.end()
            if not turn.done():
                turn.cancel()
                with suppress(asyncio.CancelledError):
                    await turn
                await self._book(batch[0].run)
        await turn
        return not nudged and not open_messages

    async def _book(self, run: str) -> None:
        """What a turn that was ended early had spent."""
        owed = getattr(self._provider, "owed", None)
        if owed is not None and (steps := [recorded(usage, run=run, at=self._clock.now()) for usage in owed()]):
            await self._write(steps=steps)

    def _toolbox(self, batch: tuple[Inbound, ...]) -> registry.Toolbox:
        async def send(message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
            written = await self._write(messages=[self._outbound(message, kind, content, id=id)])
            return written.messages[0]

        return registry.Toolbox(self._tools, batch, send, self._means)

    async def _work(
        self, batch: tuple[Inbound, ...], open_messages: dict[str, Inbound], toolbox: registry.Toolbox
    ) -> None:
        turn = Turn(
            agent=self._agent,
            name=self._name,
            messages=batch,
            tools=toolbox,
            continuation=self._continuation,
        )
        server, workspace = self._tool_server, self._means.workspace
        if workspace is not None and (fault := workspace_fault(workspace)) is not None:
            await self._fail(Failed(failure="permanent", reason=fault, message=batch[0].id), open_messages)
            return
        try:
            # a provider is an asynchronous generator, whatever else its type allows
            steps = self._provider.turn(turn)
            with server.turn(turn.tools, batch[0].id) if server is not None else nullcontext():
                async with aclosing(cast("_Closing", steps)):
                    async for step in steps:
                        if await self._take(step, batch[0].run, open_messages) == "ended":
                            return
            if all(message.id in open_messages for message in batch):
                await self._crash("the provider ended its turn without an answer", open_messages)
        except (RunnerCrashed, MailboxError):
            raise
        except Exception as error:
            # Not swallowed: it becomes the recorded failure of the message at hand, and the host retries it.
            log.exception("The provider of agent '%s' raised in run %s", self._agent, batch[0].run)
            if not open_messages:
                return
            await self._crash(f"{type(error).__name__}: {error}", open_messages)

    async def _take(self, step: Step, run: str, open_messages: dict[str, Inbound]) -> _After:
        match step:
            case Answer():
                return await self._answer(step, open_messages)
            case Failed():
                return await self._fail(step, open_messages)
            case Progress():
                self._on_progress(step.text)
                return "goes on"
            case _:
                await self._write(steps=[recorded(step, run=run, at=self._clock.now())])
                return "goes on"

    async def _answer(self, answer: Answer, open_messages: dict[str, Inbound]) -> _After:
        unknown = [id for id in answer.answers if id not in open_messages]
        if unknown or len(set(answer.answers)) != len(answer.answers) or not answer.answers:
            raise ValueError(f"the provider answered messages that are not open: {', '.join(unknown) or 'none given'}")
        id = new_id("out")
        text = clean(answer.text)
        # the whole of a long one is a file too
        text, files = await with_files(text, self._means, id, most=MAX_FILES - (len(text) > SAID_CHARS))
        if len(text) > SAID_CHARS:
            text, whole = await asyncio.to_thread(shortened, text, self._means.outbox, id)
            files += whole
        content = {"text": text, "files": files}
        covered = [open_messages[id] for id in answer.answers]
        at = self._clock.now()
        # an empty text is an agent that chose to say nothing
        messages = [self._outbound(covered[0], "chat", content, id=id)] if answer.text.strip() else []
        acks = [Ack(message=row.id, run=row.run, fence=row.fence, status="completed", at=at) for row in covered]
        state = {"continuation": answer.continuation} if answer.continuation is not None else None
        await self._write(messages=messages, acks=acks, state=state)
        if answer.continuation is not None:
            self._continuation = answer.continuation
        for row in covered:
            del open_messages[row.id]
        return "goes on"

    async def _fail(self, failed: Failed, open_messages: dict[str, Inbound]) -> _After:
        row = open_messages.get(failed.message)
        if row is None:
            raise ValueError(f"the provider failed a message that is not open: {failed.message}")
        at = self._clock.now()
        ack = Ack(
            message=row.id,
            run=row.run,
            fence=row.fence,
            status="failed",
            at=at,
            failure=failed.failure,
            reason=clipped(failed.reason, MAX_REASON),
            retry_after=None if failed.retry_after is None else min(max(failed.retry_after, 0), MAX_RETRY_AFTER),
        )
        await self._write(acks=[ack], steps=[recorded(failed, run=row.run, at=at)])
        return "ended"

    async def _crash(self, what: str, open_messages: dict[str, Inbound]) -> None:
        first = next(iter(open_messages))
        failed = Failed(failure="transient", reason=clipped(f"crash: {what}", MAX_REASON), message=first)
        await self._fail(failed, open_messages)

    async def _write(
        self,
        *,
        messages: Sequence[Outbound] = (),
        acks: Sequence[Ack] = (),
        steps: Sequence[StepRow] = (),
        state: Mapping[str, str | None] | None = None,
    ) -> Written:
        return await when_there_is_room(lambda: self._write_now(messages, acks, steps, state))

    async def _write_now(
        self,
        messages: Sequence[Outbound],
        acks: Sequence[Ack],
        steps: Sequence[StepRow],
        state: Mapping[str, str | None] | None,
    ) -> Written:
        call = partial(self._mailbox.write, messages=messages, acks=acks, steps=steps, state=state)
        write = asyncio.get_running_loop().run_in_executor(None, call)
        try:
            # A thread cannot be cancelled: a runner that has ended must not write any more, so it waits for its write.
            await asyncio.wait({write})
        except asyncio.CancelledError:
            await asyncio.wait({write})
            if write.exception() is None:
                self._on_output()
            raise
        written = write.result()
        self._on_output()
        return written

    def _outbound(self, message: Inbound, kind: str, content: Content, *, id: str | None = None) -> Outbound:
        return Outbound(
            id=id or new_id("out"),
            run=message.run,
            fence=message.fence,
            in_reply_to=message.id,
            at=self._clock.now(),
            kind=kind,
            content=content,
        )


class _Closing(Protocol):
    async def aclose(self) -> object: ...


def _first_group(rows: list[Inbound]) -> tuple[Inbound, ...]:
    """The rows of the oldest row's run and fence."""
    return tuple(row for row in rows if (row.run, row.fence) == (rows[0].run, rows[0].fence))
