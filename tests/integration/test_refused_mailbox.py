"""A desk's file that no host may read: the office sets it aside and goes on, and each message is answered once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.testing.office import OfficeProcess


def garbage(file: Path) -> None:
    file.write_bytes(b"not a database, but long enough to be looked at " * 200)


def torn(file: Path) -> None:
    """The header is right, the rest is gone."""
    content = bytearray(file.read_bytes())
    content[200:] = b"\xa5" * (len(content) - 200)
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def gone(file: Path) -> None:
    file.unlink()


def link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def full_folder(file: Path) -> None:
    """Deeper than any path may be long, and closed."""
    file.unlink()
    file.mkdir()
    handle = os.open(file, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(300):
        os.mkdir("deeper-and-deeper", dir_fd=handle)
        inner = os.open("deeper-and-deeper", os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    file.chmod(0)


def journal_folder(file: Path) -> None:
    journal = file.with_name(f"{file.name}-journal")
    journal.unlink(missing_ok=True)
    (journal / "x").mkdir(parents=True)


def wal_folder(file: Path) -> None:
    file.unlink()
    file.with_name(f"{file.name}-wal").mkdir()


def no_outbox(file: Path) -> None:
    (file.parent / "outbox").rmdir()
    (file.parent / "outbox").write_text("not a folder")


def wal(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("pragma journal_mode = wal")


def other_tables(file: Path) -> None:
    file.unlink()
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("create table diary (day text)")
        db.commit()


DAMAGES = [garbage, torn, empty, gone, link, folder, full_folder, journal_folder, wal_folder, no_outbox, wal]
DAMAGES.append(other_tables)


def outbound(office: OfficeProcess) -> Path:
    (found,) = office.home.sessions.glob("assistant/*/out/outbound.db")
    return found


def said(message: dict[str, Any]) -> list[str]:
    return [r["text"] for r in message["responses"] if r["status"] == "acked"]


def answered_once(office: OfficeProcess, text: str) -> None:
    (message,) = office.ask(f"!say {text}")["messages"]
    assert (message["status"], said(message)) == ("completed", [text]), office.log()[-3000:]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_while_the_office_was_down(office: OfficeProcess, damage: Callable[[Path], None]) -> None:
    answered_once(office, "before")
    office.stop()
    damage(outbound(office))
    office.start()
    answered_once(office, "after")
    answered_once(office, "and on")
    assert office.stop() == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_between_runs(office: OfficeProcess, damage: Callable[[Path], None]) -> None:
    office.door.ask("agent_add", id="ben")
    answered_once(office, "before")
    damage(outbound(office))
    answered_once(office, "after")
    answered_once(office, "and on")
    (other,) = office.ask("!say not affected", to="ben")["messages"]
    assert (other["attempts"], said(other)) == (1, ["not affected"])
    assert office.stop() == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_after_the_host_was_killed_in_a_run(office: OfficeProcess, damage: Callable[[Path], None]) -> None:
    answered_once(office, "before")
    sent = office.door.ask("send", text="!sleep 0.5\n!say late")
    office.until(lambda reader: reader.queue_status()["processing"] == 1)
    office.kill()
    damage(outbound(office))
    office.start()
    (message,) = office.trace(sent["traceId"])["messages"]
    assert (message["status"], said(message)) == ("completed", ["late"])
    answered_once(office, "and on")


def test_damaged_again_and_again(office: OfficeProcess) -> None:
    """What was set aside last time never stands in the way of the next."""
    answered_once(office, "before")
    for number, damage in enumerate(
        [folder, full_folder, folder, journal_folder, garbage, wal_folder, no_outbox, link]
    ):
        damage(outbound(office))
        answered_once(office, f"after {number}")
    office.stop()
    office.start()
    answered_once(office, "and on")
    assert office.stop() == 0


def test_a_damaged_inbox_is_made_anew(office: OfficeProcess) -> None:
    answered_once(office, "before")
    office.stop()
    (inbound,) = office.home.sessions.glob("assistant/*/in/inbound.db")
    garbage(inbound)
    office.start()
    answered_once(office, "after")
