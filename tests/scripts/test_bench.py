"""`scripts/bench`: that all of it runs, and how it judges. What it measures is for machines that do nothing else."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

QUEUE = (
    "Send, receive, complete: 64 coroutines",
    "Send: 64 coroutines",
    "messages in 10 queues",
    "Batches",
    "one thread, a transaction each",
    "completed jobs",
    "One lane",
    "a handler that does nothing",
    "Wake-up",
)
OFFICE = (
    "The host idle",
    "From the stored message to the run",
    "End to end",
    "sessions known",
    "messages for one agent",
    "One message to 50 agents",
)
API = ("POST /api/message", "GET /api/queue/status", "Events a second")
DESK = ("Rehearsal inside the host", "Rehearsal in bubblewrap", "claude by hand", "at work at once")


def quick_run(part: str, tmp_path: Path) -> str:
    table = tmp_path / "table.txt"
    command = [sys.executable, "-m", f"benchmarks.{part}", "--quick", "--out", str(table)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = table.read_text()
    assert str(ROOT) not in text
    assert str(tmp_path) not in text
    return text


def verdict_of(text: str, what: str) -> str:
    return next(line for line in text.splitlines() if what in line).split()[-1]


def test_a_quick_run_goes_through_every_scenario_and_names_no_place(tmp_path: Path) -> None:
    text = quick_run("queue", tmp_path)
    assert [title for title in QUEUE if title not in text] == []
    assert verdict_of(text, "same rows") == "ok"
    assert verdict_of(text, "claimed in order") == "ok"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_quick_run_seats_desks_of_every_kind(tmp_path: Path) -> None:
    text = quick_run("desk", tmp_path)
    assert [title for title in DESK if title not in text] == []
    # these do not depend on who else uses the machine
    for what in ("an idle runner", "answered at the first attempt"):
        assert verdict_of(text, what) == "ok"


@pytest.mark.slow
def test_a_quick_run_opens_offices(tmp_path: Path) -> None:
    text = quick_run("office", tmp_path)
    assert [title for title in OFFICE if title not in text] == []
    # these do not depend on who else uses the machine
    assert verdict_of(text, "  in order") == "ok"
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("  in memory  ")] != []


@pytest.mark.slow
def test_a_quick_run_asks_the_api(tmp_path: Path) -> None:
    text = quick_run("api", tmp_path)
    assert [title for title in API if title not in text] == []
    # this does not depend on who else uses the machine
    assert verdict_of(text, "every event once") == "ok"


def test_help_installs_nothing_and_knows_every_scenario(report: ModuleType) -> None:
    done = subprocess.run([ROOT / "scripts" / "bench", "--help"], capture_output=True, text=True, check=True)
    names = [
        name
        for part in ("queue", "desk", "office", "api")
        for name in importlib.import_module(f"benchmarks.{part}.__main__").SCENARIOS
    ]
    assert [name for name in names if name not in done.stdout] == []


def test_a_missed_target_is_an_exit_code_of_its_own_but_for_a_quick_look(report: ModuleType, tmp_path: Path) -> None:
    company = importlib.import_module("benchmarks.measure").Company()
    missed = report.Section(
        title="nothing", lines=[report.Fact(what="a line", value="2", target="1", holds=False)], company=company
    )
    part = importlib.import_module("benchmarks.part").Part(
        name="nothing",
        summary="",
        scenarios={"nothing": lambda setting: missed},
        rounds=1,
        head="",
        explained="",
        versions=list,
    )
    table = tmp_path / "table.txt"
    assert part.run(["--out", str(table)]) == 1
    assert table.read_text().endswith("missed: nothing: a line\n")
    assert part.run(["--quick"]) == 0


def test_an_unknown_part_is_refused_with_the_usage() -> None:
    done = subprocess.run([ROOT / "scripts" / "bench", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "scripts/bench queue|desk|office" in done.stderr


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.report")


@pytest.mark.parametrize(
    ("figures", "asked", "share", "verdict"),
    [
        ({"rate": 16_000, "micros": 60}, {"rate": 15_000, "micros": 65}, 0, "ok"),
        ({"rate": 16_000, "micros": 66}, {"rate": 15_000, "micros": 65}, 0, "missed"),
        ({"rate": 14_000, "micros": 60}, {"rate": 15_000, "micros": 65}, 0, "missed"),
        ({"rate": 14_000, "micros": 60}, {"rate": 15_000, "micros": 65}, 0.5, "ok by CPU"),
        ({"rate": 14_000, "micros": 66}, {"rate": 15_000, "micros": 65}, 0.5, "missed"),
        # without a figure of its own a rate leaves 1e6 / rate to the CPU
        ({"rate": 14_000, "micros": 60}, {"rate": 15_000}, 0.5, "ok by CPU"),
        ({"rate": 14_000, "micros": 70}, {"rate": 15_000}, 0.5, "missed"),
        ({"rate": 16_000, "micros": 70}, {"rate": 15_000}, 0, "ok"),
        ({"rate": 16_000, "micros": 60, "times": 1.4}, {"rate": 15_000, "times": 1.5}, 0.5, "missed"),
        ({"rate": 90_000, "micros": 7}, {"rate": 120_000, "micros": 8, "either": True}, 0, "ok"),
        ({"rate": 90_000, "micros": 9}, {"rate": 120_000, "micros": 8, "either": True}, 0, "missed"),
        ({"rate": 1, "micros": 1, "cpu_times": 1.31}, {"cpu_times": 1.3}, 0, "missed"),
        ({"rate": 1, "micros": 1, "times": 0.4, "cpu_times": 1.9}, {"times": 0.5, "cpu_times": 2}, 0, "missed"),
        ({"rate": 1, "micros": 1, "times": 0.4, "cpu_times": 1.9}, {"times": 0.5, "cpu_times": 2}, 0.5, "ok"),
        ({"rate": 1, "micros": 1, "times": 0.6, "cpu_times": 2.1}, {"times": 0.5, "cpu_times": 2}, 0.5, "missed"),
    ],
)
def test_rates_decide_on_a_quiet_machine_and_the_cpu_on_a_loaded_one(
    report: ModuleType, figures: dict[str, float], asked: dict[str, float], share: float, verdict: str
) -> None:
    company = importlib.import_module("benchmarks.measure").Company()
    company.share = share
    assert report.Target(**asked).verdict(report.Line(what="a line", **figures), company) == verdict
