"""`send_file`: a file of the workspace to whoever wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.attachment import MAX_FILE_BYTES
from manydesks.domain.errors import BadInput
from manydesks.domain.ids import new_id
from manydesks.runner.sending import leave_file
from manydesks.runner.tools.base import Call, Outcome, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    path, means = arguments["path"], call.means
    if means.workspace is None or means.outbox is None:
        return Outcome(ok=False, result="Files cannot be sent from this desk; say in words what they would show.")
    id = new_id("out")
    try:
        name = await leave_file(path, means, id, arguments.get("name"))
    except BadInput as error:
        return Outcome(ok=False, result=f"'{path}' was not sent: {error}.")
    number = await call.send("chat", {"text": arguments.get("text", ""), "files": [name]}, id=id)
    return Outcome(ok=True, result={"sent": True, "messageId": number, "name": name})


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
