"""How often something is asked again when no answer came."""

from __future__ import annotations

from collections.abc import Iterator

from manydesks.client.calls import AGAIN_SECONDS

#: an office that is restarted is back within these
TRIES = 10


def pauses(tries: int) -> Iterator[float | None]:
    """After each try how long to wait for the next; None after the last."""
    for number in range(max(1, tries) - 1):
        yield AGAIN_SECONDS[min(number, len(AGAIN_SECONDS) - 1)]
    yield None
