"""A made-up history of an office, event by event, as its ledger would have it: for tests, shows and benchmarks.

The same seed gives the same history. It has what real ones have: bursts and quiet hours, a long tail of slow runs,
retries, dead letters, hand-offs, fan-outs, chains that were held, failed deliveries, usage that is unknown for some.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

DAY_MS = 86_400_000
PROVIDERS = (("claude", "claude-sonnet"), ("openai", "gpt"), ("rehearsal", None))
CHANNELS = ("console", "api", "telegram", "matrix")
_SPOKEN = (
    "invoice release customer deploy refund login outage budget launch review contract newsletter backup latency "
    "database webhook onboarding pricing feedback roadmap crash upgrade certificate domain checkout search support "
    "translation screenshot report meeting sprint coverage pull request branch merge test fix"
)
WORDS = _SPOKEN.split()

#: of a day, how busy each hour is
_HOURS = [1, 1, 1, 1, 1, 2, 4, 7, 12, 16, 15, 13, 9, 13, 15, 14, 12, 9, 6, 5, 4, 3, 2, 1]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How much of it there is."""

    #: events in all, about
    events: int
    agents: int = 8
    days: int = 7
    seed: int = 0
    #: when it begins: a midnight UTC, in milliseconds
    begins: int = 1_767_225_600_000


@dataclass(frozen=True, kw_only=True)
class Made:
    """One event of the ledger, without its number."""

    at: int
    kind: str
    trace: str | None = None
    parent: str | None = None
    message: str | None = None
    run: str | None = None
    session: str | None = None
    agent: str | None = None
    #: the text it refers to; stored once, with a number of its own
    text: str | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def row(self, seq: int, body: int | None) -> tuple[Any, ...]:
        """In the order of the columns of `events`."""
        *about, data = self.told()
        return (seq, self.at, *about, body, data)

    def told(self) -> tuple[Any, ...]:
        """Its columns from `kind` to `agent`, and its data as JSON."""
        data = json.dumps(self.data, separators=(",", ":"))
        return (self.kind, self.trace, self.parent, self.message, self.run, self.session, self.agent, data)


def agents_of(shape: Shape) -> list[str]:
    return [f"agent-{number:02d}" for number in range(shape.agents)]


def history(shape: Shape) -> Iterator[Made]:
    """Events in the order in which they happened. Memory holds one day of traces."""
    rng = random.Random(shape.seed)
    agents = agents_of(shape)
    yield Made(at=shape.begins, kind="processor_start", data={"version": "0", "incarnation": "made", "recovered": 0})
    for agent in agents:
        yield Made(at=shape.begins, kind="agent_added", agent=agent, data={"after": {"id": agent}, "actor": "owner"})
    wanted = shape.events - len(agents) - 2
    waiting: list[tuple[int, int, Made]] = []
    count = traces = 0
    for day in range(shape.days):
        begins = shape.begins + day * DAY_MS
        # a burst now and then; what is left is spread over the days that are left
        share = rng.choice((0.7, 0.9, 1.0, 1.0, 1.1, 1.8)) if day < shape.days - 1 else 1.0
        quota = (wanted - count) / (shape.days - day) * share
        # many days with little to tell: one has a trace now and then
        usual = count / traces if traces else 16.0
        if quota < usual and rng.random() * usual >= quota:
            quota = 0.0
        # and in all there is one at least
        upto = count + (quota if traces or day < shape.days - 1 else max(quota, 1.0))
        while count < upto:
            traces += 1
            hour = rng.choices(range(24), _HOURS)[0]
            at = begins + hour * 3_600_000 + rng.randrange(3_600_000)
            for event in _Trace(rng, agents, at).events():
                heapq.heappush(waiting, (event.at, count, event))
                count += 1
        while waiting and (waiting[0][0] < begins + DAY_MS or day == shape.days - 1):
            yield heapq.heappop(waiting)[2]
    yield Made(at=shape.begins + shape.days * DAY_MS, kind="processor_stop", data={"version": "0"})


