"""Waiting at a terminal for what comes back: each answer as it comes, and meanwhile what the agents are saying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from manydesks.cli.answers import Answer, Answers, settled
from manydesks.cli.invocation import Invocation
from manydesks.cli.live import Live
from manydesks.cli.output import Output
from manydesks.cli.response import shown
from manydesks.domain.errors import UnknownTrace

#: a wake-up lost between a look and a wait costs no more than this
LOOK_AGAIN_SECONDS = 1.0
#: how often the words of an answer that is being written are asked for, where there is a terminal to show them
LIVE_SECONDS = 0.2


class Waiting:
    """For one trace. What was told once is not told again, however often one begins to wait."""

    def __init__(self, invocation: Invocation, trace_id: str, *, tell: Callable[[Answer], None]) -> None:
        self.trace_id = trace_id
        #: the trace at the last look
        self.trace: Mapping[str, Any] = {"traceId": trace_id, "messages": []}
        #: nothing moves any more
        self.done = False
        self._invocation = invocation
        self._answers = Answers()
        self._tell = tell
        self._live = Live(invocation.out, invocation.environ)

    def look(self) -> None:
        """Tell what is new."""
        found = self._invocation.reader.trace(self.trace_id)
        if found is None:
            raise UnknownTrace(trace=self.trace_id)
        self.trace = found
        for answer in self._answers.new(found):
            self._live.wipe()
            self._tell(answer)
        self.done = settled(found)

    def wait(self, deadline: int, *, office: bool, until: Callable[[], bool] = lambda: False) -> bool:
        """Until nothing moves any more: True; False at the deadline (monotonic milliseconds), or when `until` says so.

        `office`: one runs, which can be asked what the agents are saying.
        """
        live = self._live.works and office
        try:
            while True:
                self.look()
                left = deadline - self._invocation.clock.monotonic()
                if self.done or left <= 0 or until():
                    return self.done
                if live:
                    self._live.show(self._invocation.door.words(self.trace_id))
                self._invocation.reader.wait(min(left / 1000, LIVE_SECONDS if live else LOOK_AGAIN_SECONDS))
        finally:
            self._live.wipe()


def tell_on(out: Output, invocation: Invocation) -> Callable[[Answer], None]:
    """Print an answer as a person reads it. The office's word that a message died is left to whoever sums up."""

    def tell(answer: Answer) -> None:
        if answer.obituary:
            return
        out.answer(shown(answer.response, invocation.home.path), agent=answer.agent if answer.several else None)
        if answer.together is not None:
            out.note(f"{answer.message_id} was answered together with {answer.together}.")

    return tell
