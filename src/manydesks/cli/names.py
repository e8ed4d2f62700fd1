"""Several names in one argument: `a,b`."""

from __future__ import annotations

from collections.abc import Iterable


def names(*given: str) -> list[str]:
    """The names between commas, each once, in order; blanks around them do not count."""
    return list(dict.fromkeys(_parts(given)))


def _parts(given: Iterable[str]) -> Iterable[str]:
    for text in given:
        yield from (part.strip().lower() for part in text.split(",") if part.strip())
