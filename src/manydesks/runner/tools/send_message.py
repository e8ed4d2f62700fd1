"""`send_message`: one more message to whoever wrote, before the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.ids import new_id
from manydesks.runner.sending import with_files
from manydesks.runner.tools.base import Call, Outcome, Tool

#: a message is read by people; more than this belongs into a file
MAX_TEXT = 100_000


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    id = new_id("out")
    text, files = await with_files(arguments["text"], call.means, id)
    content = {"text": text, "files": files}
    number = await (call.send("chat", content, id=id) if files else call.send("chat", content))
    return Outcome(ok=True, result={"sent": True, "messageId": number})


TOOL = Tool(
    name="send_message",
    description=(
        "Send a message to the person or agent you are answering, right now, before your final answer. "
        "Use it for a short note when the work takes long. Your final answer is sent by itself: do not repeat it here."
    ),
    arguments={
        "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT, "description": "What to say."},
    },
    required=frozenset({"text"}),
    run=run,
)
