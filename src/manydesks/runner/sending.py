"""Files of a workspace on their way out: by the tool `send_file`, or by `[send_file: path]` in what an agent says.

The copy is made here, at the desk, where a path can reach nothing but what the agent has; the host never opens a path
that a desk names. Links are not followed, and `..` is refused.
"""

from __future__ import annotations

import asyncio
from pathlib import Path, PurePosixPath

from manydesks.domain.attachment import MAX_FILES, is_file_name
from manydesks.domain.errors import BadInput
from manydesks.domain.filetag import file_tags
from manydesks.mailbox import outbox
from manydesks.runner.tools.base import Means

NO_FILES = "files cannot be sent from this desk"


async def leave_file(path: str, means: Means, id: str, name: str | None = None) -> str:
    """Copy a file to the outbox of the row `id`, on the disk when this returns; what it is called there.

    `BadInput` is the end of a sentence about the path: why it is not sent.
    """
    if means.workspace is None or means.outbox is None:
        raise BadInput(NO_FILES)
    root, parts = place(path, means)
    name = parts[-1] if name is None else name
    if not is_file_name(name):
        raise BadInput(f"'{name[:60]}' is not a plain file name; give another one as 'name'")
    try:
        await asyncio.to_thread(_copy, root, parts, means.outbox, id, name)
    except OSError as error:
        raise BadInput(f"it could not be copied ({error.strerror})") from error
    return name


def place(path: str, means: Means) -> tuple[Path, tuple[str, ...]]:
    """The folder that a path begins in, and the names below it. Nothing is looked up: links are not followed here."""
    written = PurePosixPath(path)
    if "\0" in path or ".." in written.parts:
        raise BadInput("'..' is not allowed in a path; name the file from your workspace")
    if not written.is_absolute():
        if not written.parts:
            raise BadInput("a path names a file")
        assert means.workspace is not None
        return means.workspace, written.parts
    for root in (means.workspace, means.outbox):
        assert root is not None
        # the agent may know its folder by either name
        for known in (root, root.resolve()):
            if written.parts[: len(known.parts)] == known.parts and len(written.parts) > len(known.parts):
                return root, written.parts[len(known.parts) :]
    raise BadInput("only files of your workspace and of your outbox can be sent; copy it into the workspace first")


async def with_files(text: str, means: Means, id: str, *, most: int = MAX_FILES) -> tuple[str, list[str]]:
    """The text with readable words in the place of each tag, and the names of the files, at most `most`, that lie in
    the outbox.

    A file that is not sent is named, with the reason, where it was asked for: the reader sees it, and so does whoever
    looks for what the agent did.
    """
    tags = file_tags(text)
    if not tags:
        return text, []
    said: dict[str, str] = {}
    names: list[str] = []
    parts: list[str] = []
    done = 0
    for tag in tags:
        parts.append(text[done : tag.start])
        done = tag.end
        if tag.path is None:
            continue
        if tag.path not in said:
            said[tag.path] = await _words(tag.path, means, id, names, most)
        parts.append(said[tag.path])
    return "".join((*parts, text[done:])), names


async def _words(path: str, means: Means, id: str, names: list[str], most: int) -> str:
    """Words for a reader; the file's name is among `names` if it goes along."""
    shown = path if len(path) <= 200 else f"{path[:200]}…"
    try:
        if len(names) >= most:
            raise BadInput(f"at most {most} files go with one message")
        name = await leave_file(path, means, id, _free(PurePosixPath(path).name, names))
    except BadInput as error:
        return f"(The file '{shown}' was not sent: {error}.)"
    names.append(name)
    return f"(file: {name})"


def _free(name: str, taken: list[str]) -> str | None:
    """A name that no other file of the message has; None: its own."""
    if name not in taken:
        return None
    stem, dot, ending = name.rpartition(".") if "." in name.strip(".") else (name, "", "")
    return next(
        other for number in range(2, MAX_FILES + 2) if (other := f"{stem} ({number}){dot}{ending}") not in taken
    )


def _copy(root: Path, parts: tuple[str, ...], target: Path, id: str, name: str) -> None:
    with outbox.opened(root, parts) as source:
        outbox.leave(target, id, name, source)
