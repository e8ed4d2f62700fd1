"""Who may write: a host for its life, a command for its one write, and never both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

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


#: a host that is killed after it has made a child, and before that has become another program
HOST = """
import os, signal, sys
from pathlib import Path
from manydesks.office.lock import KernelLock
from manydesks.settings.home import Home
lock = KernelLock(Home(Path(sys.argv[1])), "host.lock")
assert lock.take()
lock.sign()
if os.fork():
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


def test_a_host_that_was_killed_while_it_started_a_program_is_gone(
    prepared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "CHILD_SECONDS", 0.2)
    command = [sys.executable, "-c", HOST, str(prepared.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as host:
        assert host.wait(60) == -signal.SIGKILL
        assert running_host(prepared) == host.pid  # nobody waits for ever
        monkeypatch.setattr(lock, "CHILD_SECONDS", 60.0)
        assert host.stdin is not None
        Timer(0.1, host.stdin.close).start()
        assert running_host(prepared) is None
        with host_locks(prepared):
            assert running_host(prepared) == os.getpid()


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
