"""`send_file`: a file of the workspace to whoever wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from manydesks.domain.attachment import MAX_FILE_BYTES, is_file_name
from manydesks.domain.errors import BadInput
from manydesks.domain.ids import new_id
from manydesks.mailbox import outbox
from manydesks.runner.tools.base import Call, Means, Outcome, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    path, means = arguments["path"], call.means
    if means.workspace is None or means.outbox is None:
        return Outcome(ok=False, result="Files cannot be sent from this desk; say in words what they would show.")
    id = new_id("out")
    try:
        root, parts = place(path, means)
        name = arguments.get("name", parts[-1])
        if not is_file_name(name):
            raise BadInput(f"'{name[:60]}' is not a plain file name; give another one as 'name'")
        await asyncio.to_thread(_copy, root, parts, means.outbox, id, name)
    except BadInput as error:
        return Outcome(ok=False, result=f"'{path}' was not sent: {error}.")
    except OSError as error:
        return Outcome(ok=False, result=f"'{path}' was not sent: it could not be copied ({error.strerror}).")
    number = await call.send("chat", {"text": arguments.get("text", ""), "files": [name]}, id=id)
    return Outcome(ok=True, result={"sent": True, "messageId": number, "name": name})


def place(path: str, means: Means) -> tuple[Path, tuple[str, ...]]:
    """The folder that a path begins in, and the names below it. Nothing is looked up: links are not followed here."""
    written = PurePosixPath(path)
    if ".." in written.parts:
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


def _copy(root: Path, parts: tuple[str, ...], target: Path, id: str, name: str) -> None:
    with outbox.opened(root, parts) as source:
        outbox.leave(target, id, name, source)


TOOL = Tool(
    name="send_file",
    description=(
        "Send a file from your workspace to the person or agent you are answering. It is copied as it is now; later "
        f"changes do not reach them. At most {MAX_FILE_BYTES >> 20} MB; no symbolic links, no folders."
    ),
    arguments={
        "path": {
            "type": "string",
            "minLength": 1,
            "maxLength": 4_000,
            "description": "The file, from your workspace: 'report/summary.pdf'.",
        },
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "What it is called for the reader; its own name if not given.",
        },
        "text": {"type": "string", "maxLength": 4_000, "description": "A line that goes with it."},
    },
    required=frozenset({"path"}),
    run=run,
)
