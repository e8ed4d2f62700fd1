"""A response, as the reader shows it, in the words that every screen has for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manydesks.domain.attachment import Attachment
from manydesks.domain.reading import readable


def shown(response: Mapping[str, Any], home: Path) -> str:
    """Text, files with the path of the office's copy, how to answer a question; a text that was erased says so."""
    text = response["text"]
    return readable(
        operation=response.get("operation") or "message",
        text="(erased)" if text is None else text,
        files=[Attachment.of(file) for file in response.get("files") or ()],
        question=response.get("questionId"),
        home=str(home),
    )
