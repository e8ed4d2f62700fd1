"""Runners of rehearsal in bubblewrap: how soon one sits down, and how much memory it holds while it waits."""

from __future__ import annotations

import os
import statistics
from pathlib import Path

from benchmarks.desk.offices import hire, office, timed
from benchmarks.measure import Setting, company
from benchmarks.report import Fact, Section

TARGET_MB = 60.0


def runners(setting: Setting) -> Section:
    cold, warm = [], []
    with company() as heard, office(heard) as made:
        for number in range(setting.rounds):
            hire(made, f"a{number}")
            cold.append(timed(made, f"a{number}", "!say hello") * 1000)
            warm.append(timed(made, f"a{number}", "!say hello") * 1000)
        sizes = [_resident(pid) / 1e6 for pid in _of(made.home.path)]
    return Section(
        title=f"Rehearsal in bubblewrap: {setting.rounds} runners",
        lines=[
            Fact(what="a turn, cold", value=f"p50 {statistics.median(cold):.0f} ms"),
            Fact(what="a turn, warm", value=f"p50 {statistics.median(warm):.0f} ms"),
            Fact(
                what="an idle runner, resident",
                value=f"at most {max(sizes):.1f} MB of {len(sizes)} runners",
                target=f"≤ {TARGET_MB:g} MB",
                holds=max(sizes) <= TARGET_MB,
            ),
        ],
        company=heard,
    )


def _of(home: Path) -> list[int]:
    """The runners of this office: they are started with a folder of its home. bwrap, which has it too, is none."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
        except OSError:
            continue  # it has ended meanwhile
        ours = any(word.startswith(os.fsencode(home) + b"/") for word in words)
        if ours and b"manydesks.runner" in words and "python" in Path(os.fsdecode(words[0])).name:
            found.append(int(entry.name))
    return found


def _resident(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
