"""What a service is, whichever manager the machine has."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from manydesks.domain.errors import BadInput, OfficeError
from manydesks.settings.home import Home

#: a manager answers at once, but for a stop, which waits for the office to close
ANSWER_SECONDS = 30.0
#: the time to close that a manager allows at least, whatever the settings say
CLOSE_SECONDS = 90


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the service runs. Holds no secret: the file is for everyone who may read the owner's files."""

    #: the office's folder
    home: Path
    #: what opens the office, in the foreground
    command: tuple[str, ...]
    #: where the office finds programs; a manager's own PATH is shorter than a shell's
    path: str
    #: how long it may take to close, in seconds
    close_seconds: int

    def __post_init__(self) -> None:
        for text in (str(self.home), *self.command, self.path):
            if not text.isprintable() or any("\ud800" <= letter <= "\udfff" for letter in text):
                raise BadInput(f"A service cannot name {text!a}: it holds characters that cannot be printed.")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a service stands."""

    #: its file is there
    installed: bool
    #: the manager starts it by itself
    enabled: bool
    #: it runs now
    active: bool
    #: whether it is there before its owner has logged in; None: the manager does not say
    lingers: bool | None


class Service(Protocol):
    """The service of one office."""

    #: as its manager calls it
    name: str
    #: its file
    file: Path

    def text(self, plan: Plan) -> str:
        """What the file would hold."""

    def install(self, plan: Plan) -> list[str]:
        """Write the file, start it and let it start by itself; what is worth knowing, a sentence each.

        Raises OfficeError, with nothing left behind, if the manager refuses.
        """

    def remove(self) -> None:
        """Stop it and forget it."""

    def restart(self) -> None:
        """Close the office and open it again."""

    def standing(self) -> Standing:
        """How it stands; of a manager that does not answer, what the file alone says."""


def mark_of(home: Home, environ: Mapping[str, str]) -> str:
    """What sets the services of two homes apart; empty for the home that a person has by default."""
    usual = Home.resolve(None, {name: value for name, value in environ.items() if name != "MANYDESKS_HOME"})
    return "" if home == usual else hashlib.sha256(os.fsencode(home.path)).hexdigest()[:8]


def ask(command: Sequence[str], *, seconds: float = ANSWER_SECONDS) -> str:
    """What a manager's program prints. Raises OfficeError, with its own words, if it refuses."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except FileNotFoundError:
        raise OfficeError(f"There is no program '{command[0]}' on the PATH.") from None
    except subprocess.TimeoutExpired:
        raise OfficeError(f"`{' '.join(command)}` did not end within {seconds:g} s.") from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split()).rstrip(".") or f"exit code {done.returncode}"
        raise OfficeError(f"`{' '.join(command)}` failed: {said}.")
    return done.stdout.strip()


def says_yes(command: Sequence[str]) -> bool:
    """Whether the program agrees; a manager that does not answer does not."""
    try:
        ask(command)
    except OfficeError:
        return False
    return True


def write(file: Path, text: str) -> None:
    """Whole or not at all."""
    fresh = file.with_name(f"{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(file)
    except OSError as error:
        raise OfficeError(f"{file} cannot be written: {error.strerror}.") from error
