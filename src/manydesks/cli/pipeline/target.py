"""A file that a command writes: whole or not at all, and never over another by accident."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.domain.errors import BadInput
from manydesks.settings.home import Home, reason_of

if TYPE_CHECKING:
    from manydesks.pipeline.place import Place


def check_target(path: Path, home: Home, lake: Place, *, force: bool) -> None:
    """Raises `BadInput` if the file cannot be there, or is there already; says so before the work begins.

    What is the office's own is never replaced, nor added to."""
    if path == Path("-"):  # elsewhere it means stdout; nobody wants a file of that name
        raise BadInput("'-' cannot be written to; name a file.")
    try:
        _check_file(path, home, lake, force=force)
    except OSError as error:
        raise BadInput(f"{path} cannot be written, {reason_of(error)}.") from error


def _check_file(path: Path, home: Home, lake: Place, *, force: bool) -> None:
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file.")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"There is no folder {path.absolute().parent}.")
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is not a plain file.")
    # of a link, the link itself would be replaced, and not what it leads to
    place = path.absolute().parent.resolve() / path.name
    if home.keeps(place) or (isinstance(lake, Path) and place.is_relative_to(lake.resolve())):
        raise BadInput(f"{path} is among the office's own files; write to another folder.")
    if path.exists() and not force:
        raise BadInput(f"{path} is there already; give --force to replace it.")


@contextmanager
def target(path: Path, home: Home, lake: Place, *, force: bool) -> Iterator[Path]:
    """A fresh file beside it to write to, private to its owner; it takes the place of `path` when the block ends well.

    Raises `BadInput` as `check_target` does, and if the folder takes no file.
    """
    check_target(path, home, lake, force=force)
    new = path.absolute().with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise BadInput(f"{path} cannot be written, {reason_of(error)}.") from error
    try:
        try:
            yield new
            with new.open("rb") as file:
                os.fsync(file.fileno())
            check_target(path, home, lake, force=force)  # somebody may have made one meanwhile
            new.replace(path.absolute())
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            raise BadInput(f"{path} cannot be written, {reason_of(error)}.") from error
    finally:
        with suppress(FileNotFoundError):
            new.unlink()
