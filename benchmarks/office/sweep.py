"""What the host does again and again although nothing happens, when it knows many sessions."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.measure import Setting, company
from benchmarks.office.offices import Watched, named, prepared
from benchmarks.report import Fact, Section
from manydesks.settings.home import Home
from manydesks.store.database import open_writer

SESSIONS, AGENTS, SECONDS = 10_000, 100, 60
TARGET_MS = 50.0


def sweep(setting: Setting) -> Section:
    sessions = setting.of(SESSIONS)
    seconds = setting.of(SECONDS, least=3)
    agents = named(AGENTS)
    with company() as heard, prepared(agents) as folder:
        _remember(Home(folder / "home"), agents, sessions)
        made = Watched(folder, settings={}, plain=True)
        began = time.perf_counter()
        made.start()
        opened = time.perf_counter() - began
        try:
            time.sleep(2)
            before = made.cpu()
            time.sleep(seconds)
            each = (made.cpu() - before) / seconds * 1000
            size = made.resident()
        finally:
            made.kill()
    return Section(
        title=f"{sessions:,} sessions known, none at work",
        lines=[
            Fact(
                what="CPU of the look that comes every second",
                value=f"{each:.2f} ms on average over {seconds} s",
                target=f"≤ {TARGET_MS:g} ms",
                holds=each <= TARGET_MS,
            ),
            Fact(what="opening the office took", value=f"{opened:.2f} s; then {size:.1f} MB in memory"),
        ],
        company=heard,
    )


def _remember(home: Home, agents: list[str], sessions: int) -> None:
    """Sessions as an office leaves them that has talked in many places: rows and folders."""
    db = open_writer(home.office_db, "crash")
    try:
        with db:
            db.executemany(
                "insert into sessions (id, agent, conversation, thread, generation, mode, provider, status, "
                "last_active, created_at) values (?, ?, ?, '', 1, 'shared', 'rehearsal', 'active', 0, 0)",
                [(f"session_{n:08}", agents[n % len(agents)], f"place_{n}") for n in range(sessions)],
            )
    finally:
        db.close()
    for n in range(sessions):
        Path(home.sessions, agents[n % len(agents)], f"session_{n:08}", "in").mkdir(parents=True, mode=0o700)
