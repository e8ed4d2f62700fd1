"""`rehearsal`: no model, no key, no network; it obeys the lines of a message that begin with `!`, and echoes others.

| line | what it does |
|---|---|
| `!say TEXT` | answers exactly TEXT; several are joined by newlines |
| `!sleep SECONDS` | takes its time |
| `!fail transient\\|permanent [REASON]` | fails |
| `!fail_times N` | the first N attempts fail as transient, later ones go on |
| `!crash` | the runner dies; nothing is acknowledged |
| `!hang` | never ends by itself |
| `!tool NAME JSON` | calls a tool |
| `!usage IN OUT [COST]` | reports tokens, and money in USD |
| `!pingpong OTHER` | answers `[@OTHER: !pingpong ME]` |

Lines are obeyed from the top. A known word with wrong arguments fails for good and says what is allowed; a line with an
unknown word is text. Messages of a batch are taken one by one, each with its own answer; the first that fails ends it.

With the option `script` it obeys what a file says to such a message (`runner/cues.py`), with `recording` it plays a
recorded run back instead (`runner/playback.py`).
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from manydesks.domain.errors import BadInput, RunnerCrashed
from manydesks.domain.ids import is_name
from manydesks.domain.mail import Failure, Inbound
from manydesks.runner.cues import SCRIPT, Cue, load_cues, played, script_of
from manydesks.runner.playback import RECORDING, Playback, recording_of
from manydesks.runner.providers.base import (
    Answer,
    Descriptor,
    Failed,
    Provider,
    Station,
    Step,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from manydesks.runner.wording import sender_of, text_of

MAX_SLEEP = 86_400.0
MAX_COUNT = 10**12

_USAGE = {
    "say": "!say TEXT",
    "sleep": f"!sleep SECONDS, a number from 0 to {MAX_SLEEP:.0f}",
    "fail": "!fail transient|permanent [REASON]",
    "fail_times": "!fail_times N, a whole number from 0",
    "crash": "!crash, alone",
    "hang": "!hang, alone",
    "tool": "!tool NAME JSON, the JSON an object",
    "usage": "!usage IN OUT [COST], whole numbers of tokens and USD, none below 0",
    "pingpong": "!pingpong OTHER, the id of an agent",
}

#: an odd number of backslashes before it makes `[@` text already
_TAG = re.compile(r"(?<!\\)((?:\\\\)*)(\[[@#])")


class Rehearsal:
    """A `Provider` without a model; `sleep` is how it lets time pass, `cues` reads its script."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        cues: Callable[[], Sequence[Cue]] | None = None,
    ) -> None:
        self._sleep = sleep
        self._cues = cues

    async def turn(self, batch: Turn) -> AsyncIterator[Step]:
        for message in batch.messages:
            if not message.trigger:
                yield Answer(text="", answers=(message.id,))
                continue
            async for step in self._answer(batch, message):
                yield step
                if isinstance(step, Failed):
                    return

    async def close(self) -> None:
        """Nothing is kept."""

    async def _answer(self, batch: Turn, message: Inbound) -> AsyncIterator[Step]:
        said: list[str] = []
        results: list[str] = []
        try:
            # read each time: whoever writes a script changes it and tries again
            cues = await asyncio.to_thread(self._cues) if self._cues is not None else ()
        except BadInput as error:
            yield Failed(failure="permanent", reason=str(error), message=message.id)
            return
        for number, line in enumerate(played(cues, text_of(message)).split("\n")):
            word, rest = _directive(line)
            try:
                match word:
                    case "say":
                        said.append(rest)
                    case "sleep":
                        await self._sleep(_number(word, rest, MAX_SLEEP))
                    case "fail":
                        yield _failure(message, rest)
                        return
                    case "fail_times":
                        times = _count(word, rest)
                        if message.tries <= times:
                            reason = f"attempt {message.tries} of {times} that fail, as told"
                            yield Failed(failure="transient", reason=reason, message=message.id)
                            return
                    case "crash":
                        _alone(word, rest)
                        raise RunnerCrashed(agent=batch.agent, message=message.id)
                    case "hang":
                        _alone(word, rest)
                        await asyncio.Event().wait()
                    case "tool":
                        call = _call(f"{message.id}:{number}", rest)
                        yield call
                        result = await self._call(batch, message, call)
                        yield result
                        results.append(f"{call.tool} gave: {json.dumps(result.result, ensure_ascii=False)}")
                    case "usage":
                        yield _usage(rest)
                    case "pingpong":
                        if not is_name(rest):
                            _malformed(word, rest)
                        said.append(f"[@{rest}: !pingpong {batch.agent}]")
            except BadInput as error:
                yield Failed(failure="permanent", reason=str(error), message=message.id)
                return
        text = "\n".join(said) if said else "\n".join([_echo(batch, message), *map(_literal, results)])
        yield Answer(text=text, answers=(message.id,))

    async def _call(self, batch: Turn, message: Inbound, call: ToolCall) -> ToolResult:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        outcome = await batch.tools.call(call.tool, call.arguments, message=message.id)
        duration = round((loop.time() - begun) * 1000)
        return ToolResult(id=call.id, tool=call.tool, ok=outcome.ok, result=outcome.result, duration_ms=duration)


