"""The escaping of prompts: whatever others wrote becomes text that no reader can take for a tag of ours."""

from __future__ import annotations

import re

#: one attribute; names and titles, not texts
MAX_ATTRIBUTE = 1_000

#: what XML has no way to write, halves of characters among it
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_LINE_END = re.compile("\r\n?|\x85|\u2028|\u2029")
#: the last four only look like brackets, which is enough to mislead a model
_TEXT = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "＜": "&#xFF1C;", "＞": "&#xFF1E;", "﹤": "&#xFE64;", "﹥": "&#xFE65;"}
)
_IN_ATTRIBUTE = str.maketrans({'"': "&quot;", "'": "&apos;", "\n": "&#10;", "\t": "&#9;"})


def plain(text: str) -> str:
    """The text as it will be read back: one kind of line end, no characters that cannot be written."""
    return _UNWRITABLE.sub("\ufffd", _LINE_END.sub("\n", text))


def escaped(text: str) -> str:
    """For between tags."""
    return plain(text).translate(_TEXT)


def attribute(value: object) -> str:
    """For between double quotes."""
    text = plain(str(value))
    if len(text) > MAX_ATTRIBUTE:
        text = text[: MAX_ATTRIBUTE - 1] + "…"
    return text.translate(_TEXT).translate(_IN_ATTRIBUTE)


def opening(name: str, attributes: dict[str, object], *, empty: bool = False) -> str:
    """A tag with the attributes that have a value, in their order. `name` is ours, never anybody's input."""
    given = "".join(f' {key}="{attribute(value)}"' for key, value in attributes.items() if value not in (None, ""))
    return f"<{name}{given}{'/' if empty else ''}>"
