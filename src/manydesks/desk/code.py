"""The runner's own code, ready to be loaded at a desk."""

from __future__ import annotations

import compileall
from pathlib import Path

import manydesks

#: what a runner may import
ROOMS = ("domain", "mailbox", "runner")


def compile_code() -> None:
    """Compile what is not compiled yet. Blocks.

    Desks see the package read-only: what was never imported outside, as in a fresh clone, would be compiled anew by
    each runner that sits down, half a second each time. Where the package cannot be written, so be it.
    """
    for room in ROOMS:
        compileall.compile_dir(str(Path(manydesks.__path__[0]) / room), quiet=2)
