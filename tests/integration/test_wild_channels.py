"""An office with a channel that hears nothing, hangs, or wants to end it: it works on, and closes when it is told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manydesks.office.lock import running_host
from manydesks.store.reader import Reader
from manydesks.testing.office import OfficeProcess

QUICK = {"MANYDESKS_RETRY__BASE_SECONDS": "0.02", "MANYDESKS_RETRY__JITTER": "0"}

CHANNEL = """
import asyncio, contextlib, pathlib, sys, time
from manydesks.channels.base import Descriptor, Receipt
from manydesks.domain.envelope import Incoming

async def deaf():
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

async def exits():
    raise SystemExit(5)

class Wild:
    def __init__(self, line):
        self.line, self.kept = line, []

    async def start(self):
        for key, text in WRITES:
            await self.line.hand_in(
                Incoming(source="wild", key=key, text=text, channel="wild", platform_id=key, sender="ada")
            )

    async def stop(self):
        await STOPS()

    async def send(self, parcel):
        if "deaf" in parcel.text:
            await deaf()
        if "thread" in parcel.text:
            await asyncio.to_thread(time.sleep, 600)
        if "exit" in parcel.text:
            self.kept.append(asyncio.create_task(exits()))
            await asyncio.sleep(0)
            raise SystemExit(3)
        return Receipt(id="w")

async def nothing():
    pass

CHANNEL = Descriptor(name="wild", load=Wild, by_itself=True, cut_off="ask", summary="wild")
"""

Open = Callable[..., OfficeProcess]


@pytest.fixture
def open_office(home: Path, tmp_path: Path) -> Iterator[Open]:
    """An office with the channel, to which somebody wrote these texts already."""
    made: list[OfficeProcess] = []

    def begin(*texts: str, stops: str = "nothing", **settings: object) -> OfficeProcess:
        packages = tmp_path / "packages"
        info = packages / "wild-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wild\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[manydesks.channels]\nwild = wild_channel:CHANNEL\n")
        writes = [(f"wild_{number}", f"!say {text}") for number, text in enumerate(texts)]
        (packages / "wild_channel.py").write_text(f"{CHANNEL}\nWRITES = {writes!r}\nSTOPS = {stops}\n")
        path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
        given = {f"MANYDESKS_{name.upper()}": str(value) for name, value in settings.items()}
        made.append(OfficeProcess(home, {**os.environ, **QUICK, **given, "PYTHONPATH": path}))
        made[-1].start()
        return made[-1]

    yield begin
    for office in made:
        office.kill()


def states(*wanted: str) -> Callable[[Reader], bool]:
    def look(reader: Reader) -> bool:
        return sorted(status for (status,) in reader._all("select status from responses")) == sorted(wanted)

    return look


@pytest.mark.parametrize("how", ["deaf", "thread"])
def test_a_sending_that_hears_nothing_does_not_keep_the_office_open(open_office: Open, how: str) -> None:
    office = open_office(how, "hello", delivery__timeout_seconds=1)
    office.until(states("unsure", "acked"))
    assert office.stop(40) == 0
    assert "The office is closed." in office.log()
    assert running_host(office.home) is None


def test_nor_does_one_that_is_under_way_when_it_closes(open_office: Open) -> None:
    office = open_office("deaf", delivery__timeout_seconds=2)
    office.until(states("sending"))
    assert office.stop(40) == 0
    assert "without waiting for a sending on wild" in office.log()


@pytest.mark.slow
def test_nor_does_a_channel_that_does_not_stop(open_office: Open) -> None:
    office = open_office("hello", stops="deaf")
    office.until(states("acked"))
    assert office.stop(40) == 0
    assert "The channel 'wild' did not stop well" in office.log()


def test_told_twice_it_does_not_even_wait_for_that(open_office: Open) -> None:
    office = open_office("hello", stops="deaf")
    office.until(states("acked"))
    os.kill(office.pid, signal.SIGTERM)
    time.sleep(0.5)  # two of the same that come together would be one
    os.kill(office.pid, signal.SIGTERM)
    assert office.wait(40) == 0
    assert "did not stop well" not in office.log()  # which is said when its time is over


def test_a_channel_cannot_end_the_office(open_office: Open) -> None:
    office = open_office("exit", "hello")
    office.until(states("unsure", "acked"))
    assert office.ask("!say still here")["messages"][0]["status"] == "completed"
    assert "A task wanted to end the office" in office.log()
    assert office.stop() == 0
