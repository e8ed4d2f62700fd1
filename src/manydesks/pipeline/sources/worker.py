"""What Spark's Python workers do once, whatever they read."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """For a worker that has read something, and so has imported all that it needs. Spark lets each of them collect
    garbage after every task, and goes through all that was imported, which stays anyway: 80 ms of CPU, as much as
    reading 30,000 events takes. From now on it goes only through what is new."""
    gc.freeze()
