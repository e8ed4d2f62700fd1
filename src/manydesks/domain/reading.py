"""A response as people read it where there is only text: the same words on every screen."""

from __future__ import annotations

from collections.abc import Iterable

from manydesks.domain.attachment import Attachment

#: what is no text of its own says what it is
MARKS = {"edit": "[edited] ", "reaction": "[reacted] ", "card": "[card] ", "ask_question": "[question] "}


def readable(
    *, operation: str, text: str, files: Iterable[Attachment] = (), question: str | None = None, home: str = ""
) -> str:
    """A response as lines of text, whatever it is.

    `question` is the id to answer by; `home` goes before the paths of files, which are relative to it.
    """
    lines = [MARKS.get(operation, "") + text] if text else []
    if question:
        lines.append(f"(to answer: manydesks answer {question} …)")
    where = f"{home.rstrip('/')}/" if home else ""
    return "\n".join((*lines, *(f"[file] {file.name} ({size(file.bytes)}): {where}{file.path}" for file in files)))


def size(count: int) -> str:
    if count < 1_000:
        return f"{count} byte{'' if count == 1 else 's'}"
    return f"{count / 1_000:.1f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
