"""kill -9 of hosts and runners while sandboxed desks work: every accepted message is answered once, nothing is left."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from manydesks.desk.furnish import office_mark
from manydesks.desk.process import MARK
from manydesks.desk.sandboxes import tree
from manydesks.domain.ids import new_id
from manydesks.testing.office import OfficeProcess

AGENTS = {"amy": "bubblewrap", "ben": "bubblewrap", "cleo": "none"}
TEXTS = ("hello", "!say plain", "!sleep 0.05\n!say slept", "!tool nothing {}\n!sleep 0.1\n!say looked")
#: retries without waiting for them, and enough of them: kills come faster than on any bad day
QUICK = {
    "MANYDESKS_RETRY__BASE_SECONDS": "0.02",
    "MANYDESKS_RETRY__JITTER": "0",
    "MANYDESKS_RETRY__MAX_ATTEMPTS": "50",
}


def runners(office: OfficeProcess) -> list[int]:
    return sorted(tree.marked(f"{MARK}{office_mark(office.home)}-*"))


def survive(home: Path, *, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    office = OfficeProcess(home, {**os.environ, **QUICK})
    office.start()
    for agent, sandbox in AGENTS.items():
        office.door.ask("agent_add", id=agent, sandbox=sandbox)
    accepted: list[str] = []
    errors: list[BaseException] = []
    stop = threading.Event()

    def send() -> None:
        words = random.Random(seed)
        try:
            while not stop.wait(words.uniform(0.02, 0.1)):
                text, agent = words.choice(TEXTS), words.choice(sorted(AGENTS))
                said = office.door.ask("send", text=text, to=agent, sender="tester", message_id=new_id("console"))
                accepted.append(said["messages"][0]["messageId"])
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for number in range(kills):
            time.sleep(rng.uniform(0.2, 0.8))
            if number % 2:
                office.kill()
                office.start()
            elif pids := runners(office):
                # whoever it is: bwrap outside, its first process, the supervisor, the runner itself
                with_luck = rng.choice(pids)
                try:
                    os.kill(with_luck, signal.SIGKILL)
                except ProcessLookupError:
                    continue
    finally:
        stop.set()
        sender.join(60)
    assert errors == []
    assert len(accepted) > kills
    office.until(
        lambda reader: not any(reader.queue_status()[state] for state in ("pending", "processing", "outgoing")), 90
    )
    reader = office.door.reader()
    try:
        for id in accepted:
            message = reader.message(id)
            assert message is not None
            assert message["status"] == "completed", message
            answers = [r for r in message["responses"] if r["operation"] == "message" and r["status"] != "withdrawn"]
            assert [r["status"] for r in answers] == ["acked"], message
        assert reader.dead() == []
    finally:
        reader.close()
    assert office.stop() == 0
    assert runners(office) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    survive(tmp_path / "home", kills=12, seed=1)


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_kills(tmp_path: Path, seed: int) -> None:
    survive(tmp_path / "home", kills=40, seed=seed)
