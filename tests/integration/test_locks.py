"""Who may write: a host for its life, a command for its one write, and never both."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.errors import AlreadyRunning, StoreBusy
from manydesks.office import lock
from manydesks.office.lock import KernelLock, host_locks, running_host, write_lock
from manydesks.settings.home import Home
from manydesks.testing.office import OfficeProcess


@pytest.fixture
def prepared(home: Path) -> Home:
    prepared = Home(home)
    prepared.prepare()
    return prepared


def test_a_home_that_is_not_there_has_no_host(home: Path) -> None:
    assert running_host(Home(home)) is None
    assert not home.exists()


def test_a_host_is_known_by_its_process(office: OfficeProcess) -> None:
    assert running_host(office.home) == office.pid
    with pytest.raises(AlreadyRunning, match=str(office.pid)), host_locks(office.home):
        pass
    office.kill()
    # the name is still written there; the lock, which is the truth, went with the process
    assert (office.home.run / "host.lock").read_text() == str(office.pid)
    assert running_host(office.home) is None


def test_a_command_that_waits_to_write_gives_way_to_a_host_that_starts(prepared: Home) -> None:
    host = KernelLock(prepared, "host.lock")
    with write_lock(prepared):
        assert host.take()
        with write_lock(prepared, gives_way=True) as mine:
            assert not mine
        host.drop()
    with write_lock(prepared, gives_way=True) as mine:
        assert mine


def test_a_command_that_saw_no_host_asks_the_one_that_came(office: OfficeProcess) -> None:
    assert office.door._alone("send", {"text": "hello"}) is None
    assert office.door.reader().queue_status()["incoming"] == 0
    assert office.door.ask("send", text="hello")["messages"]


def test_a_write_that_never_ends_is_not_waited_for_without_end(prepared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.2)
    with write_lock(prepared), pytest.raises(StoreBusy), write_lock(prepared, gives_way=True):
        pass
    with write_lock(prepared), pytest.raises(StoreBusy), host_locks(prepared):
        pass
    assert running_host(prepared) is None
