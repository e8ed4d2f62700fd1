"""kill -9 of the host at each step of a message's way, with sandboxed desks: nothing is lost, nothing is doubled.

Run as a script, this file is a host that dies by itself at one step: `POINT --home … up`.
"""

from __future__ import annotations

import importlib
import inspect
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.desk.furnish import office_mark
from manydesks.desk.process import MARK
from manydesks.desk.sandboxes import tree
from manydesks.domain.ids import new_id
from manydesks.testing.office import OfficeProcess

STORE = "manydesks.store.store:Store"
INBOX = "manydesks.mailbox.host:HostMailbox"
TAKER = "manydesks.office.taker"
DESK = "manydesks.desk"

#: a step's name → where it is. A call that finds nothing to do is no step: its result is empty.
STEPS = {
    "accept": f"{STORE}.accept",
    "claim": f"{STORE}.claim",
    "furnish": f"{DESK}.furnish:Furnisher.desk",
    "prepare": f"{INBOX}.prepare",
    "put": f"{INBOX}.put",
    "nudge": f"{DESK}.process:ProcessDesk.nudge",
    "mark": f"{DESK}.confined:Confined.mark",
    "orders": "manydesks.runner.orders:Orders.write",
    "sandbox": f"{DESK}.sandboxes.bubblewrap:Bubblewrap.start",
    "collect": f"{INBOX}.collect",
    "receive": f"{TAKER}:receive",
    "take": f"{STORE}.take",
    "clear": f"{TAKER}:clear",
    "claim_parcels": f"{STORE}.claim_parcels",
    "send": "manydesks.channels.console:Console.send",
    "settle": f"{STORE}.claim_parcels",
    "run_died": f"{STORE}.run_died",
    "withdraw": f"{INBOX}.withdraw",
    "control": f"{INBOX}.control",
    "stop": f"{DESK}.process:ProcessDesk.stop",
    "leftovers": "manydesks.office.recovery:end_leftovers",
    "open_runs": f"{STORE}.open_runs",
    "release": f"{STORE}.release",
    "socket": "manydesks.office.control:Control.start",
}
#: verbs that return something even when there was nothing to do
SOMETHING: dict[str, Callable[[Any], bool]] = {
    "claim": bool,
    "claim_parcels": bool,
    "collect": lambda found: found is not None and bool(found.acks),
    "receive": bool,
    "open_runs": bool,
}

#: steps that are a part of another one: which of its calls are they?
PARTS: dict[str, Callable[[dict[str, Any]], bool]] = {"settle": lambda more: bool(more.get("settled"))}


# the host that dies


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """`before:put`, `after:put`, or `within:take`: in the store's transaction, before it is committed."""
    when, _, name = point.partition(":")
    module_name, _, path = STEPS[name].partition(":")
    owner: Any = importlib.import_module(module_name)
    *classes, attribute = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    real, counts = getattr(owner, attribute), SOMETHING.get(name, lambda result: True)
    is_it = PARTS.get(name, lambda more: True)

    def over(result: Any) -> Any:
        if when == "after" and counts(result):
            die()
        return result

    async def awaited(*args: Any, **more: Any) -> Any:
        if not is_it(more):
            return await real(*args, **more)
        if when == "before":
            die()
        if when == "within":
            entered.append(name)
        return over(await real(*args, **more))

    def called(*args: Any, **more: Any) -> Any:
        if when == "before":
            die()
        return over(real(*args, **more))

    setattr(owner, attribute, awaited if inspect.iscoroutinefunction(real) else called)
    if when != "within":
        return
    # the verb is entered, and asks for its transaction, before anybody else has a turn
    entered: list[str] = []
    from manydesks.store.store import Store

    do = Store._do

    async def watched(self: Store, operation: Callable[[Any], Any]) -> Any:
        if not entered:
            return await do(self, operation)
        entered.clear()

        def operate(tx: Any) -> Any:
            result = operation(tx)
            if counts(result):
                die()
            return result

        return await do(self, operate)

    Store._do = watched  # type: ignore[assignment]


# what is asked of it

AGENTS = ("amy", "cleo")
HANDS_OVER = "!tool nothing {}\n!say done [@ben: !say over]"
SPEAKS = '!tool send_message {"text": "on my way"}\n!tool send_file {"path": "AGENTS.md"}\n!say there'
QUICK = {
    "MANYDESKS_RETRY__BASE_SECONDS": "0.02",
    "MANYDESKS_RETRY__JITTER": "0",
    "MANYDESKS_RETRY__MAX_ATTEMPTS": "50",
}


