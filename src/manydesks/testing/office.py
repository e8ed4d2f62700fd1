"""A real office in a process of its own, to be used, killed and started again by tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from manydesks.domain.errors import NotAnswering
from manydesks.office.door import Door
from manydesks.settings.home import Home
from manydesks.settings.token import token_of
from manydesks.store.reader import Reader

READY_SECONDS = 30.0
#: what the office does by itself for the lake
NO_PIPELINE = "MANYDESKS_PIPELINE__AUTO"
#: whether it is there over HTTP
NO_API = "MANYDESKS_API__ENABLED"

T = TypeVar("T")


class OfficeProcess:
    """`manydesks up` on a home. Its output goes to `logs/host.log` there.

    `command` is what to run in the place of `manydesks`, such as a script that changes something and goes on as it.
    """

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str] | None = None,
        *,
        command: Sequence[str] = (sys.executable, "-m", "manydesks"),
    ) -> None:
        self.home = Home(home)
        self.door = Door(self.home)
        # a test that runs at three in the morning is no reason to start Spark
        # and the port of the API is one for the whole machine: a test that wants it says so (`api__enabled`, `port`)
        self._environ = {NO_PIPELINE: "off", NO_API: "false", **(os.environ if environ is None else environ)}
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Return when the office answers."""
        self.home.prepare()
        command = [*self._command, "--home", str(self.home.path), "up"]
        with (self.home.logs / "host.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environ, start_new_session=True
            )
        deadline = time.monotonic() + READY_SECONDS
        while True:
            if self._process.poll() is not None:
                raise AssertionError(f"the office ended with {self._process.returncode}: {self.log()[-2000:]}")
            try:
                host = self.door.host()
            except NotAnswering:
                host = None
            if host is not None and host["pid"] == self._process.pid:
                return
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the office did not answer within {READY_SECONDS:g} s: {self.log()[-2000:]}")
            time.sleep(0.01)

    def url(self) -> str:
        """Where its API answers."""
        host = self.door.host()
        assert host is not None
        assert host["api"]["url"] is not None, host["api"]["why"]
        return str(host["api"]["url"])

    def token(self) -> str:
        """What its API lets in."""
        return token_of(self.home)

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, seconds: float = 30.0) -> int:
        """Close in good order; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self.wait(seconds)

    def wait(self, seconds: float = 30.0) -> int:
        """The exit code of an office that somebody else has told to close."""
        assert self._process is not None
        return self._process.wait(seconds)

    def ask(self, text: str, *, to: str | None = None, sender: str = "ada") -> dict[str, Any]:
        """Send a message, wait until all that followed from it has ended, and show the trace."""
        return self.trace(str(self.door.ask("send", text=text, to=to, sender=sender)["traceId"]))

    def trace(self, id: str) -> dict[str, Any]:
        """The trace, once all of it has ended."""

        def ended(reader: Reader) -> dict[str, Any] | None:
            return reader.trace(id) if reader.trace_ended(id) else None

        return self.until(ended)

    def until(self, found: Callable[[Reader], T | None], seconds: float = READY_SECONDS) -> T:
        """The first true thing that is found in the store; looked for again after every commit."""
        reader = self.door.reader()
        try:
            deadline = time.monotonic() + seconds
            while not (value := found(reader)):
                if time.monotonic() > deadline:
                    raise AssertionError(
                        f"not found within {seconds:g} s: {reader.queue_status()} {self.log()[-2000:]}"
                    )
                reader.wait(1.0)
            return value
        finally:
            reader.close()

    def log(self) -> str:
        path = self.home.logs / "host.log"
        return path.read_text(errors="replace") if path.exists() else ""
