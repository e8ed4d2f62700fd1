from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from manydesks.desk.logbook import KEPT, LINE_BYTES, Logbook, sweep

SECRETS = {"key": "sk-secret-1234"}


@pytest.fixture
def book(tmp_path: Path) -> Logbook:
    return Logbook(tmp_path / "desks" / "session_1.2.log", lambda: SECRETS, file_bytes=200)


def test_lines_are_kept_whole_and_secrets_are_not(book: Logbook) -> None:
    for piece in (b"the key is sk-sec", b"ret-1234, sadly\nand", b" on\n"):
        book.write(piece)
    assert book.path.read_text() == "the key is ***, sadly\nand on\n"
    assert book.last == "and on"


def test_the_last_words_need_no_line_end(book: Logbook) -> None:
    book.write(b"one\n\n  \ntwo")
    assert book.last == "one"
    book.close()
    assert book.last == "two"
    assert book.path.read_text().endswith("two\n")


def test_a_line_without_an_end_is_cut(book: Logbook) -> None:
    book.write(b"x" * (3 * LINE_BYTES + 10))
    assert len(book.path.read_text()) == 3 * LINE_BYTES + 3
    book.close()
    assert book.path.read_text() == "x" * 10 + "\n"  # the first file was full


def test_bytes_that_are_no_text_are_shown_as_such(book: Logbook) -> None:
    book.write(b"\xff\xfe\x00garbage\n")
    assert "garbage" in book.path.read_text()


def test_old_files_go(book: Logbook) -> None:
    for number in range(100):
        book.write(b"line %03d of some length, so that a file is soon full\n" % number)
    names = sorted(path.name for path in book.path.parent.iterdir())
    assert names == ["session_1.2.log", *(f"session_1.2.log.{number}" for number in range(1, KEPT + 1))]
    assert "line 099" in book.path.read_text() + book.path.with_name("session_1.2.log.1").read_text()
    assert all(path.stat().st_size < 400 for path in book.path.parent.iterdir())


def test_a_disk_that_refuses_costs_lines_only(tmp_path: Path) -> None:
    (tmp_path / "desks").write_text("a file, where the folder should be")
    book = Logbook(tmp_path / "desks" / "session.log", dict)
    book.write(b"nobody will read this\n")
    assert book.last == "nobody will read this"


def test_it_is_the_owners_alone(book: Logbook) -> None:
    book.write(b"hello\n")
    assert stat.S_IMODE(book.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600


def test_where_a_run_begins_is_nobody_s_last_word(book: Logbook) -> None:
    book.write(b"it hurts\n2026-01-01 10:00:00,000 INFO manydesks.runner.runs: run run_1 ends\n")
    assert book.last == "it hurts"


def test_logs_that_nobody_writes_to_any_more_go(book: Logbook) -> None:
    assert sweep(book.path.parent, 10**15) == 0
    book.write(b"old\n")
    other = Logbook(book.path.with_name("session_2.log"), lambda: SECRETS)
    other.write(b"young\n")
    os.utime(book.path, (1_000, 1_000))
    assert sweep(book.path.parent, 2_000_000) == 1
    assert (book.path.exists(), other.path.exists()) == (False, True)
