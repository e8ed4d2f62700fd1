"""The mailboxes of sessions in the lake: real files, made by the real host and desk, some of them in use or broken."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow.parquet as pq

from manydesks.domain.clock import SystemClock
from manydesks.domain.mail import Ack, Inbound, Outbound, Step
from manydesks.mailbox.desk import DeskMailbox
from manydesks.mailbox.host import HostMailbox
from manydesks.mailbox.hostile import JOURNAL_MAGIC
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import QUARANTINE, SESSION_ACKS, SESSION_FILES, SESSION_MESSAGES, SESSION_STEPS, SESSIONS
from manydesks.pipeline.jobs import sessions as job
from manydesks.pipeline.jobs.sessions import Sessions
from manydesks.pipeline.lock import hold
from manydesks.pipeline.schemas import TableSpec
from manydesks.pipeline.sources import mailbox
from manydesks.pipeline.sources import sessions as source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LONG_AGO = 1_700_000_000


def take(
    home: Path, spark: SparkSession | None = None, progress: Callable[[str, int, int], None] = lambda *_: None
) -> Counter[str]:
    """One reading of all mailboxes; how many rows each table got, and how many files were looked into."""
    with hold(home / "lake") as held, pytest.MonkeyPatch.context() as patch:
        if spark is None:  # as a few files are read by every run
            patch.setattr(job, "HERE_BYTES", 1 << 40)
        work = Sessions(home, held, spark, progress, SystemClock())  # type: ignore[arg-type]
        work.go()
    return +Counter({step.name: step.rows for step in work.steps})


def rows_of(home: Path, spec: TableSpec) -> list[dict[str, Any]]:
    found = [row for path in tables.files(home / "lake", spec) for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(found, key=lambda row: (row.get("session"), row.get("side"), row.get("epoch") or "", row.get("seq")))


def versions(home: Path) -> dict[str, int]:
    return {spec.name: tables.version(home / "lake", spec) for spec in job.TABLES}


class Session:
    """A session's mailbox with both sides at hand."""

    def __init__(self, home: Path, session: str = "s1", agent: str = "coder") -> None:
        self.folder = home / "sessions" / agent / session
        self.host = HostMailbox(self.folder, session=session, agent=agent)
        self.host.prepare()
        self.desk = DeskMailbox(self.folder / "in", self.folder / "out")
        self.desk.open()
        self.file = self.folder / "out" / "outbound.db"
        self._count = 0

    def give(self, *ids: str, fence: int = 1, text: str = "hello") -> None:
        self.host.put(
            [
                Inbound(id=id, run=f"run_{fence}", fence=fence, kind="chat", at=7, content={"text": text}, tries=1)
                for id in ids
            ]
        )

    def answer(self, id: str, fence: int = 1, text: str = "hi") -> None:
        self._count += 1
        about: dict[str, Any] = {"run": f"run_{fence}", "at": 8}
        self.desk.write(
            steps=[Step(type="text", data={"text": text}, **about)],
            messages=[
                Outbound(
                    id=f"out_{id}_{self._count}",
                    fence=fence,
                    in_reply_to=id,
                    kind="chat",
                    content={"text": text},
                    **about,
                )
            ],
            acks=[Ack(message=id, fence=fence, status="completed", **about)],
        )

    def settle(self) -> None:
        """Both files look as if nobody had touched them for long."""
        for path in (self.file, self.folder / "in" / "inbound.db"):
            if path.exists():
                os.utime(path, (LONG_AGO, LONG_AGO))


def content(row: dict[str, Any]) -> Any:
    return json.loads(row["content"])["text"]


