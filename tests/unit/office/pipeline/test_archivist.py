"""The archivist and a real process beside it, which fails before it needs Spark, or is ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from manydesks.desk.sandboxes import tree
from manydesks.office.inforce import InForce
from manydesks.office.pipeline import record
from manydesks.office.pipeline.archivist import PACKAGES, Archivist, installed
from manydesks.office.pipeline.child import LOG, Child, Ended
from manydesks.office.pipeline.finding import pipeline as finding
from manydesks.office.pipeline.plan import MINUTE_MS, Decision, Start, Wait
from manydesks.office.pipeline.record import Last, Record
from manydesks.settings.home import Home
from manydesks.settings.model import PipelineSettings, Settings
from manydesks.testing.clock import ManualClock

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

WATCH = Settings(pipeline=PipelineSettings(auto="watch"))


@pytest.fixture
def office(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def archivist(office: Home, clock: ManualClock) -> Archivist:
    return Archivist(office, InForce(WATCH), clock)


async def until(found: Callable[[], object]) -> None:
    while not found():  # noqa: ASYNC110  # processes of which nobody tells us
        await asyncio.sleep(0.02)


async def until_ended(archivist: Archivist) -> Decision:
    """What is decided once the process is gone."""
    while True:
        decision = await archivist.look()
        if archivist.shown()["running"] is None:
            return decision
        await asyncio.sleep(0.02)


def test_both_rooms_mean_the_same_packages() -> None:
    from manydesks.pipeline.session import PACKAGES as NEEDED

    assert set(PACKAGES) == set(NEEDED)
    assert installed()


async def test_a_failure_is_remembered_said_and_tried_again(
    archivist: Archivist, office: Home, clock: ManualClock
) -> None:
    """There is no store: the command says so before it starts Spark."""
    assert finding(office, WATCH).says.endswith("No watch has ended yet.")
    assert await archivist.look() == Start(job="watch")
    running = archivist.shown()["running"]
    assert (running["job"], running["startedAt"]) == ("watch", clock.now())
    assert await until_ended(archivist) == Wait(until=clock.now() + 5_000)
    reason = f"The pipeline failed: there is no store at {office.office_db}; an office makes it when it first starts."
    last = archivist.shown()["last"]
    assert (last["job"], last["ok"], last["reason"]) == ("watch", False, reason)
    remembered = record.read(office)
    assert remembered is not None
    assert remembered.last is not None
    assert remembered.last.reason == reason
    assert (office.logs / LOG).read_text().endswith(f" manydesks: {reason}\n")
    said = finding(office, WATCH)
    assert said.level == "bad"
    assert reason in said.says
    clock.advance(5_000)
    assert await archivist.look() == Start(job="watch")
    assert await until_ended(archivist) == Wait(until=clock.now() + 10_000)


async def test_a_watch_that_was_well_and_is_killed_is_back_soon(archivist: Archivist, clock: ManualClock) -> None:
    async def killed_after(milliseconds: int) -> Decision:
        assert await archivist.look() == Start(job="watch")
        os.kill(archivist.shown()["running"]["pid"], signal.SIGKILL)
        clock.advance(milliseconds)
        return await until_ended(archivist)

    for delay in (5_000, 10_000, 20_000):
        assert await killed_after(1_000) == Wait(until=clock.now() + delay)
        clock.advance(delay)
    assert await killed_after(MINUTE_MS + MINUTE_MS // 2) == Wait(until=clock.now() + 5_000)
    clock.advance(5_000)
    # a clock that was put forward is no good stretch
    assert await archivist.look() == Start(job="watch")
    os.kill(archivist.shown()["running"]["pid"], signal.SIGKILL)
    clock.jump(MINUTE_MS)
    assert await until_ended(archivist) == Wait(until=clock.now() + 10_000)


def test_what_is_in_force_and_why(office: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def says(auto: str) -> tuple[str, str]:
        found = finding(office, Settings.model_validate({"pipeline": {"auto": auto}}))
        return found.level, found.says

    assert says("nightly") == (
        "ok",
        "While the office is open, it runs each night at 03:00 (pipeline.auto is nightly). It has not run by itself"
        " yet.",
    )
    assert says("off")[0] == "note"
    assert "Nothing runs by itself (pipeline.auto is off)" in says("off")[1]
    well = Last(job="run", started_at=1_700_000_000_000, ended_at=1_700_000_100_000, ok=True)
    record.write(office, Record(level_at=0, last=well))
    assert "Its last run ended well (2023-11-1" in says("nightly")[1]
    monkeypatch.setitem(sys.modules, "deltalake", None)
    level, words = says("nightly")
    assert level == "note"
    assert words.startswith("Its packages are not installed, so nothing runs by itself (pipeline.auto is nightly).")


async def test_what_is_not_wanted_any_more_is_ended(office: Home, clock: ManualClock) -> None:
    in_force = InForce(WATCH)
    archivist = Archivist(office, in_force, clock)
    await archivist.look()
    pid = archivist.shown()["running"]["pid"]
    in_force.change(Settings(pipeline=PipelineSettings(auto="off")))
    assert await until_ended(archivist) == Wait()
    assert archivist.shown()["last"] is None
    assert not tree.of_session(pid)


async def test_the_office_is_closed_at_once_if_there_is_a_hurry(office: Home, clock: ManualClock) -> None:
    archivist = Archivist(office, InForce(WATCH), clock)
    archivist.start()
    await until(lambda: archivist.shown()["running"])
    running = archivist.shown()["running"]
    hurry = asyncio.Event()
    hurry.set()
    await archivist.stop(hurry)
    assert not tree.of_session(running["pid"])


async def test_a_process_does_not_outlive_the_office(office: Home, clock: ManualClock) -> None:
    """The office here is a shell that starts the launcher as an office does, and is killed."""
    launch = f"{sys.executable} -P -m manydesks.office.pipeline.launch $$ /bin/sleep 600 & echo $!; wait"
    shell = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", launch, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert shell.stdout is not None
    pid = int(await shell.stdout.readline())
    try:
        # the launcher has these words too, behind its own
        await until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/bin/sleep"))
        assert os.getpriority(os.PRIO_PROCESS, pid) >= min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
        shell.kill()
        await shell.wait()
        await until(lambda: not tree.of_session(shell.pid))
    finally:
        tree.send(pid, signal.SIGKILL)


async def test_what_a_process_says_is_kept_with_its_time_and_without_secrets(office: Home, clock: ManualClock) -> None:
    office.secrets_file.write_text('lake_key = "sk-never-shown-1234"\n')
    office.secrets_file.chmod(0o600)
    office.settings_file.write_text('[pipeline]\nlake = "sk-never-shown-1234"\n')
    child = Child(office, "run", clock)
    await child.start()
    ended = await child.wait()
    assert isinstance(ended, Ended)
    assert ended.code == 1
    assert "pipeline.lake" in ended.said
    kept = (office.logs / LOG).read_text()
    assert "sk-never-shown" not in kept + ended.said
