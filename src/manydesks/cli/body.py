"""A message's text as a person gives it: an argument, or `-` for standard input."""

from __future__ import annotations

import sys
from typing import BinaryIO

from manydesks.domain.errors import BadInput

#: what is read from standard input at most; the office's own limit is lower, this one only ends an endless pipe
STDIN_BYTES = 8 * 1024 * 1024


def stdin() -> BinaryIO:
    """Standard input, which a caller may have closed."""
    if sys.stdin is None:
        raise BadInput("There is nothing to read: standard input is closed.")
    return sys.stdin.buffer


def read_body(text: str) -> str:
    """The text, never empty and always real Unicode. The line end that `echo` adds to standard input is dropped."""
    if text == "-":
        given = stdin().read(STDIN_BYTES + 1)
        if len(given) > STDIN_BYTES:
            raise BadInput(f"Standard input holds more than {STDIN_BYTES // 1024 // 1024} MiB of text.")
        try:
            text = given.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise BadInput("The text on standard input is not UTF-8.") from error
    elif not text.isprintable() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput("The text is not UTF-8.")  # bytes of the command line that Python could not decode
    if not text.strip():
        raise BadInput("The text is empty; give some words, or - to read them from standard input.")
    return text
