"""kill -9 of the host under every kind of load: fan-outs, chains, joins, rooms, hand-offs, deliveries that go wrong.

Every accepted message ends answered once, or visibly dead; what went out arrived once, or is visibly unsure; no lane
runs twice at once; the books agree (`manydesks.testing.audit`).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manydesks.desk.furnish import office_mark
from manydesks.desk.process import MARK
from manydesks.desk.sandboxes import tree
from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import Duplicate, ManyDesksError
from manydesks.domain.ids import new_id
from manydesks.office.lock import write_lock
from manydesks.store.store import Store
from manydesks.testing.audit import complaints
from manydesks.testing.office import OfficeProcess
from manydesks.testing.post import Platform

#: dan sits in a sandbox, and is in no team
CREW = ("amy", "ben", "cleo")
#: (what a person writes, how many messages it is at once); `{l}` is a word of its own, `\[` is for the agent to say
TEXTS = (
    ("!say {l}", 1),
    ("@ben !sleep 0.05\n!say {l}", 1),
    ("@cleo !fail_times 1\n!say {l}", 1),
    ("@dan !sleep 0.02\n!say {l}", 1),
    ("[@amy: !say {l}.a] [@ben: !sleep 0.03\n!say {l}.b] [@dan: !say {l}.d] all of you", 3),
    ("[@amy: !sleep 0.02\n!say {l}.1] -> [@dan: !say {l}.2] -> [@cleo: !say {l}.3]", 3),
    ("[@amy: !fail permanent no ink] -> [@ben: !say {l}.2]", 2),
    ("[@amy: !say {l}.a] [@ben: !sleep 0.05\n!say {l}.b] => [@cleo: !say {l}.j]", 3),
    ("[@amy: !fail permanent no ink] [@cleo: !say {l}.c] => [@ben: !say {l}.j]", 3),
    ("[#crew: !say {l}.r]", 3),
    (r"@amy !say {l} \[@cleo: !say {l}.h] \[@ben: !say {l}.i]", 1),
    (r"@amy !say \[@cleo: !say {l}.h] -> \[@ben: !say {l}.i]", 1),
    (r"@ben !say {l} \[#crew: !say {l}.r]", 1),
    ('@cleo !tool send_to_agent {{"agent": "ben", "text": "!say {l}.s"}}\n!say {l}', 1),
    ('@ben !tool send_message {{"text": "{l}.m"}}\n!sleep 0.03\n!say {l}', 1),
    ("@cleo !say {l} " + "one long answer in pieces " * 20, 1),
)
#: no loop guard in the way, retries without waiting for them
QUICK = {
    "MANYDESKS_RETRY__BASE_SECONDS": "0.02",
    "MANYDESKS_RETRY__JITTER": "0",
    "MANYDESKS_LIMITS__PAIR_PER_MINUTE": "100000",
    "MANYDESKS_LIMITS__TRACE_MESSAGES": "100000",
}
#: what goes wrong at a platform besides the kills: (a part of the text, what, how often)
FAULTS = (("3", "busy", 5), ("6", "lost", 2), ("8", "lost_after", 2), ("90", "refused", 1))
START_SECONDS = 30.0


class Load:
    """Whoever writes to the office, through every door, whether it runs or not; and what was taken from them."""

    def __init__(self, home: Path, folder: Path, seed: int) -> None:
        packages = folder / "packages" / "postal-1.0.dist-info"
        packages.mkdir(parents=True)
        (packages / "METADATA").write_text("Metadata-Version: 2.1\nName: postal\nVersion: 1.0\n")
        (packages / "entry_points.txt").write_text("[manydesks.channels]\npost = manydesks.testing.post:CHANNEL\n")
        path = os.pathsep.join(filter(None, (str(packages.parent), os.environ.get("PYTHONPATH"))))
        #: what was cut off: at home a person is asked, at work it is sent again
        self.platforms = {"home": Platform(folder / "at-home"), "work": Platform(folder / "at-work")}
        home.mkdir(parents=True)
        sections = [
            f'[channels.post.instances.{name}]\nfolder = "{self.platforms[name].folder}"\ncut_off = "{rule}"\n'
            for name, rule in (("home", "ask"), ("work", "resend"))
        ]
        (home / "settings.toml").write_text("\n".join(sections))
        self.office = OfficeProcess(home, {**os.environ, **QUICK, "PYTHONPATH": path})
        self.rng = random.Random(seed)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._number = 0
        #: key → how many messages it was at once; these were accepted, or will be when the channel looks
        self.sent: dict[str, int] = {}
        #: by the number of a response: how it came to the client of the API, each time
        self.fetched: dict[int, list[str]] = {}
        self.errors: list[BaseException] = []
        doors = (self._console, self._console, self._letters, self._client)
        self._threads = [
            threading.Thread(target=self._run, args=(door, random.Random(f"{seed}/{n}")))
            for n, door in enumerate(doors)
        ]

    def staff(self) -> None:
        ask = self.office.door.ask
        ask("agent_add", id="dan", sandbox="bubblewrap")
        for agent in CREW:
            ask("agent_add", id=agent, reaches=["dan"])
        ask("team_add", id="crew", leader="amy", members=list(CREW))

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, door: Callable[[random.Random], None], rng: random.Random) -> None:
        try:
            while not self._stop.wait(rng.uniform(0.03, 0.12)):
                door(rng)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.errors.append(error)

    def _write(self, rng: random.Random) -> tuple[str, int]:
        with self._lock:
            self._number += 1
            label = f"w{self._number:04}"
        text, messages = rng.choice(TEXTS)
        return text.format(l=label), messages

    def _console(self, rng: random.Random) -> None:
        (text, messages), key = self._write(rng), new_id("console")
        said = self.office.door.ask("send", text=text, sender="tester", message_id=key)
        assert len(said["messages"]) == messages, said
        self.sent[key] = messages

    def _letters(self, rng: random.Random) -> None:
        (text, messages), key = self._write(rng), new_id("post")
        self.sent[key] = messages
        platform = self.platforms[rng.choice(("home", "work"))]
        platform.write(key, text, place=rng.choice(("attic", "cellar")))
        if rng.random() < 0.2:  # the platform repeats itself
            platform.write(key, text, place="attic")

    def _client(self, rng: random.Random) -> None:
        """Fetch, and acknowledge some of it; the others come again."""
        try:
            for row in self.office.door.ask("responses_pending", channel="api", limit=20)["responses"]:
                self.fetched.setdefault(row["id"], []).append(row["text"])
                if rng.random() < 0.7:
                    self.office.door.ask("response_ack", id=row["id"])
        except ManyDesksError as error:
            # it was killed while it was asked, and says that it does not know
            if "ended while it was asked" not in str(error):
                raise

    def write_to_the_api(self) -> None:
        """While no host runs: there is no door for its clients' messages yet."""
        text, messages = self._write(self.rng)
        key = new_id("api")
        incoming = Incoming(source="api", key=key, text=text, channel="api", platform_id="client", sender="client")
        with write_lock(self.office.home):
            store = Store(self.office.home.office_db)
            try:
                for _ in range(2):
                    try:
                        asyncio.run(store.accept(incoming, default_agent="assistant", message_bytes=10_000))
                    except Duplicate:
                        break
                else:
                    raise AssertionError("it was taken twice")
            finally:
                store.close()
        self.sent[key] = messages

    def restart(self, *, dies: bool) -> float:
        """Start again, with what goes wrong from now on; how long it took. `dies`: while it sends something."""
        faults = [*FAULTS, (self.rng.choice("147"), self.rng.choice(("die_before", "die_after")), 1)]
        for platform in self.platforms.values():
            platform.fail(*(faults if dies else FAULTS))
        begun = time.monotonic()
        try:
            self.office.start()
        except AssertionError:
            # what waited was sent before it answered us
            if not dies or self.office.wait(0) != -signal.SIGKILL:
                raise
        return time.monotonic() - begun

    def rest(self) -> None:
        """Until nothing moves; the client takes what is left."""
        ask = self.office.door.ask

        def quiet(reader: Any) -> bool:
            for row in ask("responses_pending", channel="api", limit=1000)["responses"]:
                self.fetched.setdefault(row["id"], []).append(row["text"])
                ask("response_ack", id=row["id"])
            moving = reader._all("select count(*) from messages where state <= 1")[0][0]
            going = reader._all("select count(*) from responses where state <= 2")[0][0]
            return not moving and not going and not any(platform.waiting() for platform in self.platforms.values())

        self.office.until(quiet, 180)
        assert self.office.stop() == 0


