"""Archive before prune: the real store lets go of exactly what the lake holds, and there it is found again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.domain.clock import SystemClock
from manydesks.domain.envelope import Incoming
from manydesks.domain.failure import RetryPolicy
from manydesks.domain.loopguard import Limits
from manydesks.domain.mail import Ack, Collected, Outbound
from manydesks.office.keeper import prune
from manydesks.office.pipeline.reach import lake_reach
from manydesks.pipeline import lookup, tables
from manydesks.pipeline.jobs.archive import ArchiveReport, archive
from manydesks.pipeline.jobs.silver import Silver
from manydesks.pipeline.lock import hold
from manydesks.pipeline.query import query
from manydesks.pipeline.schemas import BODIES, EVENTS
from manydesks.settings.home import Home
from manydesks.settings.model import PipelineSettings, RetentionSettings
from manydesks.store.database import open_reader
from manydesks.store.deliver import Delivery
from manydesks.store.outcome import Rules
from manydesks.store.retention import Pruned
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from manydesks.pipeline.jobs.step import Progress

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MONTH = RetentionSettings(days=30)
DAY_MS = 24 * 3_600_000


class Office:
    """A store and what an office does with it, by hand and by a clock that is moved by hand."""

    def __init__(self, home: Path) -> None:
        self.db = home / "office.db"
        # a moment that the lake's days can be told of
        self.clock = ManualClock(now=1_750_000_000_000)
        self.rules = Rules(retry=RetryPolicy(jitter=0.0), limits=Limits(), rng=random.Random(1))
        self._numbers: dict[str, int] = {}
        self._count = 0
        self.open()

    def open(self) -> None:
        self.store = Store(self.db, durability="crash", clock=self.clock)

    async def answered(self, text: str, answer: str) -> str:
        """A message that has ended, delivery included."""
        self._count += 1
        incoming = Incoming(
            source="api", key=f"key_{self._count}", text=text, channel="console", platform_id="here", sender="ada"
        )
        accepted = await self.store.accept(incoming, default_agent="ada", message_bytes=1000)
        message = str(accepted.messages[0]["messageId"])
        (claimed,) = await self.store.claim(batch=10, most=10)
        about: dict[str, Any] = {"run": claimed.run, "fence": claimed.fence, "at": self.clock.now()}
        said = self._next(claimed.session)
        row = Outbound(
            id=f"out_{self._count}", seq=said, in_reply_to=message, kind="chat", content={"text": answer}, **about
        )
        ack = Ack(message=message, seq=self._next(claimed.session), status="completed", **about)
        page = Collected(epoch="ab" * 16, last_seq=ack.seq, messages=(row,), acks=(ack,), steps=(), state={})
        await self.store.take(claimed.session, page, self.rules)
        while parcels := await self.store.claim_parcels(["console"], most=100):
            for parcel in parcels:
                await self.store.settle(parcel, Delivery(receipt="r"))
        return message

    async def archive(self, lake: Path, spark: SparkSession, bring: Any) -> int:
        """What `manydesks pipeline run` does: the lake first, then the mark."""
        self.store.close()  # two SQLite libraries in one process take each other's locks
        reached = int(bring(self.db, lake, spark, lambda *_: None).to_seq)
        self.open()
        assert await self.store.mark_archived(reached) == reached
        return reached

    async def prune(self, lake: Path, rules: RetentionSettings = MONTH) -> Pruned:
        home, settings = Home(self.db.parent), PipelineSettings(lake=str(lake))
        return await prune(self.store, rules, lake=lambda: lake_reach(settings, home))

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        db = open_reader(self.db)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()

    def _next(self, session: str) -> int:
        self._numbers[session] = self._numbers.get(session, -1) + 2
        return self._numbers[session]


def up_to_silver(db: Path, lake: Path, spark: SparkSession, progress: Progress) -> ArchiveReport:
    """A run but for gold, which nobody asks here."""
    done = archive(db, lake, spark, progress)
    with hold(lake) as held:
        Silver(held, spark, progress, SystemClock()).refresh()
    return done


async def test_the_store_lets_go_of_what_the_lake_holds_and_of_nothing_else(
    tmp_path: Path, lake: Path, spark: SparkSession
) -> None:
    office = Office(tmp_path)
    await office.store.add_agent(id="ada", provider="rehearsal")
    texts = {await office.answered(f"question {n}", f"answer {n}"): n for n in range(12)}
    office.clock.advance(40 * DAY_MS)
    before = office.rows("select count(*), min(seq), max(seq) from export_events")

    # old enough, but the lake has nothing
    done = await office.prune(lake)
    assert not any(done.counts.values())
    assert done.waits_for_archive
    assert office.rows("select count(*), min(seq), max(seq) from export_events") == before

    stored = {row[0]: row for row in office.rows("select * from export_events")}
    bodies = dict(office.rows("select id, text from export_bodies"))
    mark = await office.archive(lake, spark, up_to_silver)
    assert mark == before[0][2]
    unarchived = await office.answered("a later question", "a later answer")
    office.clock.advance(40 * DAY_MS)
    # the mark stays where it is when the lake goes, or lies elsewhere
    done = await office.prune(lake.with_name("elsewhere"))
    assert (done.events, done.waits_for_archive) == (0, True)
    # nor do events go whose texts the lake has lost
    (lake / BODIES.folder).rename(tmp_path / "texts")
    done = await office.prune(lake)
    assert (done.messages, done.bodies, done.waits_for_archive) == (0, 0, True)
    without_a_text = done.events
    (tmp_path / "texts").rename(lake / BODIES.folder)
    done = await office.prune(lake)

    # exactly what the lake holds: every event up to the mark, and none above it
    left = [seq for (seq,) in office.rows("select seq from export_events order by seq")]
    assert left[0] == mark + 1
    assert without_a_text + done.events == mark
    assert (done.messages, done.waits_for_archive) == (len(texts), True)
    assert [id for (id,) in office.rows("select message_id from messages")] == [unarchived]
    held = {row["seq"]: tuple(row) for row in tables.read(spark, lake, EVENTS).collect()}
    assert held == stored
    kept = {row["id"]: row["text"] for row in tables.read(spark, lake, BODIES).collect()}
    assert kept == bodies

    # and there they are found again, texts included
    found = query(lake, "select message_id, status from messages", spark)
    assert {row[0]: row[1] for row in found.rows} == dict.fromkeys(texts, "completed")
    for message, n in list(texts.items())[::4]:
        assert office.rows("select 1 from messages where message_id = ?", message) == []
        said = query(lake, f"select role, text from transcripts where message = '{message}' order by seq", spark)
        assert said.rows == (("user", f"question {n}"), ("assistant", f"answer {n}"))

    # the next run takes what was kept for it, and only then it may go
    assert await office.archive(lake, spark, archive) == left[-1]
    await office.answered("one that is young", "and stays")
    await office.prune(lake)
    assert office.rows("select 1 from messages where message_id = ?", unarchived) == []
    assert office.rows("select count(*) from messages") == [(1,)]
    assert lookup.find(lake, EVENTS, "seq", mark + 1) != []
    office.store.close()


async def test_without_the_rule_age_alone_decides(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.store.add_agent(id="ada", provider="rehearsal")
    await office.answered("question", "answer")
    office.clock.advance(40 * DAY_MS)
    await office.answered("a young question", "a young answer")
    done = await office.prune(tmp_path / "none", RetentionSettings(days=30, require_archive=False))
    assert done.messages == 1
    assert not done.waits_for_archive
    office.store.close()
