"""Which boot of the machine this is, and a clock that no boot and nobody's hand sets back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw

from manydesks.domain.clock import Clock
from manydesks.store.patience import patiently

PREFIX = "boot:"


def boot_id() -> str:
    """Leases count on this boot's clock; after another boot they are over."""
    try:
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def steady_offset(db: apsw.Connection, clock: Clock, boot: str) -> int:
    """What turns milliseconds since the boot into the file's steady time.

    Steady time is the wall clock's as it was when the file was first opened after the boot, and goes on from there: a
    wait that was promised in seconds takes those seconds, whatever becomes of the wall clock. At the next boot it
    begins no earlier than the last event, so that a clock which comes up in the past freezes nothing.
    """
    known: list[tuple[Any, ...]] = db.execute("select seq from marks where name = ?", (PREFIX + boot,)).fetchall()
    if not known:
        patiently(lambda: db.execute("begin immediate"))
        try:
            _begin_boot(db, clock, boot)
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise
        known = db.execute("select seq from marks where name = ?", (PREFIX + boot,)).fetchall()
    return int(known[0][0])


def _begin_boot(db: apsw.Connection, clock: Clock, boot: str) -> None:
    last: list[tuple[Any, ...]] = db.execute("select at from events order by seq desc limit 1").fetchall()
    # the boots before it began later than this; a machine without a clock of its own comes up in 1970, and the last
    # event may have been pruned
    before: list[tuple[Any, ...]] = db.execute(
        "delete from marks where name > ? and name < ? and name <> ? returning seq", (PREFIX, "boot;", PREFIX + boot)
    ).fetchall()
    start: int = max(clock.now(), last[0][0] if last else 0, *(offset for (offset,) in before))
    db.execute(
        "insert into marks (name, seq) values (?, ?) on conflict (name) do nothing",
        (PREFIX + boot, start - clock.since_boot()),
    )