class _Trace:
    """One arrival, and all that follows from it."""

    def __init__(self, rng: random.Random, agents: list[str], at: int) -> None:
        self._rng = rng
        self._agents = agents
        self._at = at
        self._id = self._name("trace")
        self._channel = rng.choices(CHANNELS, (5, 3, 2, 1))[0]
        self._said: list[Made] = []
        self._messages = 0

    def events(self) -> list[Made]:
        rng = self._rng
        # a few agents get most of the work
        favourite = self._agents[min(int(rng.expovariate(0.5)), len(self._agents) - 1)]
        targets = [favourite]
        if rng.random() < 0.08:
            targets = rng.sample(self._agents, min(len(self._agents), rng.randint(2, 4)))
        ended = [self._message(agent, self._at, hop=0, parent=None, sender=None, run=None) for agent in targets]
        if len(targets) > 1 and rng.random() < 0.5:
            last, run = max(ended)
            self._message(rng.choice(self._agents), last, hop=0, parent=None, sender=None, run=run, held=self._at)
        return sorted(self._said, key=lambda event: event.at)

    def _message(
        self,
        agent: str,
        at: int,
        *,
        hop: int,
        parent: str | None,
        sender: str | None,
        run: str | None,
        held: int | None = None,
    ) -> tuple[int, str]:
        """When it and all that was handed on had ended, and the last run of it. `run`: the one that it follows from."""
        rng = self._rng
        self._messages += 1
        id = self._name("internal" if sender else self._channel)
        session = f"session_{agent}"
        about = {"trace": self._id, "message": id, "agent": agent, "session": session}
        if sender is not None:
            told = {"from": sender, "to": agent, "message_id": id, "hop": hop}
            self._add("chain_handoff", at, trace=self._id, message=id, agent=agent, parent=parent, run=run, data=told)
        stored = held if held is not None else at
        data: dict[str, Any] = {
            "message_id": id,
            "channel": self._channel,
            "conversation": f"conv_{self._channel}",
            "sender": "you",
        }
        data |= {"kind": "chat", "hop": hop, "from_agent": sender, "priority": 0}
        text = self._text(6, 60)
        self._add("message_enqueued", stored, **about, parent=parent, text=text, data=data)
        by = "join" if held is not None else "hand-off" if sender else rng.choice(("default", "tag", "prefix"))
        self._add("agent_routed", stored, **about, data={"by": by, "team": None})
        if held is not None:
            self._add("message_held", stored, **about, data={"reason": "join", "ref": "join_1"})
            self._add("message_released", at, **about, run=run, data={"reason": "join", "ref": "join_1"})
        return self._attempts(about, at, hop, agent, session)

    def _attempts(self, about: dict[str, Any], at: int, hop: int, agent: str, session: str) -> tuple[int, str]:
        rng, id = self._rng, str(about["message"])
        for attempt in range(1, 6):
            wait = self._long_tail(40)
            begun = at + wait
            run = self._name("run")
            provider, model = PROVIDERS[hash_of(agent) % len(PROVIDERS)]
            taken = {"fence": 1, "attempt": attempt, "batch": 1, "queue_ms": wait}
            self._add("message_received", begun, **about, run=run, data=taken)
            start = {"provider": provider, "model": model, "attempt": attempt}
            self._add("chain_step_start", begun, **about, run=run, data=start)
            ended = self._tools(about, run, begun)
            fails = rng.random() < (0.06 if attempt == 1 else 0.4)
            outcome = "failed" if fails else "completed"
            if not fails:
                self._answer(about, run, ended)
                self._add("message_completed", ended, **about, run=run, data={"attempt": attempt})
            dead = fails and (attempt == 5 or rng.random() < 0.2)
            reason = "the model's service answered 529" if fails else None
            if dead:
                said = {"attempt": attempt, "class": "transient", "reason": reason}
                self._add("message_dead", ended, **about, run=run, data=said)
                self._answer(about, None, ended, operation="notice")
            elif fails:
                next_at = ended + 5_000 * 2 ** (attempt - 1)
                said = {"attempt": attempt, "class": "transient", "reason": reason, "next_at": next_at}
                self._add("message_retried", ended, **about, run=run, data=said)
            done = {"outcome": outcome, "reason": reason, "duration_ms": ended - begun, "attempt": attempt}
            self._add("chain_step_done", ended, **about, run=run, data=done)
            self._add("run_usage", ended, **about, run=run, data=self._usage(provider, model))
            if not fails:
                return self._hand_over(id, agent, run, ended, hop)
            if dead:
                break
            at = ended + 5_000 * 2 ** (attempt - 1)
        return ended, run

    def _hand_over(self, id: str, agent: str, run: str, at: int, hop: int) -> tuple[int, str]:
        """A hand-off now and then, never back to oneself, and not for ever."""
        rng, ended = self._rng, (at, run)
        if hop < 6 and self._messages < 24 and len(self._agents) > 1 and rng.random() < 0.22:
            for _ in range(1 if rng.random() < 0.8 else 2):
                mate = rng.choice([other for other in self._agents if other != agent])
                ended = max(ended, self._message(mate, at, hop=hop + 1, parent=id, sender=agent, run=run))
        return ended

    def _tools(self, about: dict[str, Any], run: str, at: int) -> int:
        rng = self._rng
        for number in range(min(int(rng.expovariate(0.7)), 12)):
            at += self._long_tail(80)
            call = {"tool": rng.choice(("Bash", "Read", "Edit", "send_message")), "call": f"call_{number}"}
            self._add("tool_called", at, **about, run=run, data={**call, "digest": "0"})
            took = self._long_tail(120)
            at += took
            self._add("tool_done", at, **about, run=run, data={**call, "duration_ms": took, "ok": rng.random() > 0.05})
        return at + self._long_tail(900)

    def _answer(self, about: dict[str, Any], run: str | None, at: int, operation: str = "message") -> None:
        rng, text = self._rng, self._text(10, 120)
        response = rng.getrandbits(52)
        named = {"response": response}
        ready = {**named, "channel": self._channel, "part": 1, "operation": operation, "bytes": len(text)}
        self._add("response_ready", at, **about, run=run, text=text, data=ready)
        for attempt in range(1, 4):
            at += self._long_tail(30)
            if rng.random() > 0.03:
                said = {**named, "attempt": attempt, "receipt": f"r{response}"}
                self._add("response_delivered", at, **about, data=said)
                return
            if attempt == 3:
                self._add("response_dead", at, **about, data={**named, "attempt": attempt, "reason": "gone"})
                return
            said = {**named, "attempt": attempt, "reason": "timeout", "next_at": at + 5_000}
            self._add("response_retried", at, **about, data=said)
            at += 5_000

    def _usage(self, provider: str, model: str | None) -> dict[str, Any]:
        if provider == "rehearsal":
            return dict.fromkeys(("input", "output", "cache_read", "cache_write", "cost_usd", "model"))
        read, written = self._long_tail(4_000), self._long_tail(300)
        cost = round(read * 3e-6 + written * 15e-6, 6) if self._rng.random() > 0.1 else None
        return {"input": read, "output": written, "cache_read": read // 2, "cache_write": 0, "cost_usd": cost,
                "model": model}  # fmt: skip

    def _add(self, kind: str, at: int, *, text: str | None = None, data: dict[str, Any], **about: Any) -> None:
        self._said.append(Made(at=at, kind=kind, text=text, data=data, **about))

    def _long_tail(self, median: float) -> int:
        return int(min(self._rng.lognormvariate(math.log(median), 0.9), median * 200))

    def _text(self, least: int, most: int) -> str:
        return " ".join(self._rng.choices(WORDS, k=self._rng.randint(least, most)))

    def _name(self, prefix: str) -> str:
        return f"{prefix}_{self._rng.getrandbits(40):08x}"


def hash_of(name: str) -> int:
    """The same in every process."""
    return sum(map(ord, name))
