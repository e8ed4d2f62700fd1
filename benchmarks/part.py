"""A part of ManyDesks that is measured: its scenarios, one after the other, and the table that comes of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Setting, own_seconds
from benchmarks.report import Section, machine

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Part:
    #: the word after `scripts/bench`, and the name of the file with the results
    name: str
    #: one line for people
    summary: str
    scenarios: Mapping[str, Callable[[Setting], Section]]
    rounds: int
    #: over the columns
    head: str
    #: under the table
    explained: str
    #: versions of what was measured
    versions: Callable[[], Sequence[str]]

    def run(self, arguments: Sequence[str]) -> int:
        """Prints the table and writes it down. The exit code: 1 if a target was missed, but for a quick look, whose
        figures mean nothing."""
        results = ROOT / "benchmarks" / "results" / f"{self.name}.txt"
        parser = argparse.ArgumentParser(prog=f"scripts/bench {self.name}", description=self.summary)
        parser.add_argument("--quick", action="store_true", help="one small round of each: shows that all of it runs")
        parser.add_argument("--only", choices=self.scenarios, action="append", help="one scenario; may be repeated")
        parser.add_argument("--rounds", type=int, help=f"{self.rounds}, or 1 with --quick")
        parser.add_argument(
            "--out", type=Path, help=f"where the table goes; a whole run writes {results.relative_to(ROOT)}"
        )
        given = parser.parse_args(arguments)
        out = given.out or (None if given.quick or given.only else results)
        rounds = given.rounds or (1 if given.quick else self.rounds)

        began, text, missed, unwaited = os.getloadavg(), [self.head], [], 0.0
        print(self.head, flush=True)
        # beside the code, not in the folder for temporary files: that is often memory, where no disk is ever waited for
        (ROOT / "build").mkdir(exist_ok=True)
        with TemporaryDirectory(dir=ROOT / "build") as scratch:
            setting = Setting(scratch=Path(scratch), rounds=rounds, scale=0.01 if given.quick else 1)
            for name in given.only or self.scenarios:
                section = self.scenarios[name](setting)
                text.append(section.text())
                unwaited += section.company.unwaited
                missed += [f"{name}: {what}" for what in section.missed]
                print(f"\n{text[-1]}", flush=True)
        about = machine(began, rounds, own_seconds() + unwaited, self.versions())
        text += [self.explained, about, f"missed: {'; '.join(missed) or 'none'}"]
        print("\n" + "\n\n".join(text[-3:]))
        if out is not None:
            out.write_text("\n\n".join(text) + "\n")
        return 1 if missed and not given.quick else 0
