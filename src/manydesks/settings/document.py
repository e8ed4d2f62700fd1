"""One TOML file as it is on the disk: its text, its values, and the line on which a key was written."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manydesks.domain.errors import HomeError, SettingsError
from manydesks.settings.home import reason_of

_PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, kw_only=True)
class Document:
    #: the file, which need not exist
    path: Path
    #: decoded, with the owner's own line ends; may hold secrets, so it stays out of the repr
    text: str = field(repr=False)
    #: what the text says
    data: dict[str, Any] = field(repr=False)
    #: permission bits of the file; None if there is no file
    mode: int | None

    def line_of(self, key: tuple[str, ...]) -> int | None:
        """The line on which the statement that sets `key` begins; None if the text does not set it."""
        return _line_of(self.text, key)


def read_document(path: Path, *, private: bool = False) -> Document:
    """Read a TOML file; a missing one is empty.

    Raises `SettingsError` with line and reason if the file is not valid, and `HomeError` if it cannot be read.
    The reason for a `private` file never repeats a word of it.
    """
    raw, mode = _read(path)
    text, data, fault = _parse(raw)
    # Raised outside of any `except`: the parser's own errors carry the text, which may hold secrets.
    if fault is not None:
        line, reason = fault
        said = 'this is not valid TOML, each line must be name = "value"' if private else reason
        raise SettingsError(reason=f"{path}, line {line}: {said}; the file was left as it is.")
    return Document(path=path, text=text, data=data, mode=mode)


def _read(path: Path) -> tuple[bytes, int | None]:
    try:
        # Not blocking: a pipe in the file's place must not hang the office.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        if path.is_symlink():  # its target may be on a disk that is not mounted now; defaults would hide that
            raise SettingsError(reason=f"{path} is a link to a file that does not exist.") from error
        return b"", None
    except OSError as error:
        raise HomeError(home=path.parent, reason=f"{path} cannot be read, {reason_of(error)}.") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise SettingsError(reason=f"{path} is not a file.")
        return _read_all(handle), stat.S_IMODE(status.st_mode)
    except OSError as error:
        raise HomeError(home=path.parent, reason=f"{path} cannot be read, {reason_of(error)}.") from error
    finally:
        os.close(handle)


def _read_all(handle: int) -> bytes:
    parts: list[bytes] = []
    while part := os.read(handle, 65_536):
        parts.append(part)
    return b"".join(parts)


def _parse(raw: bytes) -> tuple[str, dict[str, Any], tuple[int, str] | None]:
    """Text, values, and, if it cannot be parsed, the line and the reason."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        return "", {}, (raw.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text")
    try:
        return text, tomllib.loads(text), None
    except tomllib.TOMLDecodeError as error:
        return text, {}, _fault(text, str(error))
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        return text, {}, (_first_bad_line(text), "a number is too long or a value is nested too deeply")


def _fault(text: str, said: str) -> tuple[int, str]:
    place = _PLACE.search(said)
    if place is None:
        return _first_bad_line(text), said
    line = place["line"]
    return int(line) if line else max(1, len(text.splitlines())), said[0].lower() + said[1 : place.start()]


def _prefixes(text: str) -> list[str]:
    """The first line, the first two, …; each with its line end, for a lone carriage return is not TOML."""
    ends = [place.end() for place in re.finditer("\n", text)]
    return [text[:end] for end in (*ends, len(text))]


def _first_bad_line(text: str) -> int:
    """The first line with which the parser fails otherwise than over an unfinished statement."""
    for number, prefix in enumerate(_prefixes(text), 1):
        try:
            tomllib.loads(prefix)
        except tomllib.TOMLDecodeError:
            continue
        except (ValueError, RecursionError):
            return number
    return 1


def _line_of(text: str, key: tuple[str, ...]) -> int | None:
    """Parse ever longer beginnings until the key is there: exact for dotted keys, inline tables and long strings.

    Quadratic, which does not matter: it runs over a small file, when there is an error to tell.
    """
    begin = 1
    for number, prefix in enumerate(_prefixes(text), 1):
        try:
            data: Any = tomllib.loads(prefix)
        except ValueError:
            continue  # inside a value of several lines
        for part in key:
            data = data.get(part, _ABSENT) if isinstance(data, dict) else _ABSENT
        if data is not _ABSENT:
            return begin
        begin = number + 1
    return None


_ABSENT = object()
