"""A person at a terminal: the real `manydesks` command on one home, each call a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECONDS = 60.0


class Shell:
    """Calls the command that is installed beside this interpreter. Nothing is asked: there is no terminal."""

    def __init__(self, home: Path, environ: Mapping[str, str] | None = None, *, person: str = "ada") -> None:
        self.home = home
        self.environ = {
            "MANYDESKS_PIPELINE__AUTO": "off",  # at three in the morning, too
            "MANYDESKS_API__ENABLED": "false",  # its port is one for the whole machine
            **(os.environ if environ is None else environ),
            "MANYDESKS_HOME": str(home),
            "LOGNAME": person,
        }

    def run(
        self, *arguments: str, text: str | None = None, seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """One call; `text` is what it finds on standard input."""
        return subprocess.run(
            _command(arguments),
            env=self.environ,
            input=text or "",
            capture_output=True,
            encoding="utf-8",
            timeout=seconds,
            check=False,
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """A call that goes on while the test does something else; the caller ends it."""
        return subprocess.Popen(
            _command(arguments),
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def said(self, *arguments: str, text: str | None = None) -> str:
        """What a call that must go well prints."""
        done = self.run(*arguments, text=text)
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def value(self, *arguments: str) -> Any:
        """The one JSON value of a call that must go well."""
        return json.loads(self.said(*arguments, "--json"))

    def refusal(self, *arguments: str, text: str | None = None) -> str:
        """The one sentence of a call that must not go well."""
        done = self.run(*arguments, text=text)
        assert done.returncode > 0, f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        lines = done.stderr.splitlines()
        assert len(lines) == 1, f"{arguments} said {done.stderr}"
        return lines[0]


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [str(Path(sys.executable).with_name("manydesks")), *arguments]
