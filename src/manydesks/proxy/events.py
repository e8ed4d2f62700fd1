"""Server-sent events, as far as the proxy looks at them: the data of each, in pieces, as it comes."""

from __future__ import annotations

import re
from collections.abc import Callable

_LINE_END = re.compile(rb"[\r\n]")
_DATA = b"data:"


class EventData:
    """Hands the data of each event to `data` as it arrives, and calls `ended` between two events. Keeps no line."""

    def __init__(self, data: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._data = data
        self._ended = ended
        #: the beginning of a line, until it is clear whether it is data
        self._start = b""
        self._is_data: bool | None = None
        self._after_cr = False

    def feed(self, chunk: bytes) -> None:
        at = 0
        while at < len(chunk):
            if self._after_cr:
                self._after_cr = False
                if chunk[at : at + 1] == b"\n":  # the second half of a line end
                    at += 1
                    continue
            end = _LINE_END.search(chunk, at)
            self._piece(chunk[at : end.start() if end else len(chunk)])
            if end is None:
                return
            self._after_cr = end[0] == b"\r"
            self._line_ended()
            at = end.end()

    def _piece(self, piece: bytes) -> None:
        if self._is_data is None:
            self._start += piece[: len(_DATA)]
            if not _DATA.startswith(self._start[: len(_DATA)]):
                self._is_data = False
            elif len(self._start) >= len(_DATA):
                self._is_data = True
                # what was taken for the beginning, and is more than that
                taken = min(len(piece), len(_DATA))
                piece = self._start[len(_DATA) :] + piece[taken:]
        if self._is_data and piece:
            self._data(piece)

    def _line_ended(self) -> None:
        if not self._start:
            self._ended()
        elif self._is_data:
            self._data(b"\n")
        self._start = b""
        self._is_data = None
