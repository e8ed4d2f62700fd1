"""`python -m benchmarks.queue`: runs the scenarios, prints the table, writes it down."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.queue import ballast, byhand, processors, verbs, wakeup
from benchmarks.queue.measure import Setting
from benchmarks.queue.report import HEAD, machine

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "queue.txt"

SCENARIOS = {
    "cycles": verbs.cycles,
    "sends": verbs.sends,
    "backlog": verbs.backlog,
    "batches": verbs.batches,
    "one-caller": byhand.one_caller,
    "ballast": ballast.ballast,
    "lane": ballast.lane,
    "processors": processors.processors,
    "wakeup": wakeup.wakeup,
}

EXPLAINED = """\
Rates are operations (send+receive+complete is one) or messages a second; CPU µs are of all threads of the process, for
one operation. Others are compared round by round in the same run. When others take more than a tenth of the machine,
CPU and ratios decide ("ok by CPU"). How to read the table: docs/benchmarks.md."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench queue", description="Measures the queue beside its peers.")
    parser.add_argument("--quick", action="store_true", help="one small round of each: shows that all of it runs")
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="one scenario; may be given several times")
    parser.add_argument("--rounds", type=int, help="5, or 1 with --quick")
    parser.add_argument(
        "--out", type=Path, help=f"where the table goes; a whole run writes {RESULTS.relative_to(ROOT)}"
    )
    given = parser.parse_args(arguments)
    out = given.out or (None if given.quick or given.only else RESULTS)
    rounds = given.rounds or (1 if given.quick else 5)

    began, text, missed = os.getloadavg(), [HEAD], []
    print(HEAD, flush=True)
    # beside the code, not in the folder for temporary files: that is often memory, where no disk is ever waited for
    (ROOT / "build").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=ROOT / "build") as scratch:
        setting = Setting(scratch=Path(scratch), rounds=rounds, scale=0.01 if given.quick else 1)
        for name in given.only or SCENARIOS:
            section = SCENARIOS[name](setting)
            text.append(section.text())
            missed += [f"{name}: {what}" for what in section.missed]
            print(f"\n{text[-1]}", flush=True)
    text += [EXPLAINED, machine(began, rounds), f"missed: {'; '.join(missed) or 'none'}"]
    print("\n" + "\n\n".join(text[-3:]))
    if out is not None:
        out.write_text("\n\n".join(text) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
