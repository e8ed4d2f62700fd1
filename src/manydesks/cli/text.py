"""Text from strangers, made fit for a terminal: harmless characters, and the room they take.

An answer, a sender's name or a tool's error may hold escape sequences that retitle the window, rewrite lines that were
shown before, or answer on the person's behalf. They are made visible, not removed: what came is what is seen.
"""

from __future__ import annotations

import re
import unicodedata

# C0 but tab and newline, DEL and C1 (a lone U+009B starts a sequence in some terminals), line separators, the marks
# that reorder what follows (a shown command would not be the real one), and halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def harmless(text: str) -> str:
    """The text with every control character but tab and newline written out; Windows line ends become plain ones."""
    return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The harmless text on one line: runs of blanks and line ends become one blank."""
    return harmless(" ".join(text.split()))


def width(text: str) -> int:
    """Columns on a terminal: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, columns: int) -> str:
    """At most so many columns; what was cut off ends in `…`."""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for character in text:
        used += _columns(character)
        if used > columns - 1:
            break
        kept.append(character)
    return "".join(kept) + "…" if columns > 0 else ""


def tail(text: str, columns: int) -> str:
    """The end of it, in at most so many columns; what was cut off before it is `…`."""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for character in reversed(text):
        used += _columns(character)
        if used > columns - 1:
            break
        kept.append(character)
    return "…" + "".join(reversed(kept)) if columns > 0 else ""
