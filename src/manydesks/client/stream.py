"""Server-sent events: bytes into lines, lines into events; nothing here waits for anything."""

from __future__ import annotations

import json
import re

from manydesks.client.values import Event

#: nothing else ends a line: JSON may hold U+2028 and its like as they are, which `str.splitlines` splits at
_END = re.compile(rb"\r\n|\n|\r")


class Cut:
    """Bytes, cut into lines, however they are split on their way."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_return = False

    def lines(self, chunk: bytes) -> list[str]:
        """Those that have ended with this."""
        if not chunk:
            return []
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # the second half of a line's end, whose first half has ended the line
        self._after_return = chunk.endswith(b"\r")
        *ended, self._rest = _END.split(self._rest + chunk)
        return [line.decode("utf-8", "replace") for line in ended]


class Lines:
    """Events, line by line. `live`: also those without a number, which are not even parsed otherwise."""

    def __init__(self, *, live: bool = True) -> None:
        #: the number behind which to resume: of the last block that had one, whether there was an event in it or not
        self.place: int | None = None
        self._live = live
        self._id: int | None = None
        self._kind = ""
        self._data: list[str] = []

    def take(self, line: str) -> Event | None:
        """An event, with the empty line that ends it."""
        if not line:
            if self._id is not None:
                self.place = self._id
            made = self._event()
            self._id, self._kind, self._data = None, "", []
            return made
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id":
                self._id = int(value) if value.isdecimal() else None
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
            case _:
                pass  # a comment, `retry`, or what another version has to say
        return None

    def _event(self) -> Event | None:
        if not self._data or (self._id is None and not self._live):
            return None
        return Event(seq=self._id, kind=self._kind, data=json.loads("\n".join(self._data)))
