"""Wrong tokens wait, and the right one is whatever the file says now."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.api.login import FORGIVEN_MS, FREE, MOST_SECONDS, MOST_WAITING, Slowing, Token
from manydesks.settings.home import Home
from manydesks.settings.token import rotate_token, token_of
from manydesks.testing.clock import ManualClock


def test_each_wrong_one_waits_longer_up_to_a_bound() -> None:
    slowing = Slowing(ManualClock())
    waits = [slowing.wrong("10.0.0.1") for _ in range(FREE + 6)]
    assert waits == [0.0] * FREE + [0.25, 0.5, 1.0, 2.0, MOST_SECONDS, MOST_SECONDS]
    assert slowing.wrong("10.0.0.2") == 0.0


def test_after_a_while_it_is_forgiven() -> None:
    clock = ManualClock()
    slowing = Slowing(clock)
    for _ in range(FREE + 3):
        slowing.wrong("10.0.0.1")
    clock.advance(FORGIVEN_MS)
    assert slowing.wrong("10.0.0.1") == 0.0


def test_only_so_many_are_kept_waiting() -> None:
    slowing = Slowing(ManualClock())
    for _ in range(FREE):
        slowing.wrong("10.0.0.1")
    for _ in range(MOST_WAITING):
        slowing.__enter__()
    assert slowing.wrong("10.0.0.1") is None
    slowing.__exit__()
    assert slowing.wrong("10.0.0.1") is not None


def test_addresses_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manydesks.api.login.MOST_ADDRESSES", 3)
    slowing = Slowing(ManualClock())
    for number in range(100):
        slowing.wrong(f"10.0.0.{number}")
    assert len(slowing._wrong) == 3


def test_the_token_is_what_the_file_says_now(tmp_path: Path) -> None:
    home = Home(tmp_path)
    token = Token(home)
    assert not token.matches(b"")
    first = token_of(home)
    assert token.matches(first.encode())
    assert not token.matches(b"")
    assert not token.matches(first[:-1].encode())
    second = rotate_token(home)
    assert not token.matches(first.encode())
    assert token.matches(second.encode())
    home.token_file.unlink()
    assert not token.matches(second.encode())
