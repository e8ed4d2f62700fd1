"""Server-sent events out of bytes, however they are cut."""

from __future__ import annotations

from collections.abc import Iterator

#: of one line, and of one event; a model that writes more than this in one event is not one
MAX_LINE = 16 << 20


class LineTooLong(ValueError):
    """Inner to this package: the stream is given up."""


class Events:
    """Feeds on bytes and gives the data of each event that is complete. Names are not needed: all APIs repeat them
    in the data. An event without its blank line is not one."""

    def __init__(self) -> None:
        self._rest = bytearray()
        #: from here on `_rest` has not been searched for the end of a line
        self._searched = 0
        self._data: list[bytes] = []
        self._size = 0
        #: the last line ended with CR: a LF right after it belongs to that
        self._after_return = False
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Raises `LineTooLong`."""
        self._rest += chunk
        for line in self._lines():
            if line:
                self._take(line)
            elif self._data:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                yield data.decode(errors="replace")

    def _lines(self) -> Iterator[bytes]:
        begin = 0
        while True:
            if self._after_return and begin < len(self._rest):
                self._after_return = False
                if self._rest[begin] == 0x0A:
                    begin += 1
            end = _end(self._rest, max(begin, self._searched))
            if end < 0:
                break
            self._after_return = self._rest[end] == 0x0D
            line = bytes(self._rest[begin:end])
            begin = self._searched = end + 1
            if not self._begun:
                self._begun = True
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield line
        del self._rest[:begin]
        self._searched = len(self._rest)
        if len(self._rest) > MAX_LINE:
            raise LineTooLong

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(value)
            if self._size > MAX_LINE:
                raise LineTooLong


def _end(data: bytearray, start: int) -> int:
    """Where the next line ends; below 0 if it does not yet."""
    newline, carriage = data.find(b"\n", start), data.find(b"\r", start)
    return min(newline, carriage) if newline >= 0 and carriage >= 0 else max(newline, carriage)
