"""Waiting for another process that writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import apsw

T = TypeVar("T")

BUSY_SECONDS = 5.0


def patiently(act: Callable[[], T]) -> T:
    """Short retries while another process holds the file: SQLite's own handler sleeps ever longer and is unfair."""
    try:
        return act()
    except apsw.BusyError:
        pass
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return act()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.0005)
