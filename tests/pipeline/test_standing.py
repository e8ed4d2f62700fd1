"""How a lake stands, by its logs and locks alone: no Spark is started here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow as pa
import pyarrow.parquet as pq

from manydesks.cli.pipeline.status import remarks
from manydesks.domain.clock import SystemClock
from manydesks.domain.errors import FileDamaged, LakeRefused
from manydesks.domain.insight import FILE
from manydesks.pipeline import tables
from manydesks.pipeline.beginning import begin
from manydesks.pipeline.bronze import BODIES, EVENTS, PIPELINE_RUNS
from manydesks.pipeline.gold import AGENT_DAILY, GOLD
from manydesks.pipeline.jobs.archive import Archive, archive, check_archive
from manydesks.pipeline.jobs.compact import compact
from manydesks.pipeline.jobs.erase import MARK as ERASURES
from manydesks.pipeline.jobs.runs import recorded
from manydesks.pipeline.jobs.watch import Watch, level
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.lock import hold, watching
from manydesks.pipeline.publish import publish
from manydesks.pipeline.quality import why_refused
from manydesks.pipeline.rebuilding import begin_rebuild, unbuilt
from manydesks.pipeline.silver import MESSAGES, RUNS, SILVER
from manydesks.pipeline.sources.ledger import VIEWS, Window, read_view
from manydesks.pipeline.standing import standing
from manydesks.pipeline.stop import Stop

if TYPE_CHECKING:
    from manydesks.pipeline.columns import TableSpec

CLOCK = SystemClock()


def reach(lake: Path, upto: int, *specs: TableSpec) -> None:
    """What a run leaves in the log of these tables, without the rows."""
    seen = {tables.REBUILD: tables.rebuilds(lake)}
    with hold(lake) as held:
        for spec in specs:
            tables.ensure(held, spec)
            tables.advance(held, spec, tables.Mark(app=spec.name, version=upto, also=seen), CLOCK)


def take(lake: Path, db: Path, upto: int) -> None:
    """The events go into bronze, read as the archive reads them; of their texts it is only said that they are there."""
    view = VIEWS["export_events"]

    def write(folder: Path) -> None:
        after = tables.covered(lake, EVENTS, EVENTS.name)
        batches = list(read_view(db, view, Window(after + 1, upto), adbc=False))
        pq.write_table(pa.Table.from_batches(batches), folder / "part-0.parquet")

    with hold(lake) as held:
        tables.ensure(held, EVENTS)
        mark = tables.Mark(app=EVENTS.name, version=upto)
        tables.append_files_once(held, EVENTS, write, mark, CLOCK, lambda written: None)
        if not tables.covered(lake, BODIES, BODIES.name):
            tables.ensure(held, BODIES)
            tables.advance(held, BODIES, tables.Mark(app=BODIES.name, version=upto), CLOCK)


def finish(lake: Path, upto: int) -> None:
    """What the end of a run leaves."""
    with hold(lake) as held:
        publish(held, CLOCK)
        tables.ensure(held, BODIES)
        tables.advance(held, BODIES, tables.Mark(app=ERASURES, version=upto), CLOCK)


def tell(lake: Path, upto: int, *, ok: bool = True) -> None:
    """The row about a run."""
    row = {"job": "run", "started_at": upto, "ended_at": upto, "seconds": 0.1, "ok": ok, "to_seq": upto}
    with hold(lake) as held:
        tables.append_row(held, PIPELINE_RUNS, row, CLOCK)


def test_no_lake_is_level_with_an_empty_ledger_only(ledger: Any, lake: Path) -> None:
    found = standing(lake, ledger.path)
    assert (found.bronze, found.published, found.behind, found.level) == (0, None, 0, True)
    ledger.add(4)
    found = standing(lake, ledger.path)
    assert (found.behind, found.level, found.broken_off, remarks(found)) == (4, True, False, [])
    assert not lake.exists()


def test_each_layer_is_told_and_what_was_broken_off(ledger: Any, lake: Path) -> None:
    ledger.add(9)
    take(lake, ledger.path, 6)
    reach(lake, 6, *SILVER, *GOLD)
    finish(lake, 6)
    tell(lake, 6)
    found = standing(lake, ledger.path)
    assert (found.bronze, found.silver, found.gold, found.published, found.erased) == (6, 6, 6, 6, 6)
    assert (found.behind, found.level, found.broken_off, remarks(found)) == (3, True, False, [])

    # a run that was killed in silver: bronze is level with the ledger, and nothing else is
    take(lake, ledger.path, 9)
    reach(lake, 9, MESSAGES)
    found = standing(lake, ledger.path)
    assert (found.bronze, found.silver, found.gold, found.published, found.behind) == (9, 6, 6, 6, 0)
    assert (found.level, found.broken_off) == (False, True)
    (said,) = remarks(found)
    assert said.startswith("A run was broken off before its end")
    assert said.endswith("`manydesks pipeline run` goes on where it was.")

    # killed in gold, and before it was published
    reach(lake, 9, *SILVER)
    assert (standing(lake, ledger.path).silver, standing(lake, ledger.path).gold) == (9, 6)
    reach(lake, 9, *GOLD)
    found = standing(lake, ledger.path)
    assert (found.gold, found.published, found.broken_off) == (9, 6, True)
    finish(lake, 9)
    assert standing(lake, ledger.path).level


def test_a_damaged_file_is_told_with_what_to_do(ledger: Any, lake: Path) -> None:
    ledger.add(6)
    take(lake, ledger.path, 6)
    reach(lake, 6, *SILVER, *GOLD)
    finish(lake, 6)
    tell(lake, 6)
    assert level(lake)
    path = lake / FILE
    whole = path.read_bytes()
    for content in (b"garbage" * 1000, b"", whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(content)
        found = standing(lake, ledger.path)
        assert (found.published, found.level, found.broken_off, level(lake)) == (None, False, False, False)
        (said,) = remarks(found)
        assert said.startswith(f"What is published for agents and the report is damaged ({path}: ")
        assert said.endswith("); `manydesks pipeline run` makes it anew.")
    finish(lake, 6)
    found = standing(lake, ledger.path)
    assert (found.published, found.damage, found.level, remarks(found)) == (6, None, True, [])


def test_texts_that_were_forgotten_are_counted_until_the_lake_has_let_go_of_them(ledger: Any, lake: Path) -> None:
    ledger.add(3)
    ledger.add(1, kind="body_erased", body=1)
    assert standing(lake, ledger.path).forgotten == 0  # there is no lake that could have it
    take(lake, ledger.path, 4)
    reach(lake, 4, *SILVER, *GOLD)
    finish(lake, 4)
    tell(lake, 4)
    assert standing(lake, ledger.path).forgotten == 0

    # in the ledger only; and level as the lake is, it is said
    ledger.add(1, kind="body_erased", body=2)
    found = standing(lake, ledger.path)
    assert (found.forgotten, found.level, found.behind) == (1, True, 1)
    assert remarks(found) == [
        "1 text that was forgotten may still be in the lake until the next `manydesks pipeline run`; older versions of "
        "its files have it until `manydesks pipeline compact --vacuum --keep 0h` after that."
    ]
    # archived by a run that was killed before it came to them, and let go of by the store
    ledger.add(1, kind="body_erased", body=3)
    take(lake, ledger.path, 6)
    ledger.execute("delete from events where seq <= 5")
    with watching(lake):
        found = standing(lake, ledger.path)
        assert (found.forgotten, found.erased) == (2, 4)
        assert remarks(found)[0].startswith("2 texts that were forgotten may still be in the lake until the watch has")
    finish(lake, 6)
    assert standing(lake, ledger.path).forgotten == 0


def test_a_rebuild_that_was_broken_off_is_known_until_it_has_come_to_its_end(ledger: Any, lake: Path) -> None:
    """Although each table reaches as far as before, and no event is new."""
    ledger.add(9)
    with hold(lake) as held:
        tables.ensure(held, EVENTS)
        begin_rebuild(held, CLOCK)  # of nothing
    assert tables.rebuilds(lake) == 0
    take(lake, ledger.path, 9)
    reach(lake, 9, *SILVER, *GOLD)
    finish(lake, 9)
    tell(lake, 9)
    assert (standing(lake, ledger.path).level, level(lake), bool(unbuilt(lake))) == (True, True, False)

    with hold(lake) as held:
        begin_rebuild(held, CLOCK)
        (said,) = remarks(standing(lake, ledger.path))
    assert said.startswith("A rebuild has not come to its end yet; still to be made anew: all of silver; all of gold;")
    found = standing(lake, ledger.path)
    assert (found.silver, found.gold, found.published, found.behind) == (9, 9, 9, 0)
    assert (found.level, level(lake), found.broken_off, found.outdated) == (False, False, False, ())
    assert {tables.reached(lake, spec) for spec in (*SILVER, *GOLD)} == {0}
    broken_off = "A rebuild was broken off before its end. Still to be made anew:"
    assert remarks(found) == [
        f"{broken_off} all of silver; all of gold; what is published; `manydesks pipeline run` does so."
    ]

    # killed between two tables
    reach(lake, 9, *(spec for spec in SILVER if spec not in (MESSAGES, RUNS)))
    assert unbuilt(lake).silver == ("messages", "runs")
    with watching(lake):
        (said,) = remarks(standing(lake, ledger.path))
    assert said.startswith(f"{broken_off} messages, runs of silver; all of gold; what is published;")
    assert said.endswith("; the watch does so with its next round.")
    # and once more, from the beginning
    with hold(lake) as held:
        begin_rebuild(held, CLOCK)
    assert len(unbuilt(lake).silver) == len(SILVER)

    # killed before it was published
    reach(lake, 9, *SILVER, *GOLD)
    found = standing(lake, ledger.path)
    assert (found.level, level(lake)) == (False, False)
    assert remarks(found) == [f"{broken_off} what is published; `manydesks pipeline run` does so."]
    finish(lake, 9)
    found = standing(lake, ledger.path)
    assert (found.level, level(lake), remarks(found)) == (True, True, [])


def test_what_a_watch_has_left_or_a_run_that_failed_is_not_called_broken_off(ledger: Any, lake: Path) -> None:
    ledger.add(9)
    take(lake, ledger.path, 9)
    for ok in (True, False):
        tell(lake, 9, ok=ok)
        found = standing(lake, ledger.path)
        assert (found.level, found.broken_off) == (False, False)
        assert remarks(found)[0].startswith("What bronze has is not yet in all of silver")


def test_a_run_that_goes_on_is_told_and_not_called_broken_off(ledger: Any, lake: Path) -> None:
    ledger.add(9)
    take(lake, ledger.path, 9)
    with hold(lake):
        found = standing(lake, ledger.path)
        assert (found.worker, found.watcher, found.broken_off) == (str(os.getpid()), None, False)
        assert remarks(found) == []
    with watching(lake):
        found = standing(lake, ledger.path)
        assert (found.worker, found.watcher, found.broken_off) == (None, str(os.getpid()), False)
    assert standing(lake, ledger.path).broken_off
    with hold(lake):  # who has looked is not in the way
        pass


def test_a_lake_of_another_ledger(ledger: Any, lake: Path) -> None:
    ledger.add(4)
    reach(lake, 9, EVENTS)
    found = standing(lake, ledger.path)
    assert (found.ahead, found.behind) == (5, 0)
    assert "reaches event 9, but the ledger ends at 4" in remarks(found)[0]
    ledger.execute("delete from events")
    assert remarks(standing(lake, ledger.path))[0].startswith("The lake is of another ledger")
    # as high, and another history
    ledger.add(9)
    found = standing(lake, ledger.path)
    assert (found.ahead, found.behind) == (0, 0)
    assert "event 9 is not the same" in remarks(found)[0]


def test_a_lost_lake_and_a_store_that_has_let_go(ledger: Any, lake: Path) -> None:
    ledger.add(9)
    ledger.execute("delete from events where seq <= 5")
    (said,) = remarks(standing(lake, ledger.path))
    assert "events 1 to 5 are missing" in said
    assert "Put a copy of the lake in its place, which keeps everything" in said
    assert "`manydesks pipeline run --begin-incomplete` begins with event 6" in said
    with hold(lake) as held:
        tables.ensure(held, EVENTS)
        begin(held, 6, CLOCK)
    # a run that is killed here is taken up with or without the flag
    found = standing(lake, ledger.path)
    assert (found.begins, found.bronze, found.behind, found.refusal) == (6, 5, 4, None)
    assert why_refused(lake, ledger.path, incomplete=True) is None
    assert remarks(found)[0] == "The lake begins with event 6: what happened before is in none of its tables."


def test_a_lost_log_of_the_archive_is_told(ledger: Any, lake: Path) -> None:
    ledger.add(5)
    take(lake, ledger.path, 5)
    reach(lake, 5, *SILVER, *GOLD)
    assert not standing(lake, ledger.path).lost
    shutil.rmtree(lake / EVENTS.folder / "_delta_log")
    found = standing(lake, ledger.path)
    assert (found.bronze, found.silver, found.lost, found.refusal) == (0, 5, True, None)
    words = remarks(found)[0]
    assert words.startswith("Bronze has lost events that silver and gold were made of")
    assert words.endswith("`manydesks pipeline run` reads them from the store again.")


def test_lost_texts_of_the_archive_are_told(ledger: Any, lake: Path) -> None:
    ledger.add(9)
    take(lake, ledger.path, 9)
    assert not standing(lake, ledger.path).lacks_texts
    shutil.rmtree(lake / BODIES.folder)
    found = standing(lake, ledger.path)
    assert (found.lacks_texts, found.refusal) == (True, None)
    words = remarks(found)[0]
    assert words.startswith("Bronze has lost texts that its events name")
    assert words.endswith("`manydesks pipeline run` reads them from the store again.")


def test_a_lake_that_ends_before_the_store_begins(ledger: Any, lake: Path) -> None:
    """An older copy of it, or a store that lets go of what was not archived."""
    ledger.add(9)
    take(lake, ledger.path, 3)
    ledger.execute("delete from events where seq <= 5")
    for incomplete in (False, True):
        said = why_refused(lake, ledger.path, incomplete=incomplete) or ""
        assert "events 4 to 5 are missing" in said
        assert "name another place in the setting pipeline.lake" in said
    ledger.execute("delete from events where seq <= 8")
    assert why_refused(lake.with_name("other"), ledger.path, incomplete=True) is None


def test_texts_that_only_the_lake_had_are_missed(ledger: Any, lake: Path) -> None:
    """Of nine events the third, the sixth and the last have a text; the table of texts ends with the first."""
    ledger.add(9)
    take(lake, ledger.path, 9)
    reach(lake, 1, BODIES)
    # the store has them all, and a run reads them again
    assert why_refused(lake, ledger.path) is None
    # it has let go of the first event with its text, which the lake has, and of the second, whose text is still there
    ledger.execute("delete from events where seq <= 6")
    ledger.execute("delete from bodies where id = 1")
    assert why_refused(lake, ledger.path) is None
    ledger.execute("delete from bodies where id = 2")
    (said,) = [line for line in remarks(standing(lake, ledger.path)) if "texts" in line]
    assert "lacks texts that its events name (1 of them)" in said
    assert f"{lake / BODIES.folder} ends with text 1" in said
    with pytest.raises(LakeRefused, match="lacks texts"):
        check_archive(ledger.path, lake)
    # whoever means it goes on
    assert why_refused(lake, ledger.path, incomplete=True) is None
    # a store that has let go of everything
    ledger.execute("delete from events")
    ledger.execute("delete from bodies")
    assert "(2 of them)" in (why_refused(lake, ledger.path) or "")


def test_a_rebuild_does_not_begin_without_all_of_bronze(ledger: Any, lake: Path) -> None:
    """As it was, the lake could go on; a rebuild that no run can finish would stop them all."""
    ledger.add(9)
    take(lake, ledger.path, 5)
    take(lake, ledger.path, 9)
    reach(lake, 9, *SILVER)
    for file in tables.files(lake, EVENTS):
        whole = file.read_bytes()
        for damage in (b"", whole[:50], None):
            file.write_bytes(damage) if damage is not None else file.unlink()
            with hold(lake) as held, pytest.raises(FileDamaged, match="it is the archive itself"):
                begin_rebuild(held, CLOCK)
        file.write_bytes(whole)
    assert (tables.rebuilds(lake), unbuilt(lake).silver) == (0, ())
    with hold(lake) as held:
        begin_rebuild(held, CLOCK)
    assert tables.rebuilds(lake) == 1


def test_a_lake_of_another_office_stays_as_it_is(
    ledger: Any, lake: Path, tmp_path: Path, make_ledger: Callable[[Path], Any]
) -> None:
    other = make_ledger(tmp_path / "other.db")
    other.add(20)
    take(lake, other.path, 20)
    (lake / EVENTS.folder / "data" / "0123456789abcdef").mkdir()  # as a killed attempt leaves it
    (lake / ".lock").unlink()
    (lake / ".next").unlink()
    ledger.add(20, agent="another history")
    spark: Any = None  # it is not asked
    before = sorted(lake.rglob("*"))
    for bring in (archive, run):
        with pytest.raises(LakeRefused, match="event 20 is not the same"):
            bring(ledger.path, lake, spark, print)
    with pytest.raises(LakeRefused, match="event 20 is not the same"):
        Watch(ledger.path, lake, spark, tmp_path, told=print, archived=bool, stop=Stop()).run()
    with pytest.raises(LakeRefused, match="event 20 is not the same"):
        compact(lake, print, CLOCK, db=ledger.path, keep_hours=0)
    assert sorted(lake.rglob("*")) == before

    # also if it is found out only once the lake is held
    with hold(lake) as held:
        held_before = sorted(lake.rglob("*"))
        with pytest.raises(LakeRefused), recorded(held, CLOCK, "run"):
            Archive(ledger.path, held, spark, print, CLOCK).go()
        assert sorted(lake.rglob("*")) == held_before

    # its own store, and none at all
    assert [one.name for one in compact(lake, print, CLOCK, db=other.path)] == [EVENTS.name, BODIES.name]
    assert len(compact(lake, print, CLOCK)) == 3  # and the table of runs by now


def test_tables_that_are_made_otherwise_by_now(ledger: Any, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.add(9)
    take(lake, ledger.path, 9)
    reach(lake, 9, *SILVER, *GOLD)
    finish(lake, 9)
    tell(lake, 9)
    monkeypatch.setattr(tables, "making_of", lambda spec: 1_000 if spec is AGENT_DAILY else 0)
    found = standing(lake, ledger.path)
    assert (found.gold, found.outdated, found.level) == (9, ("agent_daily",), False)
    assert remarks(found) == ["Tables are made in another way by now (agent_daily); the next run does so."]
