"""Agents at desks of their own, in real processes, beside the offices of the folder above."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.desk.furnish import office_mark
from manydesks.desk.process import MARK
from manydesks.desk.sandboxes import tree
from manydesks.testing.office import OfficeProcess


class Bench:
    """One office, and an agent `amy` whose runner is a process; `ben` sits inside the host and must not notice."""

    def __init__(self, office: OfficeProcess, sandbox: str) -> None:
        self.office = office
        self.sandbox = sandbox
        office.start()
        office.door.ask("agent_add", id="amy", sandbox=sandbox)
        office.door.ask("agent_add", id="ben")

    @property
    def session(self) -> Path:
        (found,) = self.office.home.sessions.glob("amy/*")
        return found

    def processes(self) -> set[int]:
        """What runs of this office's desks."""
        return tree.marked(f"{MARK}{office_mark(self.office.home)}-*")

    def runner(self) -> int:
        """The runner itself, not what stands around it."""
        for pid in sorted(self.processes()):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"manydesks.runner" in words and b"bwrap" not in words[0] and b"supervisor" not in b" ".join(words):
                return pid
        raise AssertionError("nobody sits there")

    def begin(self, text: str) -> dict[str, Any]:
        """Send, and return when a runner is at work on it."""
        before = self.steps()
        sent = self.office.door.ask("send", text=f"!tool nothing {{}}\n{text}", to="amy", sender="ada")
        self.until(lambda: self.steps() > before)
        return sent

    def steps(self) -> int:
        reader = self.office.door.reader()
        try:
            return len(reader.events(0, 10_000, kinds=["tool_called"]))
        finally:
            reader.close()

    def until(self, true: Callable[[], Any], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, self.office.log()[-3000:]
            time.sleep(0.01)

    def ask(self, text: str, to: str = "amy") -> dict[str, Any]:
        (message,) = self.office.ask(text, to=to)["messages"]
        return message

    def message(self, sent: dict[str, Any]) -> dict[str, Any]:
        """What became of it, in the end."""
        (message,) = self.office.trace(sent["traceId"])["messages"]
        return message

    def kinds(self, *kinds: str) -> list[dict[str, Any]]:
        reader = self.office.door.reader()
        try:
            return [event for event in reader.events(0, 10_000, kinds=list(kinds)) if event["agent"] == "amy"]
        finally:
            reader.close()

    def unmoved(self) -> None:
        """Another session works as ever."""
        other = self.ask("!say not affected", to="ben")
        assert (other["status"], other["attempts"], said(other)) == ("completed", 1, ["not affected"])


def said(message: dict[str, Any]) -> list[str]:
    return [r["text"] for r in message["responses"] if r["operation"] == "message" and r["status"] == "acked"]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def make_bench(make_office: Callable[..., OfficeProcess]) -> Callable[..., Bench]:
    def make(sandbox: str = "bubblewrap", **settings: object) -> Bench:
        return Bench(make_office(**settings), sandbox)

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()
