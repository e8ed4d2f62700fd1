"""A file that a command writes: whole or not at all, and never over another by accident."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from manydesks.domain.errors import BadInput
from manydesks.settings.home import reason_of


def check_target(path: Path, *, force: bool) -> None:
    """Raises `BadInput` if the file cannot be there, or is there already; says so before the work begins."""
    if path == Path("-"):  # elsewhere it means stdout; nobody wants a file of that name
        raise BadInput("'-' cannot be written to; name a file.")
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file.")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"There is no folder {path.absolute().parent}.")
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is not a plain file.")
    if path.exists() and not force:
        raise BadInput(f"{path} is there already; give --force to replace it.")


@contextmanager
def target(path: Path, *, force: bool) -> Iterator[Path]:
    """A fresh file beside it to write to, private to its owner; it takes the place of `path` when the block ends well.

    Raises `BadInput` as `check_target` does, and if the folder takes no file.
    """
    check_target(path, force=force)
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
            check_target(path, force=force)  # somebody may have made one meanwhile
            new.replace(path.absolute())
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            raise BadInput(f"{path} cannot be written, {reason_of(error)}.") from error
    finally:
        with suppress(FileNotFoundError):
            new.unlink()
