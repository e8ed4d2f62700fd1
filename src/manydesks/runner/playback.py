"""Plays a recorded run back: the provider `rehearsal` with a `recording`.

Each message gets the next take: its texts, calls, results and usage, as they were, and its answer or failure. An answer
that covered several messages covers as many again, if so many have come. After the last take the first one follows. How
long things took is not repeated.

Calls of tools that say something new (`AGAIN`) are really made, so that others hear it again; they are the office's
own, and only write rows. Their recorded results are shown, unless a call that had worked fails now. All other calls are
shown as they were: what they did to files is not done again, nobody is asked again, and the numbers in edits and
reactions mean other messages by now.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Inbound
from manydesks.mailbox import walk
from manydesks.runner.providers.base import Answer, Failed, Step, ToolCall, ToolResult, Turn
from manydesks.runner.tape import MAX_BYTES, Answered, Failing, Take, read_tape
from manydesks.runner.tools.base import Outcome

#: the option that names the tape
RECORDING = "recording"
AGAIN = frozenset({"send_message", "send_card", "send_file", "send_to_agent"})

NO_END = "the recorded run had no end: its runner died there"


def recording_of(options: Mapping[str, Any]) -> str | None:
    """The tape's path in the workspace; None: there is none. Raises `BadInput` if that is no path."""
    path = options.get(RECORDING)
    if path is None:
        return None
    if not isinstance(path, str) or not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise BadInput(reason=f"the option '{RECORDING}' must be the path of a file in the agent's workspace.")
    return path


class Playback:
    """A `Provider` that says what another one said. Its continuation is how far the tape was played."""

    def __init__(self, workspace: Path, recording: str) -> None:
        self._workspace = workspace
        self._recording = recording

    async def turn(self, batch: Turn) -> AsyncIterator[Step]:
        try:
            takes, name = await asyncio.to_thread(self._read)
        except BadInput as error:
            yield Failed(failure="permanent", reason=str(error), message=batch.messages[0].id)
            return
        at = _position(batch.continuation, name)
        waiting = list(batch.messages)
        while waiting:
            message = waiting[0]
            if not message.trigger:
                yield Answer(text="", answers=(waiting.pop(0).id,))
                continue
            take = takes[at % len(takes)]
            at += 1
            async for step in self._steps(batch, message, take):
                yield step
            match take.end:
                case Answered(text=text, messages=count):
                    covered = _covered(waiting, count)
                    waiting = [row for row in waiting if row not in covered]
                    ids = tuple(row.id for row in covered)
                    yield Answer(text=text, answers=ids, continuation=f"{name}:{at}")
                case Failing(failure=failure, reason=reason, retry_after=after):
                    yield Failed(failure=failure, reason=reason, message=message.id, retry_after=after)
                    return
                case None:
                    yield Failed(failure="transient", reason=NO_END, message=message.id)
                    return

    async def close(self) -> None:
        """Nothing is kept."""

    async def _steps(self, batch: Turn, message: Inbound, take: Take) -> AsyncIterator[Step]:
        worked = {step.id for step in take.steps if isinstance(step, ToolResult) and step.ok}
        outcomes: dict[str, Outcome] = {}
        for step in take.steps:
            if isinstance(step, ToolResult) and (now := outcomes.get(step.id)) is not None and not now.ok:
                yield replace(step, ok=False, result=now.result)
                continue
            yield step
            if isinstance(step, ToolCall) and step.tool in AGAIN and step.id in worked:
                outcomes[step.id] = await batch.tools.call(step.tool, step.arguments, message=message.id)

    def _read(self) -> tuple[tuple[Take, ...], str]:
        """The takes, and a name that changes with the tape."""
        try:
            with (
                walk.opened(self._workspace, PurePosixPath(self._recording).parts) as handle,
                os.fdopen(handle, "rb", closefd=False) as file,
            ):
                data = file.read(MAX_BYTES + 1)
        except BadInput as error:
            raise BadInput(f"The recording '{self._recording}' cannot be played: {error}.") from None
        except OSError as error:
            raise BadInput(f"The recording '{self._recording}' cannot be read ({error.strerror}).") from None
        if len(data) > MAX_BYTES:
            raise BadInput(f"The recording '{self._recording}' has more than {MAX_BYTES} bytes.")
        return read_tape(data.decode(errors="replace")), hashlib.sha256(data).hexdigest()[:16]


def _position(continuation: str | None, name: str) -> int:
    """How many takes of this tape were played before this turn."""
    found = re.fullmatch(rf"{name}:([0-9]{{1,18}})", continuation or "")
    return int(found[1]) if found else 0


def _covered(waiting: Sequence[Inbound], count: int) -> list[Inbound]:
    """The first so many that want an answer."""
    return [row for row in waiting if row.trigger][:count]
