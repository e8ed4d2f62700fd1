"""Pieces of the stream that several followers are sent, joined once: few, and only as long as somebody may want one."""

from __future__ import annotations

from collections import OrderedDict

#: of all of them together, whoever comes back and wherever it was; the one that was asked for longest ago goes first
SHARED_BYTES = 4 << 20


class Chunks:
    """By the event they begin behind: their bytes, and the event they end with."""

    def __init__(self, most: int = SHARED_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[int, tuple[bytes, int]] = OrderedDict()
        self.size = 0

    def get(self, after: int) -> tuple[bytes, int] | None:
        known = self._kept.get(after)
        if known is not None:
            self._kept.move_to_end(after)
        return known

    def put(self, after: int, data: bytes, upto: int) -> None:
        self._kept[after] = data, upto
        self.size += len(data)
        while self.size > self._most:
            _, (gone, _) = self._kept.popitem(last=False)
            self.size -= len(gone)

    def forget_below(self, seq: int) -> None:
        """Nobody is where they begin any more, nor will be."""
        for after in [after for after in self._kept if after < seq]:
            gone, _ = self._kept.pop(after)
            self.size -= len(gone)

    def clear(self) -> None:
        self._kept.clear()
        self.size = 0
