"""What the office sees of a run while it lasts: when something last happened, which tools are under way, circles."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from manydesks.domain.clock import Clock
from manydesks.domain.mail import Collected, Step
from manydesks.domain.repetition import Repetition
from manydesks.domain.stuck import Fine, Interrupt, Kill, Patience, Signs, decide

#: so long a question may keep a run waiting: what its tool waits for an answer, and a minute to say so
QUESTION_MS = 660_000
#: no tool is waited for longer than this, whatever it asks for
TOOL_MS = 6 * 3_600_000


class Watch:
    """One run's. Fed with what was taken from its desk; asked now and then."""

    def __init__(self, run: str, patience: Patience, clock: Clock, *, same_calls: int) -> None:
        self.run = run
        self._patience = patience
        self._clock = clock
        self._began = self._alive = self._last = self._looked = clock.monotonic()
        #: when it last asked a person something; the office has the question, whatever the desk says of its tools
        self._asked: int | None = None
        self._interrupted: int | None = None
        #: tool calls under way: id → how long it may take
        self._calls: dict[str, int] = {}
        self._repetition = Repetition(same_calls)
        #: why the run has to end, if the agent goes round in circles
        self.circle: str | None = None

    def handed(self) -> None:
        """Its desk has the messages only now: its time begins."""
        self._began = self._alive = self._last = self._looked = self._clock.monotonic()

    def stirred(self) -> None:
        """Something of an answer was shown."""
        self._last = self._clock.monotonic()

    def seen(self, found: Collected) -> None:
        """What was taken from the desk."""
        steps = [step for step in found.steps if step.run == self.run]
        if steps or found.messages or found.acks:
            self.stirred()
        if any(row.run == self.run and row.content.get("operation") == "ask_question" for row in found.messages):
            self._asked = self._clock.monotonic()
        for step in steps:
            self._step(step)

    def interrupted(self) -> None:
        """The run was told to end."""
        self._interrupted = self._clock.monotonic()

    def verdict(self, heartbeat_at: int | None, *, asks: bool = False) -> Fine | Interrupt | Kill:
        """`heartbeat_at`: wall-clock milliseconds, as the file says; a clock that was set only makes it look younger.

        `asks`: a question of its is open; the time that a person takes is not the run's. A desk can forge its own
        heartbeat; by that it gains the rest of its time, and no more.
        """
        now = self._clock.monotonic()
        waits = asks and self._asked is not None and now - self._asked <= QUESTION_MS
        if waits:
            self._began += now - self._looked
            self._last = now
        self._looked = now
        if heartbeat_at is not None and self._clock.now() - heartbeat_at < now - self._alive:
            self._alive = now - max(0, self._clock.now() - heartbeat_at)
        return decide(
            Signs(
                running_ms=now - self._began,
                heartbeat_ms=now - self._alive,
                silent_ms=now - self._last,
                tool_ms=max(self._calls.values(), default=0),
                questions=waits,
                interrupted_ms=None if self._interrupted is None else now - self._interrupted,
            ),
            self._patience,
        )

    def _step(self, step: Step) -> None:
        id, tool = str(step.data.get("id")), str(step.data.get("tool"))
        if step.type == "tool_call":
            arguments = step.data.get("arguments")
            # a hostile desk must not make us remember without end
            if len(self._calls) < 1000:
                self._calls[id] = _declared(arguments)
            digest = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()
            self.circle = self.circle or self._repetition.called(tool, digest)
        elif step.type == "tool_result":
            self._calls.pop(id, None)


def _declared(arguments: Any) -> int:
    """How long a call says that it may take: `timeout` in milliseconds, or `timeout_seconds`; 0 if it does not say."""
    if not isinstance(arguments, dict):
        return 0
    for name, factor in (("timeout", 1), ("timeout_ms", 1), ("timeout_seconds", 1000)):
        value = arguments.get(name)
        # NaN is not above 0; infinity and numbers of a thousand digits have no product
        if isinstance(value, int | float) and value > 0:
            return TOOL_MS if value >= TOOL_MS else min(TOOL_MS, int(value * factor))
    return 0
