"""`scripts/bench`: that all of it runs, and how it judges. What it measures is for machines that do nothing else."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCENARIOS = (
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


def test_a_quick_run_goes_through_every_scenario_and_names_no_place(tmp_path: Path) -> None:
    table = tmp_path / "table.txt"
    command = [sys.executable, "-m", "benchmarks.queue", "--quick", "--out", table]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = table.read_text()
    assert [title for title in SCENARIOS if title not in text] == []
    assert next(line for line in text.splitlines() if "same rows" in line).endswith("ok")
    assert next(line for line in text.splitlines() if "claimed in order" in line).endswith("ok")
    assert str(ROOT) not in text
    assert str(tmp_path) not in text


def test_help_installs_nothing_and_knows_every_scenario(report: ModuleType) -> None:
    done = subprocess.run([ROOT / "scripts" / "bench", "--help"], capture_output=True, text=True, check=True)
    names = importlib.import_module("benchmarks.queue.__main__").SCENARIOS
    assert [name for name in names if name not in done.stdout] == []


def test_an_unknown_part_is_refused_with_the_usage() -> None:
    done = subprocess.run([ROOT / "scripts" / "bench", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "scripts/bench queue" in done.stderr


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.queue.report")


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
    company = importlib.import_module("benchmarks.queue.measure").Company()
    company.share = share
    assert report.Target(**asked).verdict(report.Line(what="a line", **figures), company) == verdict