def _directive(line: str) -> tuple[str, str]:
    """The word and the rest of a line; the word is empty for a line that is text."""
    if not line.startswith("!"):
        return "", line
    word, _, rest = line[1:].removesuffix("\r").partition(" ")
    if word.strip() not in _USAGE:
        return "", line
    # what is said is said exactly; everything else is read
    return word.strip(), rest if word == "say" else rest.strip()


def _echo(batch: Turn, message: Inbound) -> str:
    name, sender = batch.name or batch.agent, sender_of(message)
    return _literal(f"{name} here (rehearsal, no model). {sender} wrote: {text_of(message)}")


def _literal(text: str) -> str:
    """Text whose tags stay text: an echo must not hand anything over."""
    return _TAG.sub(r"\1\\\2", text)


def _failure(message: Inbound, rest: str) -> Failed:
    kind, _, reason = rest.partition(" ")
    if kind not in ("transient", "permanent"):
        _malformed("fail", rest)
    failure: Failure = "transient" if kind == "transient" else "permanent"
    return Failed(failure=failure, reason=reason.strip() or "told to fail", message=message.id)


def _call(id: str, rest: str) -> ToolCall:
    name, _, text = rest.partition(" ")
    try:
        arguments = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        _malformed("tool", rest)
    if not name or not isinstance(arguments, dict):
        _malformed("tool", rest)
    return ToolCall(id=id, tool=name, arguments=arguments)


def _usage(rest: str) -> Usage:
    words = rest.split()
    if len(words) not in (2, 3):
        _malformed("usage", rest)
    try:
        cost = _number("usage", words[2], MAX_COUNT) if len(words) == 3 else None
        tokens = _count("usage", words[0]), _count("usage", words[1])
    except BadInput:
        _malformed("usage", rest)
    return Usage(input=tokens[0], output=tokens[1], cost_usd=cost, model="rehearsal")


def _count(word: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text):
        _malformed(word, text)
    return int(text)


def _number(word: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        _malformed(word, text)
    if not math.isfinite(value) or not 0 <= value <= most:
        _malformed(word, text)
    return value


def _alone(word: str, rest: str) -> None:
    if rest:
        _malformed(word, rest)


def _malformed(word: str, rest: str) -> NoReturn:
    given = f"!{word} {rest}".strip()
    raise BadInput(f"'{given[:200]}' is not understood; allowed is: {_USAGE[word]}.")


def _load(station: Station) -> Provider:
    recording, script = recording_of(station.options), script_of(station.options)
    if recording is not None:
        return Playback(station.workspace, recording)
    return Rehearsal(cues=None if script is None else partial(load_cues, station.workspace, script))


def _read(options: Mapping[str, Any]) -> object:
    recording, script = recording_of(options), script_of(options)
    if recording is not None and script is not None:
        raise BadInput(reason=f"an agent has one of the options '{RECORDING}' and '{SCRIPT}', not both.")
    return options


PROVIDER = Descriptor(
    name="rehearsal",
    in_process=True,
    load=_load,
    options={
        RECORDING: "a recorded run that is played back, a file in the workspace; `manydesks run export` makes it",
        SCRIPT: "what to do on which words, a file in the workspace",
    },
    read=_read,
    summary="Deterministic and offline: obeys `!` lines, echoes the rest.",
)
