"""Many desks at work at once: whether every heart beats in time, from the first start to the last answer."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.desk.offices import hire, office
from benchmarks.measure import Setting, company
from benchmarks.report import Fact, Section
from manydesks.runner.loop import HEARTBEAT_SECONDS
from manydesks.runner.program import find_program
from manydesks.testing.model import Pace, ScriptedModel, Turn
from manydesks.testing.office import OfficeProcess

RUNNERS, CLAUDES = 50, 8
#: how long each of them works; longer than it takes all of them to sit down
SECONDS = 60
#: an age at which one beat was left out
MISSED_SECONDS = 2 * HEARTBEAT_SECONDS
LOOK_SECONDS = 0.2


class Hearts:
    """The heartbeats of an office's desks. A desk is looked at from when its orders are laid out to its answer."""

    def __init__(self, made: OfficeProcess) -> None:
        self._sessions = made.home.sessions
        self._reader = made.door.reader()
        #: agent → trace, of those at work
        self._open: dict[str, str] = {}
        self.oldest = 0.0
        #: agents whose heart stood still for too long
        self.missed: set[str] = set()
        #: most at work at the same time
        self.most = 0

    def expect(self, agent: str, trace: str) -> None:
        self._open[agent] = trace

    def look(self) -> bool:
        """True while somebody is at work or on the way there."""
        beating = 0
        for agent in tuple(self._open):
            orders, beat = (self._touched(agent, name) for name in ("in/desk.json", "out/heartbeat"))
            if orders is None:
                continue  # the office has not got to it yet
            age = time.time() - max(orders, beat or 0.0)
            if self._reader.trace_ended(self._open[agent]):
                del self._open[agent]
                continue
            beating += beat is not None
            self.oldest = max(self.oldest, age)
            if age > MISSED_SECONDS:
                self.missed.add(agent)
        self.most = max(self.most, beating)
        return bool(self._open)

    def close(self) -> None:
        self._reader.close()

    def _touched(self, agent: str, name: str) -> float | None:
        found = [path.stat().st_mtime for path in Path(self._sessions, agent).glob(f"*/{name}")]
        return max(found, default=None)


def crowd(setting: Setting) -> Section:
    many = setting.of(RUNNERS, least=3)
    claudes = setting.of(CLAUDES) if find_program("claude") is not None else 0
    seconds = setting.of(SECONDS, least=8)
    with company() as heard, ExitStack() as opened:
        model = opened.enter_context(ScriptedModel())
        made = opened.enter_context(office(heard, model_url=model.base_url))
        # four pieces a second, each an event of its own
        model.play(Turn(text="word" * 4 * seconds, piece=4, pace=Pace(bytes=120, seconds=0.25), times=None))
        hearts = Hearts(made)
        opened.callback(hearts.close)
        # in turn, so that both kinds begin at once
        agents = [f"a{number}" for number in range(many)]
        for number in range(claudes):
            agents.insert(number * (many // claudes + 1), f"c{number}")
        for agent in agents:
            hire(made, agent, claude=agent.startswith("c"))
        begun, seated, traces = time.perf_counter(), 0.0, []
        for agent in agents:
            text = f"!sleep {seconds}\n!say done"
            traces.append(made.door.ask("send", text=text, to=agent)["traceId"])
            hearts.expect(agent, traces[-1])
            hearts.look()
        while hearts.look():
            if hearts.most == len(agents) and not seated:
                seated = time.perf_counter() - begun
            time.sleep(LOOK_SECONDS)
        ended = [message for trace in traces for message in made.trace(trace)["messages"]]
    once = sum((message["status"], message["attempts"]) == ("completed", 1) for message in ended)
    return Section(
        title=f"{many} sandboxed runners of rehearsal and {claudes} claudes at work at once, {seconds} s each",
        lines=[
            Fact(
                what="at work at the same time",
                value=f"{hearts.most}, the last of them after {seated:.1f} s",
                target=f"{len(agents)}",
                holds=hearts.most == len(agents),
            ),
            Fact(
                what="the oldest heartbeat",
                value=f"{hearts.oldest:.1f} s; {len(hearts.missed)} desks missed one",
                target=f"≤ {MISSED_SECONDS:g} s",
                holds=not hearts.missed,
            ),
            Fact(
                what="answered at the first attempt",
                value=f"{once} of {len(agents)}",
                target=f"{len(agents)}",
                holds=once == len(agents),
            ),
        ],
        company=heard,
        notes=[
            f"a heart beats every {HEARTBEAT_SECONDS:g} s; a desk counts from when its orders are laid out, before its "
            "sandbox begins, to its answer",
            *(["there is no claude here, so none is among them"] if not claudes else []),
        ],
    )
