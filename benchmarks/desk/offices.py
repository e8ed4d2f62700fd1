"""A real office for one scenario."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Company
from manydesks.testing.office import OfficeProcess


@contextmanager
def office(heard: Company, *, model_url: str | None = None) -> Iterator[OfficeProcess]:
    """In a short path, as sockets want it; `model_url`: with a way to this model. What its desks take of the machine
    is told to `heard`: it is ours."""
    with tempfile.TemporaryDirectory(prefix="md") as folder:
        made = OfficeProcess(Path(folder) / "home")
        made.home.prepare()
        if model_url is not None:
            made.home.settings_file.write_text(
                f'[upstreams.lm]\nkind = "anthropic"\nbase_url = "{model_url}"\nkey = "lm"\n'
            )
            made.home.secrets_file.write_text('lm = "sk-bench-key-000"\n')
            made.home.secrets_file.chmod(0o600)
        made.start()
        try:
            yield made
        finally:
            spent, waited = _spent(made.pid), _waited()
            made.stop()
            heard.unwaited += max(0.0, spent - (_waited() - waited))


def hire(made: OfficeProcess, id: str, *, claude: bool = False) -> None:
    """An agent at a desk in bubblewrap: played by rehearsal, or the real `claude`."""
    if claude:
        made.door.ask(
            "agent_add", id=id, provider="claude", model="m", sandbox="bubblewrap", options={"upstream": "lm"}
        )
    else:
        made.door.ask("agent_add", id=id, sandbox="bubblewrap")


def timed(made: OfficeProcess, agent: str, text: str) -> float:
    """Seconds from before the message is sent to when its answer is in the store."""
    begun = time.perf_counter()
    trace = made.ask(text, to=agent)
    took = time.perf_counter() - begun
    if [message["status"] for message in trace["messages"]] != ["completed"]:
        raise AssertionError(f"the turn did not end well: {trace}")
    return took


def _waited() -> float:
    """CPU of all children that have ended, and of theirs."""
    times = os.times()
    return times.children_user + times.children_system


def _spent(root: int) -> float:
    """CPU of a process and of all below it, those included that it has waited for."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # after the name, which may hold anything
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(int(ticks) for ticks in fields[11:15])
    family, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        family, grown = family | more, bool(more)
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")
