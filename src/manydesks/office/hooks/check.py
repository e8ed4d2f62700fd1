"""What a hook may give back. Whatever else it is, the message goes on as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manydesks.office.hooks.line import HookFailed

#: of all metadata together, as JSON
METADATA_BYTES = 16 * 1024
#: what a response's metadata says for the office itself
OWN = frozenset({"card", "question", "target"})


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What a message is like after a hook."""

    text: str
    metadata: Mapping[str, Any]


def changed(answer: Mapping[str, Any], before: Changed, *, most_bytes: int) -> Changed:
    """The message as the hook left it. Raises `HookFailed` for what no message may be."""
    text, metadata = answer.get("text"), answer.get("metadata")
    if not isinstance(text, str):
        raise HookFailed("it gave back a text that is no text")
    if text != before.text:
        if not text.strip():
            raise HookFailed("it left nothing of the text")
        # one that was longer before, as answers may be, can be kept so, but not made longer
        size, most = _size(text), max(most_bytes, _size(before.text))
        if size > most:
            raise HookFailed(f"it made a text of {size} bytes; at most {most} are allowed")
    if not isinstance(metadata, dict):
        raise HookFailed("it gave back metadata that is no object with names")
    if metadata != before.metadata:
        if taken := OWN & metadata.keys():
            raise HookFailed(f"metadata has the name '{min(taken)}', which is the office's own")
        size = _size(json.dumps(metadata, ensure_ascii=False))
        if size > METADATA_BYTES:
            raise HookFailed(f"it gave back {size} bytes of metadata; at most {METADATA_BYTES} are allowed")
    return Changed(text=text, metadata=metadata)


def _size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise HookFailed("it gave back half a character, which cannot be stored") from None
