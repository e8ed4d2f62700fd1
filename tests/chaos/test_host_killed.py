"""kill -9 of the host while messages flow: every accepted message is answered once, and nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from manydesks.domain.ids import new_id
from manydesks.testing.office import OfficeProcess

AGENTS = ("amy", "ben", "cleo")
#: a kill lands while work is under way: some messages take a moment, some fail once, some hand over
TEXTS = (
    "hello",
    "!say plain",
    "!sleep 0.05\n!say slept",
    "[@amy: !say a] [@ben: !say b] everyone",
    '!tool send_message {"text": "on my way"}',
    "!say [@cleo: !say handed over]",
    "[@amy: !sleep 0.02\n!say a] -> [@ben: !say b] -> [@cleo: !say c]",
    "[@amy: !say a] [@ben: !sleep 0.05\n!say b] => [@cleo: !say c]",
    "!say [@amy: !say a] -> [@ben: !say b]",
)


class Senders:
    """Threads that send until told to stop, through whatever host there is, or none."""

    def __init__(self, office: OfficeProcess, seed: int) -> None:
        self._office = office
        self._stop = threading.Event()
        #: message ids whose `send` returned: these were accepted
        self.accepted: list[str] = []
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._send, args=(seed + n,)) for n in range(3)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _send(self, seed: int) -> None:
        rng = random.Random(seed)
        try:
            while not self._stop.wait(rng.uniform(0.01, 0.05)):
                said = self._office.door.ask(
                    "send",
                    text=rng.choice(TEXTS),
                    to=None if rng.random() < 0.5 else rng.choice(AGENTS),
                    sender="tester",
                    priority=0,
                    message_id=new_id("console"),
                )
                self.accepted += [message["messageId"] for message in said["messages"]]
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.errors.append(error)


def survive(home: Path, *, kills: int, seed: int) -> OfficeProcess:
    """Kill and restart a busy office; return it stopped, after every check but the lake's."""
    rng = random.Random(seed)
    office = OfficeProcess(home)
    office.start()
    for agent in AGENTS:
        office.door.ask("agent_add", id=agent)
    senders = Senders(office, seed)
    senders.start()
    starts = []
    try:
        for _ in range(kills):
            time.sleep(rng.uniform(0.2, 1.2))
            office.kill()
            begun = time.monotonic()
            office.start()
            starts.append(time.monotonic() - begun)
    finally:
        senders.finish()
    assert senders.errors == []
    assert len(senders.accepted) > kills
    reader = office.door.reader()
    try:
        deadline = time.monotonic() + 60
        while any(reader.queue_status()[state] for state in ("pending", "processing", "outgoing")):
            assert time.monotonic() < deadline, reader.queue_status()
            reader.wait(1.0)
        assert office.stop() == 0
        answered_once(reader, senders.accepted)
        nobody_waits_in_vain(home)
        gapless(reader)
    finally:
        reader.close()
    return office


def answered_once(reader, accepted: list[str]) -> None:
    assert len(set(accepted)) == len(accepted)
    recovered = sum(event["data"]["recovered"] for event in reader.events(0, 10_000, kinds=["processor_start"]))
    assert recovered > 0, "no kill met work under way"
    assert len(reader.dead()) <= recovered
    for message_id in accepted:
        message = reader.message(message_id)
        assert message is not None, f"{message_id} was accepted and is gone"
        interrupted = (message["lastError"] or "").startswith("interrupted_after_output")
        if message["status"] == "dead" and interrupted:
            # it had spoken before it was killed: to ask again would answer twice, so it is shown instead
            assert "!tool" in message["text"] or "[@" in message["text"]
            continue
        assert message["status"] == "completed", message
        answers = [r for r in message["responses"] if r["operation"] == "message" and r["status"] != "withdrawn"]
        assert [r["status"] for r in answers] == ["acked"] * len(answers)
        expected = 2 if "!tool" in message["text"] else 1
        assert len(answers) == expected, message


def nobody_waits_in_vain(home: Path) -> None:
    """Steps and joins went on when what they waited for had ended, and once."""
    with closing(sqlite3.connect(f"file:{home / 'office.db'}?mode=ro", uri=True)) as db:
        assert db.execute("select count(*) from joins where ended_at is not null").fetchone()[0] > 0
        ended = "select 1 from join_parts p join messages m on m.message_id = p.message where p.join_id = j.id"
        left = f"select id from joins j where ended_at is null and state = 0 and not exists ({ended} and m.state < 3)"
        assert db.execute(left).fetchall() == []
        twice = "select message from events where kind = 'message_released' group by message having count(*) > 1"
        assert db.execute(twice).fetchall() == []


def gapless(reader) -> None:
    seqs: list[int] = []
    while page := reader.events(seqs[-1] if seqs else 0, 10_000):
        seqs += [event["seq"] for event in page]
    assert seqs == list(range(1, reader.head() + 1))


def command(home: Path, environ: Mapping[str, str], *words: str) -> str:
    """One real command on this home; what it printed."""
    words = (sys.executable, "-m", "manydesks", "--home", str(home), *words)
    run = subprocess.run(words, capture_output=True, text=True, timeout=200, env={**os.environ, **environ})
    assert run.returncode == 0, run.stderr
    return run.stdout


COLUMNS = "seq, at, kind, trace, parent, message, run, session, agent, body, data"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_ten_kills_lose_nothing_and_double_nothing(tmp_path: Path, kept_java: Mapping[str, str]) -> None:
    home = tmp_path / "home"
    office = survive(home, kills=10, seed=1)
    # the lake equals the ledger after the next run, archived in two steps: what was there, and what came later
    command(home, kept_java, "pipeline", "run")
    office.start()
    office.door.ask("send", text="one more", message_id="console_onemore1")
    assert office.stop() == 0
    command(home, kept_java, "pipeline", "run")
    ask = partial(command, home, kept_java, "--json", "pipeline", "query")
    lake = json.loads(ask(f"select {COLUMNS} from events order by seq"))
    with closing(sqlite3.connect(f"file:{home}/office.db?mode=ro", uri=True)) as db:
        ledger = [list(row) for row in db.execute(f"select {COLUMNS} from export_events order by seq")]
        bodies = [list(row) for row in db.execute("select id, text from export_bodies order by id")]
    assert lake["rows"] == ledger
    texts = json.loads(ask("select id, text from bodies order by id"))
    assert texts["rows"] == bodies


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 7))
def test_many_kills(tmp_path: Path, seed: int) -> None:
    survive(tmp_path / "home", kills=20, seed=seed)
