"""Picks a few values out of a JSON text while it passes by, in pieces of any size, keeping next to nothing of it.

A body may have megabytes, and its usage may stand at the very end of one line; so it is neither collected nor parsed,
only walked over. Text that is not JSON picks nothing or nonsense-free values, and never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

Path = tuple[str, ...]
Value = str | int

_MARK = re.compile(rb'[{}\[\],:"]')
_STRING_END = re.compile(rb'["\\]')
_INTEGER = re.compile(rb"[0-9]{1,15}")
#: keys and values that are looked for are shorter
_KEPT = 200
#: what is looked for lies less deep
_DEEPEST = 8


class Picker:
    """Calls `found(path, value)` for each whole number or string at a path that is wanted. Not inside of arrays."""

    def __init__(self, wanted: Collection[Path], found: Callable[[Path, Value], None]) -> None:
        self._wanted = wanted
        self._found = found
        self.reset()

    def reset(self) -> None:
        """A new text begins."""
        # one entry per open bracket: an object's present key, or None in an array and before a key
        self._keys: list[str | None] = []
        self._objects: list[bool] = []
        #: how many brackets are open below those that are looked at
        self._below = 0
        self._in_string = False
        self._escaped = False
        self._key_next = False
        self._text = bytearray()

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            at = self._string(data, at) if self._in_string else self._outside(data, at)

    def _outside(self, data: bytes, at: int) -> int:
        mark = _MARK.search(data, at)
        if mark is None:
            self._keep(data[at:])
            return len(data)
        self._keep(data[at : mark.start()])
        match mark[0]:
            case b'"':
                self._in_string = True
                self._text.clear()
            case b"{" | b"[":
                self._open(is_object=mark[0] == b"{")
            case b"}" | b"]":
                self._scalar()
                self._close()
            case b",":
                self._scalar()
                self._key_next = bool(self._objects) and self._objects[-1] and not self._below
            case b":":
                self._text.clear()
        return mark.end()

    def _string(self, data: bytes, at: int) -> int:
        if self._escaped:
            # an escaped quote does not end the string; which character it was does not matter for what is wanted
            self._escaped = False
            return at + 1
        end = _STRING_END.search(data, at)
        if end is None:
            self._keep(data[at:])
            return len(data)
        self._keep(data[at : end.start()])
        if end[0] == b"\\":
            self._escaped = True
            self._keep(b"\\")
        else:
            self._in_string = False
            self._string_ended()
        return end.end()

    def _string_ended(self) -> None:
        text = self._text.decode("utf-8", "replace")
        self._text.clear()
        if self._below or not self._objects or not self._objects[-1]:
            return
        if self._key_next:
            self._keys[-1] = text
            self._key_next = False
        else:
            self._pick(text)

    def _scalar(self) -> None:
        text = bytes(self._text).strip()
        self._text.clear()
        if _INTEGER.fullmatch(text) and not self._below and self._objects and self._objects[-1]:
            self._pick(int(text))

    def _pick(self, value: Value) -> None:
        path = tuple(self._keys)
        if path in self._wanted:
            self._found(path, value)  # type: ignore[arg-type]  # a path in `wanted` holds no None

    def _open(self, *, is_object: bool) -> None:
        self._text.clear()
        if len(self._keys) >= _DEEPEST:
            self._below += 1
            return
        self._keys.append(None)
        self._objects.append(is_object)
        self._key_next = is_object

    def _close(self) -> None:
        self._key_next = False
        if self._below:
            self._below -= 1
        elif self._keys:
            self._keys.pop()
            self._objects.pop()

    def _keep(self, piece: bytes) -> None:
        room = _KEPT - len(self._text)
        if room > 0:
            self._text += piece[:room]
