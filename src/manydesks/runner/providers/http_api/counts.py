"""The tokens of one call, as they become known."""

from __future__ import annotations

from manydesks.runner.providers.base import Usage


class Counts:
    """Each token is counted under one name, as the office's proxy does it; unknown is None, not 0."""

    def __init__(self, *, cache_in_input: bool = False) -> None:
        #: OpenAI counts what came from its cache into the input
        self._cache_in_input = cache_in_input
        self._found: dict[str, int] = {}
        self.model: str | None = None

    def at_least(self, field: str, value: int | None) -> None:
        """Counts only grow within a stream; a server that leaves one out of its last event may write 0 there."""
        if value is not None:
            self._found[field] = max(value, self._found.get(field, 0))

    def usage(self) -> Usage | None:
        """None if nothing is known."""
        return self.certain() if self._found else None

    def certain(self) -> Usage:
        """Also if nothing is known: the call did take place."""
        read, cached = self._found.get("input"), self._found.get("cache_read")
        if self._cache_in_input and read is not None and cached is not None:
            read = max(read - cached, 0)
        return Usage(
            input=read,
            output=self._found.get("output"),
            cache_read=cached,
            cache_write=self._found.get("cache_write"),
            model=self.model,
        )


def prompt_tokens(usage: Usage) -> int | None:
    """All that went in; None if it is not known."""
    if usage.input is None:
        return None
    return usage.input + (usage.cache_read or 0) + (usage.cache_write or 0)