def survive(load: Load, kills: int) -> None:
    """Kill and restart a busy office, let it come to rest, and look at its books and at what arrived."""
    starts = [load.restart(dies=False)]
    load.staff()
    load.begin()
    try:
        for kill in range(kills):
            dies = kill % 3 == 2
            if dies:
                load.office.kill()
                load.write_to_the_api()
                starts.append(load.restart(dies=True))
                # some answer has the fault's letter in it soon
                load.office.wait(60)
            else:
                time.sleep(load.rng.uniform(0.3, 1.5))
                load.office.kill()
            for _ in range(2):
                load.write_to_the_api()
            starts.append(load.restart(dies=False))
    finally:
        load.end()
    assert load.errors == []
    load.rest()
    print(f"{len(load.sent)} arrivals; starts took {', '.join(f'{start:.1f}' for start in starts)} s")
    assert max(starts) < START_SECONDS
    assert complaints(load.office.home.office_db) == []
    assert tree.marked(f"{MARK}{office_mark(load.office.home)}-*") == set()
    with closing(sqlite3.connect(f"file:{load.office.home.office_db}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        everything_is_there(db, load)
        answered_once(db)
        for name, platform in load.platforms.items():
            arrived_once(db, name, platform)
        fetched_whole(db, load)


def everything_is_there(db: sqlite3.Connection, load: Load) -> None:
    sql = "select a.key, count(m.id) from arrivals a left join messages m on m.trace = a.trace and m.parent is null"
    assert dict(db.execute(f"{sql} group by a.key").fetchall()) == load.sent
    assert {row[0] for row in db.execute("select distinct channel from messages")} == {"console", "post", "api"}
    recovered = "select sum(json_extract(data, '$.recovered')) from events where kind = 'processor_start'"
    assert db.execute(recovered).fetchone()[0] > 0, "no kill met work under way"


def answered_once(db: sqlite3.Connection) -> None:
    """Completed with exactly the answers it should have, or visibly not."""
    kept = "select message_id from responses where operation = 'message' and status <> 'withdrawn'"
    answers = Counter(id for (id,) in db.execute(kept))
    ended: Counter[str] = Counter()
    for message in db.execute("select message_id, text, status, kind, last_error, hold_reason from messages_text"):
        id, error = message["message_id"], message["last_error"] or ""
        ended[message["status"]] += 1
        if message["status"] == "completed":
            assert answers[id] == 1 + message["text"].count("!tool send_message"), tuple(message)
        elif message["status"] == "held":
            assert message["hold_reason"] == "chain", tuple(message)
        else:
            assert message["status"] == "dead", tuple(message)
            known = ("interrupted_after_output", "no ink", "the office stopped")
            assert error.startswith(known), tuple(message)
    assert ended["completed"] > ended["dead"], ended


def arrived_once(db: sqlite3.Connection, account: str, platform: Platform) -> None:
    """What the platform has is what the office says it has."""
    letters: dict[int, list[tuple[int, str]]] = {}
    for letter in platform.sent():
        _, id, piece = letter["key"].split("-")
        letters.setdefault(int(id), []).append((int(piece), letter["text"]))
    cut_off = {
        row[0]
        for row in db.execute(
            "select json_extract(data, '$.response') from events where kind = 'response_retried' "
            "and json_extract(data, '$.reason') not like '%busy%'"
        )
    }
    first = {id: n for n, id in enumerate(letters)}
    arrived: dict[str, list[tuple[int, int]]] = {}
    seen: Counter[str] = Counter()
    for row in db.execute("select * from responses_text where channel = 'post' and instance = ?", (account,)):
        id, pieces = row["id"], letters.pop(row["id"], [])
        numbers = [number for number, _ in pieces]
        seen[row["status"]] += 1
        if account == "home" or id not in cut_off:
            assert len(set(numbers)) == len(numbers), (id, pieces)
        match row["status"]:
            case "acked":
                assert sorted(set(numbers)) == list(range(len(json.loads(row["receipts"])))), (id, pieces)
                said = " ".join(dict(pieces)[number] for number in sorted(set(numbers)))
                assert said.split() == row["text"].split(), (id, pieces)
                arrived.setdefault(row["lane"], []).append((row["position"], first[id]))
            case "unsure":
                # at work it was sent again and again, until no attempt was left
                assert account == "home" or row["retry_count"] >= 5, tuple(row)
            case status:
                assert status in ("withdrawn", "dead"), tuple(row)
                # sent again by rule, it may have arrived before it was refused for sure
                assert pieces == [] or id in cut_off, (id, status, pieces)
    assert letters == {}
    assert seen["acked"] > 0
    for places in arrived.values():
        order = [place for _, place in sorted(places)]
        assert order == sorted(order), "a conversation got its answers out of order"


def fetched_whole(db: sqlite3.Connection, load: Load) -> None:
    """The client got every answer, and each time the same; none of those that were taken back."""
    rows = db.execute("select id, text, status from responses_text where channel = 'api'").fetchall()
    assert {row["status"] for row in rows} <= {"acked", "withdrawn"}
    acked = {row["id"]: row["text"] for row in rows if row["status"] == "acked"}
    assert load.fetched.keys() == acked.keys()
    assert all(set(texts) == {acked[id]} for id, texts in load.fetched.items())


@pytest.fixture
def make_load(home: Path, tmp_path: Path) -> Iterator[Callable[[int], Load]]:
    made: list[Load] = []

    def make(seed: int) -> Load:
        made.append(Load(home, tmp_path, seed))
        return made[-1]

    yield make
    for load in made:
        load.office.kill()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_five_kills_under_load(make_load: Callable[[int], Load]) -> None:
    survive(make_load(1), kills=5)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [2, 3])
def test_thirty_kills_under_load(make_load: Callable[[int], Load], seed: int) -> None:
    survive(make_load(seed), kills=30)