class Trial:
    """An office that is killed at one step after another; work is sent before each."""

    def __init__(self, home: Path, texts: dict[str, str], **settings: object) -> None:
        self._home = home
        self._texts = texts
        given = {f"MANYDESKS_{name.upper()}": str(value) for name, value in settings.items()}
        self._environ = {**os.environ, **QUICK, **given}
        self.sent: list[tuple[str, str]] = []
        self.office = OfficeProcess(home, self._environ)
        self.office.start()
        for agent in texts:
            self.office.door.ask("agent_add", id=agent, sandbox="bubblewrap")
        self.office.door.ask("agent_add", id="ben")
        assert self.office.stop() == 0

    def fall(self, point: str) -> None:
        """Open the office, send, and see it die at this step."""
        self.office = OfficeProcess(self._home, self._environ, command=(sys.executable, __file__, point))
        try:
            self.office.start()
            for agent, text in self._texts.items():
                # one that dies while it is asked may have stored it or not: asked again, it is stored once
                said = self.office.door.ask("send", text=text, to=agent, sender="ada", message_id=new_id("console"))
                self.sent.append((agent, said["messages"][0]["messageId"]))
        except AssertionError:
            # it died before it answered: a step of recovery
            assert self.office.wait(1) == -signal.SIGKILL, self.office.log()[-3000:]
        assert self.office.wait(30) == -signal.SIGKILL, self.office.log()[-3000:]

    def finish(self) -> dict[str, dict[str, Any]]:
        """Open it once more, let everything end, and close; each message by its id."""
        self.office = office = OfficeProcess(self._home, self._environ)
        office.start()
        busy = ("pending", "processing", "outgoing")
        office.until(lambda reader: not any(reader.queue_status()[state] for state in busy), 60)
        assert office.stop() == 0
        assert tree.marked(f"{MARK}{office_mark(office.home)}-*") == set()
        reader = office.door.reader()
        try:
            seqs: list[int] = []
            while page := reader.events(seqs[-1] if seqs else 0, 10_000):
                seqs += [event["seq"] for event in page]
            assert seqs == list(range(1, reader.head() + 1))
            found = {}
            for _, id in self.sent:
                trace = reader.trace(id)
                assert trace is not None, f"{id} was accepted and is gone"
                found[id] = trace
            return found
        finally:
            reader.close()


@pytest.fixture
def make_trial(home: Path) -> Any:
    made: list[Trial] = []

    def make(texts: dict[str, str], **settings: object) -> Trial:
        made.append(Trial(home, texts, **settings))
        return made[-1]

    yield make
    for trial in made:
        trial.office.kill()


def said(message: dict[str, Any]) -> list[tuple[str, str]]:
    kept = [r for r in message["responses"] if r["status"] != "withdrawn" and r["operation"] != "notice"]
    return [(r["text"], r["status"]) for r in kept]


def once(trial: Trial) -> None:
    """Every message was answered, once, and led to what it had to, once."""
    traces = trial.finish()
    for agent, id in trial.sent:
        first, *others = traces[id]["messages"]
        answers = said(first)
        assert {status for _, status in answers} == {"acked"}, first
        if agent == "amy":
            assert (first["status"], len(answers)) == ("completed", 1), first
            (handed,) = others
            assert (handed["agent"], handed["status"], said(handed)) == ("ben", "completed", [("over", "acked")])
        elif first["status"] == "dead":
            # it had spoken before it was cut off: to ask again would say it twice, so it is shown instead
            assert first["lastError"].startswith("interrupted_after_output"), first
            assert len(answers) == len(set(answers)) <= 2
        else:
            assert first["status"] == "completed", first
            assert [text for text, _ in answers if text] == ["on my way", "there"], first
            assert len(answers) == 3


FLOW = {
    "T1": ("before:accept", "within:accept", "after:accept"),
    "T2": ("within:claim", "after:claim"),
    "furnishing": ("before:furnish", "after:furnish", "after:prepare", "before:put", "after:put", "after:nudge"),
    "sitting down": ("after:mark", "before:orders", "after:orders", "before:sandbox", "after:sandbox"),
    "T3": ("after:collect", "after:receive", "before:take", "within:take", "after:take", "before:clear", "after:clear"),
    "T4": ("within:claim_parcels", "after:claim_parcels", "before:send", "after:send", "within:settle", "after:settle"),
}
TEXTS = {"amy": HANDS_OVER, "cleo": SPEAKS}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", FLOW)
def test_at_each_step_of_a_message(make_trial: Callable[..., Trial], part: str) -> None:
    trial = make_trial(TEXTS)
    for point in FLOW[part]:
        trial.fall(point)
    once(trial)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_at_each_step_of_recovery(make_trial: Callable[..., Trial]) -> None:
    trial = make_trial(TEXTS)
    for point in (
        "after:leftovers", "after:open_runs", "before:take", "within:take", "after:take", "before:release",
        "within:release", "after:release", "after:withdraw", "before:socket",
    ):  # fmt: skip
        # an answer lies in a desk's file, other work is under way
        trial.fall("after:collect")
        trial.fall(point)
    once(trial)


ENDS = ("before:run_died", "within:run_died", "after:run_died", "after:withdraw")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("text", "points", "reason"),
    [
        ("!crash", ENDS, "the runner died: it ended with 70"),
        ("!hang", (*ENDS, "before:control", "after:control"), "did not end within 1 s"),
    ],
)
def test_at_each_step_of_a_run_that_fails(
    make_trial: Callable[..., Trial], text: str, points: tuple[str, ...], reason: str
) -> None:
    trial = make_trial({"amy": text}, retry__max_attempts=2, runner__run_seconds=1)
    for point in points:
        trial.fall(point)
    traces = trial.finish()
    for _, id in trial.sent:
        (message,) = traces[id]["messages"]
        assert message["status"] == "dead", message
        assert 1 <= message["attempts"] <= 2
        assert reason in message["lastError"] or "the office stopped during the run" in message["lastError"], message
        # and its sender was told, once
        notices = [r["status"] for r in message["responses"] if r["operation"] == "notice"]
        assert notices == ["acked"], message


if __name__ == "__main__":
    arm(sys.argv.pop(1))
    from manydesks.cli.main import main

    main()
