"""The runner as a program: what it says when it cannot begin, and when it leaves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from manydesks.domain.mail import Inbound
from manydesks.mailbox.host import HostMailbox
from manydesks.runner.main import REPAIR, USAGE
from manydesks.runner.orders import Orders

COMMAND = [sys.executable, "-I", "-m", "manydesks.runner"]


@pytest.fixture
def mailbox(tmp_path: Path) -> HostMailbox:
    mailbox = HostMailbox(tmp_path / "session", session="session_12345678", agent="amy")
    mailbox.prepare()
    return mailbox


def lay_down(mailbox: HostMailbox, **more: object) -> None:
    given = {
        "agent": "amy",
        "name": "Amy",
        "provider": "rehearsal",
        "model": None,
        "workspace": str(mailbox.folder),
        "folder": str(mailbox.folder),
        "sandboxed": False,
        "idle_seconds": 60,
        "poll_seconds": 60,
    }
    Orders(**{**given, **more}).write()  # type: ignore[arg-type]


def run(*words: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], input=text, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_it_says_what_it_is_for(word: str) -> None:
    done = run(word)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{USAGE}\n", b"")


def test_a_word_that_is_no_option_is_no_folder_either() -> None:
    done = run("--version")
    assert (done.returncode, done.stderr.decode()) == (2, f"{USAGE}\n")


@pytest.mark.parametrize("words", [(), ("a", "b"), (REPAIR,), (REPAIR, "a", "b")])
def test_it_is_not_for_people(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.returncode, done.stderr.decode()) == (2, f"{USAGE}\n")


def test_without_orders_it_says_so(mailbox: HostMailbox) -> None:
    done = run(str(mailbox.folder / "in"))
    assert done.returncode == 2
    assert b"desk.json cannot be read" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_provider_that_is_not_there(mailbox: HostMailbox) -> None:
    lay_down(mailbox, provider="oracle")
    # its host is there for long enough to hear of it
    with subprocess.Popen(
        [*COMMAND, str(mailbox.folder / "in")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(60) == 2
    assert b"there is no provider 'oracle'" in said


def test_it_ends_with_its_host_in_the_middle_of_a_turn(mailbox: HostMailbox) -> None:
    lay_down(mailbox)
    row = Inbound(id="msg_1", run="run_1", fence=1, kind="chat", at=1, tries=1, content={"text": "!tool x {}\n!hang"})
    mailbox.put([row])
    with subprocess.Popen(
        [*COMMAND, str(mailbox.folder / "in")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b".\n"  # it is at work
        process.stdin.close()
        assert process.wait(60) == 0
    found = mailbox.collect(None, 0)
    assert found is not None
    assert found.acks == ()


def test_it_mends_its_file_and_leaves(mailbox: HostMailbox) -> None:
    assert mailbox.collect(None, 0) is None
    assert run(REPAIR, str(mailbox.folder / "in")).returncode == 0
    found = mailbox.collect(None, 0)
    assert found is not None


def test_what_a_program_can_boot_without_is_not_imported_before_it() -> None:
    code = (
        "import sys, manydesks.runner.main, manydesks.runner.toolserver, manydesks.runner.providers.claude\n"
        "print([name for name in ('sqlite3', 'h11', 'manydesks.runner.loop') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