def test_what_a_desk_was_given_and_what_it_wrote(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.give("api_1", "api_2")
    session.answer("api_1", text="hi \N{GRINNING FACE}")
    assert take(tmp_path) == {"session_files": 2, "session_messages": 3, "session_steps": 1, "session_acks": 1}
    given, second, said = rows_of(tmp_path, SESSION_MESSAGES)
    assert (given["agent"], given["session"], given["side"], given["id"]) == ("coder", "s1", "in", "api_1")
    assert (given["seq"], given["run"], given["fence"], given["at"], given["tries"]) == (2, "run_1", 1, 7, 1)
    assert (second["id"], second["epoch"], content(second)) == ("api_2", None, "hello")
    assert (said["side"], said["in_reply_to"], content(said)) == ("out", "api_1", "hi \N{GRINNING FACE}")
    (step,) = rows_of(tmp_path, SESSION_STEPS)
    assert (step["type"], json.loads(step["data"])) == ("text", {"text": "hi \N{GRINNING FACE}"})
    assert step["epoch"] == said["epoch"]
    (ack,) = rows_of(tmp_path, SESSION_ACKS)
    assert (ack["message"], ack["status"], ack["class"], ack["retry_after"]) == ("api_1", "completed", None, None)
    # the next run begins after the last of them, whatever it was
    _, out = rows_of(tmp_path, SESSION_FILES)
    assert (out["messages"], out["steps"], out["acks"]) == (ack["seq"],) * 3


def test_nothing_new_opens_nothing_and_writes_nothing(tmp_path: Path) -> None:
    for number in range(3):
        session = Session(tmp_path, f"s{number}")
        session.give("api_1")
        session.answer("api_1")
        session.settle()
    assert take(tmp_path)["session_files"] == 6
    before = versions(tmp_path)
    assert take(tmp_path) == Counter()
    assert versions(tmp_path) == before
    session.answer("api_1", fence=2)
    os.utime(session.file, (4_000_000_000, 4_000_000_000))
    assert take(tmp_path) == {"session_files": 1, "session_messages": 1, "session_steps": 1, "session_acks": 1}
    # until some time has passed since it was changed, its time of change says nothing
    assert take(tmp_path) == {"session_files": 1}
    session.settle()
    assert take(tmp_path) == {"session_files": 1}
    assert take(tmp_path) == Counter()


def test_a_message_that_comes_again_is_taken_once_for_each_claim(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.give("api_1", "api_2")
    take(tmp_path)
    session.host.withdraw(1)
    session.give("api_2", fence=3)
    assert take(tmp_path)["session_messages"] == 1
    session.give("api_1", "api_3", fence=3)  # added to a live claim; one of them has a lower number
    assert take(tmp_path)["session_messages"] == 2
    found = [(row["id"], row["fence"]) for row in rows_of(tmp_path, SESSION_MESSAGES)]
    assert Counter(found) == Counter([("api_1", 1), ("api_2", 1), ("api_2", 3), ("api_1", 3), ("api_3", 3)])
    assert take(tmp_path)["session_messages"] == 0


def test_a_file_that_was_made_anew_or_put_back(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.answer("api_1")
    session.answer("api_2")
    copy = session.file.read_bytes()
    session.answer("api_3")
    take(tmp_path)
    session.file.write_bytes(copy)
    session.desk.open()
    take(tmp_path)
    session.answer("api_4")
    assert take(tmp_path)["session_acks"] == 1
    session.host.set_aside()
    session.desk.open()
    session.answer("api_5")
    assert take(tmp_path)["session_acks"] == 1
    acks = rows_of(tmp_path, SESSION_ACKS)
    assert sorted(row["message"] for row in acks) == [f"api_{n}" for n in (1, 2, 3, 4, 5)]
    assert len({row["epoch"] for row in acks}) == 2


def test_a_session_that_is_gone_keeps_its_rows(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.answer("api_1")
    take(tmp_path)
    before = [rows_of(tmp_path, spec) for spec in SESSIONS]
    shutil.rmtree(session.folder)
    assert take(tmp_path) == Counter()
    assert [rows_of(tmp_path, spec) for spec in SESSIONS] == before
    assert rows_of(tmp_path, QUARANTINE) == []


# --- broken and hostile -----------------------------------------------------------------------------------------------


def truncated(session: Session, tmp_path: Path) -> None:
    session.file.write_bytes(session.file.read_bytes()[: 4096 * 2 + 100])


def no_database(session: Session, tmp_path: Path) -> None:
    session.file.write_text("this is no database " * 500)


def symlink(session: Session, tmp_path: Path) -> None:
    session.file.rename(tmp_path / "real.db")
    session.file.symlink_to(tmp_path / "real.db")


def fifo(session: Session, tmp_path: Path) -> None:
    session.file.unlink()
    os.mkfifo(session.file)


def folder(session: Session, tmp_path: Path) -> None:
    session.file.unlink()
    session.file.mkdir()


def a_view(session: Session, tmp_path: Path) -> None:
    with closing(sqlite3.connect(session.file)) as db:
        db.execute("alter table steps rename to hidden")
        db.execute("create view steps as select seq, run, at, type, data from hidden, hidden b, hidden c")


def wal(session: Session, tmp_path: Path) -> None:
    with closing(sqlite3.connect(session.file)) as db:
        db.execute("pragma journal_mode = wal")


def super_journal(session: Session, tmp_path: Path) -> None:
    """Whoever replays it deletes the file that it names."""
    victim = tmp_path / "victim"
    victim.write_bytes(JOURNAL_MAGIC + bytes(600))
    name = str(victim).encode()
    header = JOURNAL_MAGIC + bytes(8) + (1).to_bytes(4, "big") + (512).to_bytes(4, "big") * 2
    tail = (0x40000000 // 4096 + 1).to_bytes(4, "big") + name + len(name).to_bytes(4, "big")
    tail += sum(name).to_bytes(4, "big") + JOURNAL_MAGIC
    session.file.with_name("outbound.db-journal").write_bytes(header.ljust(512, b"\0") + tail)


def wrong_types(session: Session, tmp_path: Path) -> None:
    with closing(sqlite3.connect(session.file, isolation_level=None)) as db:
        db.execute("pragma writable_schema = on")
        real = db.execute("select sql from sqlite_schema where name = 'steps'").fetchone()[0]
        loose = real.replace("STRICT", "").replace(" INTEGER NOT NULL", "").replace(" TEXT NOT NULL", "")
        db.execute("update sqlite_schema set sql = ? where name = 'steps'", (loose,))
        db.execute("pragma schema_version = 1000")
    with closing(sqlite3.connect(session.file, isolation_level=None)) as db:
        db.execute("insert into steps values (1001, x'00ff', 'yesterday', 'text', 5)")
        db.execute("insert into steps values (1003, 'run_1', 9, 'text', cast(x'7b80ff7d' as text))")
        db.execute("pragma writable_schema = on")
        db.execute("update sqlite_schema set sql = ? where name = 'steps'", (real,))


def same_number(session: Session, tmp_path: Path) -> None:
    with closing(sqlite3.connect(session.file, isolation_level=None)) as db:
        db.execute("insert into steps select (select max(seq) from acks), run, at, type, data from steps")


def huge(session: Session, tmp_path: Path) -> None:
    with closing(sqlite3.connect(session.file, isolation_level=None)) as db:
        db.execute("insert into steps values (2001, 'run_1', 1, 'text', ?)", ("x" * (5 << 20),))


BROKEN = {
    truncated: "SQLite cannot read it",
    no_database: "SQLite cannot read it (file is not a database)",
    symlink: "it is not a regular file",
    fifo: "it is not a regular file",
    folder: "it is not a regular file",
    a_view: "its tables are not those of a mailbox",
    wal: "its header says WAL; a mailbox has a rollback journal",
    super_journal: "a hot journal lies beside it; the desk repairs it when it next opens its mailbox",
    wrong_types: "it was read without row 1001 of steps: run is not what it has to be",
    same_number: "is out of order or not odd",
    huge: "SQLite cannot read it (string or blob too big)",
}


def everything(folder: Path) -> dict[str, Any]:
    """Every name below the folder, and what lies there: kind, bytes and time of change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        at = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else None
        found[str(path.relative_to(folder))] = (at.st_mode, digest, at.st_mtime_ns, at.st_nlink)
    return found


def test_what_is_broken_is_told_of_once_and_the_rest_is_read(tmp_path: Path) -> None:
    for number, (broken, _) in enumerate(BROKEN.items()):
        session = Session(tmp_path, f"s{number:02d}")
        session.answer("api_1")
        (tmp_path / f"s{number:02d}").mkdir()
        broken(session, tmp_path / f"s{number:02d}")
        if not session.file.is_symlink():
            session.settle()
    Session(tmp_path, "sound").answer("api_1")
    before = everything(tmp_path / "sessions")
    assert take(tmp_path)["quarantine"] == len(BROKEN)
    told = rows_of(tmp_path, QUARANTINE)
    for row, (broken, reason) in zip(told, BROKEN.items(), strict=True):
        assert reason in row["reason"], broken.__name__
        assert row["path"] == f"sessions/coder/{row['session']}/out/outbound.db"
    assert (tmp_path / f"s{list(BROKEN).index(super_journal):02d}" / "victim").exists()
    assert everything(tmp_path / "sessions") == before

    # what is met before the damage is taken, and what stands beside a row that is none
    steps = Counter(row["session"] for row in rows_of(tmp_path, SESSION_STEPS))
    names = {broken.__name__: f"s{number:02d}" for number, broken in enumerate(BROKEN)}
    assert steps == {"sound": 1, names["wrong_types"]: 2, names["same_number"]: 2}
    odd = next(row for row in rows_of(tmp_path, SESSION_STEPS) if row["seq"] == 1003)
    assert odd["data"] == "{\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}}"

    assert take(tmp_path)["quarantine"] == 0
    repaired = Session(tmp_path, names["no_database"])  # the next runner begins a new epoch
    repaired.answer("api_1")
    assert take(tmp_path)["session_acks"] == 1
    assert take(tmp_path)["quarantine"] == 0
    known = {row["path"]: row["reason"] for row in rows_of(tmp_path, SESSION_FILES)}
    assert known[f"sessions/coder/{names['no_database']}/out/outbound.db"] is None


def test_a_hot_journal_is_repaired_by_its_desk_and_then_read(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.answer("api_1")
    journal = session.file.with_name("outbound.db-journal")
    journal.write_bytes(JOURNAL_MAGIC + bytes(600))
    session.settle()
    assert take(tmp_path)["quarantine"] == 1
    journal.write_bytes(b"")
    session.settle()
    assert take(tmp_path)["session_acks"] == 1


def test_a_writer_that_waits_for_no_disk_is_not_taken_for_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path)
    session.answer("api_1")
    session.settle()
    writer = sqlite3.connect(session.file, isolation_level=None, check_same_thread=False)
    writer.execute("pragma journal_mode = truncate")
    writer.execute("pragma synchronous = off")
    writer.execute("begin immediate")
    writer.execute("update meta set last_seq = last_seq + 4")
    journal = session.file.with_name("outbound.db-journal")
    assert journal.read_bytes().startswith(JOURNAL_MAGIC), "it looks as if the writer had died"
    looks = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            writer.execute("commit")

    # of this module alone: threads that earlier tests have left here sleep, too
    waiting = SimpleNamespace(sleep=wait, monotonic=time.monotonic)
    monkeypatch.setattr("manydesks.pipeline.sources.mailbox.time", waiting)
    assert take(tmp_path)["session_acks"] == 1
    assert len(looks) == 3
    assert rows_of(tmp_path, QUARANTINE) == []
    writer.close()


def test_a_file_that_somebody_holds_is_left_to_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "LOCK_SECONDS", 0.01)
    session = Session(tmp_path)
    session.answer("api_1")
    session.settle()
    holder = sqlite3.connect(session.file, isolation_level=None)
    holder.execute("begin exclusive")
    assert take(tmp_path)["session_acks"] == 0
    assert rows_of(tmp_path, QUARANTINE) == []
    holder.close()
    assert take(tmp_path)["session_acks"] == 1


def test_a_file_that_goes_while_the_job_reads(tmp_path: Path) -> None:
    for name in ("s1", "s2"):
        Session(tmp_path, name).answer("api_1")
    gone = tmp_path / "sessions" / "coder" / "s1" / "out" / "outbound.db"
    assert take(tmp_path, progress=lambda *_: gone.unlink(missing_ok=True))["session_acks"] == 1
    (row,) = rows_of(tmp_path, QUARANTINE)
    assert (row["session"], row["reason"]) == ("s1", "it is empty, or was removed before it could be read")


# --- large ------------------------------------------------------------------------------------------------------------


def test_a_large_file_is_read_in_parts_and_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SPLIT_BYTES", 20_000)
    monkeypatch.setattr(mailbox, "PAGE_ROWS", 3)
    session = Session(tmp_path)
    for number in range(40):
        session.give(f"api_{number}", text="x" * 1_000, fence=number + 1)
        session.answer(f"api_{number}", text="y" * 1_000)
    folder, links = tmp_path / "sessions", tmp_path / "links"
    links.mkdir()
    for side, size in (("in", 60_000), ("out", 100_000)):
        part = mailbox.Part(side=side, cursor=mailbox.Cursor())
        whole = source.Piece(path="p", agent="coder", session="s1", part=part, size=size)
        assert len(source.cut(whole, folder, links)) > 2
    counts = take(tmp_path)
    assert (counts["session_messages"], counts["session_steps"], counts["session_acks"]) == (80, 40, 40)
    assert [row["seq"] for row in rows_of(tmp_path, SESSION_STEPS)] == sorted(
        {row["seq"] for row in rows_of(tmp_path, SESSION_STEPS)}
    )
    assert {row["id"] for row in rows_of(tmp_path, SESSION_MESSAGES) if row["side"] == "in"} == {
        f"api_{number}" for number in range(40)
    }
    session.answer("api_40")
    assert take(tmp_path)["session_steps"] == 1


def test_beyond_a_part_that_failed_nothing_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run goes on after the highest number that the lake has: a gap below it would stay for ever."""
    monkeypatch.setattr(source, "SPLIT_BYTES", 20_000)
    session = Session(tmp_path)
    for number in range(40):
        session.answer(f"api_{number}", text="y" * 1_000)
    real, failed = mailbox.pages, False

    def fails_once(folder: Path, part: mailbox.Part, *more: Any) -> Any:
        nonlocal failed
        if part.side == "out" and part.after and not failed:
            failed = True
            return mailbox.Seen(outcome="later", reached=part.after)
        return (yield from real(folder, part, *more))

    monkeypatch.setattr(mailbox, "pages", fails_once)
    first = take(tmp_path)["session_steps"]
    assert 0 < first < 40
    assert first + take(tmp_path)["session_steps"] == 40
    assert len({row["seq"] for row in rows_of(tmp_path, SESSION_STEPS)}) == 40


def test_files_are_packed_evenly() -> None:
    part = mailbox.Part(side="out", cursor=mailbox.Cursor(epoch="ab" * 8, given=(2, 4)))
    sizes = [100_000] * 500 + [30 << 20]
    pieces = [
        source.Piece(path=f"p{number}", agent="a", session=f"s{number}", part=part, size=size)
        for number, size in enumerate(sizes)
    ]
    bundles = source.pack(pieces)
    assert len(bundles) == 8
    assert sorted(piece.path for bundle in bundles for piece in bundle.pieces) == sorted(piece.path for piece in pieces)
    weights = sorted(sum(piece.size for piece in bundle.pieces) for bundle in bundles)
    assert weights[-1] == 30 << 20  # the large one has a partition to itself
    assert weights[-2] - weights[0] <= 100_000
    assert len(source.pack(pieces[:3])) == 1
    assert source.pack([]) == []


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    part = mailbox.Part(side="in", cursor=mailbox.Cursor(fence=7, given=(2, 4)), after=3, fence=9)
    piece = source.Piece(path="p", agent="a", session="s", part=part, size=5)
    source.write_plan(tmp_path / "plan", [source.Bundle(0, (piece,))])
    assert source.read_plan(tmp_path / "plan") == [source.Bundle(0, (piece,))]


# --- killed -----------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """As good as a kill: nothing of ours catches it."""


@pytest.mark.parametrize("commits", range(5))
def test_ended_after_any_commit_it_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    session, broken = Session(tmp_path), Session(tmp_path, "s2")
    session.give("api_1")
    session.answer("api_1")
    take(tmp_path)
    session.give("api_2", "api_3", fence=2)
    session.answer("api_2", fence=2)
    no_database(broken, tmp_path)
    left = commits

    def then_killed(real: Callable[..., int]) -> Callable[..., int]:
        def called(*args: Any) -> int:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return real(*args)

        return called

    with monkeypatch.context() as patch:
        for name in ("append_files_once", "replace_all_files"):
            patch.setattr(tables, name, then_killed(getattr(tables, name)))
        with pytest.raises(Killed):
            take(tmp_path)
    take(tmp_path)
    session.answer("api_3", fence=2)
    take(tmp_path)
    given = [(row["id"], row["fence"]) for row in rows_of(tmp_path, SESSION_MESSAGES) if row["side"] == "in"]
    assert sorted(given) == [("api_1", 1), ("api_2", 2), ("api_3", 2)]
    for spec in (SESSION_STEPS, SESSION_ACKS):
        assert len(rows_of(tmp_path, spec)) == len({row["seq"] for row in rows_of(tmp_path, spec)}) == 3
    assert len(rows_of(tmp_path, QUARANTINE)) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from manydesks.domain.clock import SystemClock
from manydesks.pipeline.jobs.sessions import Sessions
from manydesks.pipeline.lock import hold
from manydesks.mailbox import hostile
home = Path(sys.argv[1])
real, looks = hostile._begin, 0

def begin(*args):
    global looks
    looks += 1
    if looks == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)

hostile._begin = begin
with hold(home / "lake") as held:
    Sessions(home, held, None, lambda *_: None, SystemClock()).go()
"""


def test_killed_while_it_reads_it_leaves_nothing_in_a_session(tmp_path: Path) -> None:
    for number in range(6):
        Session(tmp_path, f"s{number}").answer("api_1")
    before = everything(tmp_path / "sessions")
    ran = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ran.returncode == -signal.SIGKILL
    assert take(tmp_path)["session_acks"] == 6
    assert everything(tmp_path / "sessions") == before
    assert list((tmp_path / "run").iterdir()) == []


# --- many, some of them in use ----------------------------------------------------------------------------------------

#: how many sessions there are; each has two files
SESSIONS_MADE = 1_000

#: writes into three desks' files all the time, and counts how often in a row it was turned away
WRITER = """
import json, select, sqlite3, sys, time
files = [sqlite3.connect(path, isolation_level=None, timeout=0) for path in sys.argv[1:]]
for db in files:
    db.execute("pragma journal_mode = truncate")
    db.execute("pragma synchronous = off")
commits = worst = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    for db in files:
        row = 0
        while True:
            try:
                db.execute("begin immediate")
                seq = db.execute("select last_seq + 4 from meta").fetchone()[0]
                db.execute("insert into steps values (?, 'run_9', 9, 'text', ?)", (seq, '{"text":"' + "z" * 500 + '"}'))
                db.execute("update meta set last_seq = ?", (seq,))
                db.execute("commit")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if db.in_transaction:
                    db.execute("rollback")
                row += 1
                time.sleep(0.005)
        worst = max(worst, row)
        commits += 1
    if commits == len(files):
        print("started", flush=True)
    time.sleep(0.002)
print(json.dumps({"commits": commits, "worst": worst}))
"""


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Path]:
    model = Session(tmp_path, "model")
    model.give("api_1")
    model.answer("api_1")
    for number in range(SESSIONS_MADE - 1):
        target = model.folder.with_name(f"s{number:04d}")
        for name in ("in/inbound.db", "out/outbound.db"):
            (target / name).parent.mkdir(parents=True)
            shutil.copyfile(model.folder / name, target / name)
            os.utime(target / name, (LONG_AGO, LONG_AGO))
    model.settle()
    return tmp_path


@pytest.mark.slow
def test_two_thousand_files_some_in_use_some_broken(many: Path, spark: SparkSession) -> None:
    sessions = many / "sessions"
    used = [sessions / "coder" / f"s{number:04d}" / "out" / "outbound.db" for number in (10, 20, 30)]
    broken = {}
    for number, spoil in enumerate((truncated, symlink, fifo, super_journal, a_view), 100):
        session = Session.__new__(Session)
        session.folder = sessions / "coder" / f"s{number:04d}"
        session.file = session.folder / "out" / "outbound.db"
        (many / spoil.__name__).mkdir()
        spoil(session, many / spoil.__name__)
        broken[f"s{number:04d}"] = BROKEN[spoil]
    gone = sessions / "coder" / "s0200" / "out" / "outbound.db"
    broken["s0200"] = "it is empty, or was removed before it could be read"
    before = everything(sessions)

    command = [sys.executable, "-c", WRITER, *map(str, used)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "started\n"
        first = take(many, spark, lambda *_: gone.unlink(missing_ok=True))
        said, _ = writer.communicate("end\n", timeout=60)
    told = json.loads(said)
    # a desk tries for two seconds before it gives up: it never came near that
    assert told["worst"] < 200, told
    assert told["commits"] > 10

    assert first["session_files"] == 2 * SESSIONS_MADE
    found = {row["session"]: row["reason"] for row in rows_of(many, QUARANTINE)}
    assert found.keys() == broken.keys()
    assert all(broken[session] in found[session] for session in broken)
    assert (many / "super_journal" / "victim").exists()

    after = everything(sessions)
    ours = {str(path.relative_to(sessions)) for path in (*used, gone)}
    ours |= {f"{name}-journal" for name in ours} | {str(Path(name).parent) for name in ours}
    assert {name: at for name, at in after.items() if name not in ours} == {
        name: at for name, at in before.items() if name not in ours
    }
    assert not [name for name in after.keys() - before.keys() if not name.endswith("-journal")]

    # what the writer has written since is all that is left; then nothing is opened any more
    for path in used:
        os.utime(path, (LONG_AGO, LONG_AGO))
    take(many, spark)
    assert take(many, spark) == Counter()
    lake = rows_of(many, SESSION_STEPS)
    per_session = Counter(row["session"] for row in lake)
    assert len(lake) == len({(row["session"], row["seq"]) for row in lake})
    for path in used:
        with closing(sqlite3.connect(path)) as db:
            assert per_session.pop(path.parts[-3]) == db.execute("select count(*) from steps").fetchone()[0] > 1
    assert len(per_session) == SESSIONS_MADE - len(used) - len(broken)
    assert set(per_session.values()) == {1}
