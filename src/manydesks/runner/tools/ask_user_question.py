"""`ask_user_question`: a question to the person, and their answer if it comes soon."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from manydesks.domain.ids import new_id
from manydesks.domain.question import MAX_OPTION, MAX_OPTIONS, MAX_QUESTION, MAX_TITLE
from manydesks.runner.tools.base import Call, Outcome, Tool

OPEN = (
    "The question is still open. Do what can be done without the answer, then end your turn; the answer comes to you "
    "as a message when the person has given it. Do not ask again."
)


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    id = new_id("question")
    options = [{"label": label, "value": label} for label in dict.fromkeys(arguments.get("options", ()))]
    await call.send(
        "chat",
        {
            "operation": "ask_question",
            "questionId": id,
            "title": arguments.get("title", ""),
            "question": arguments["question"],
            "options": options,
        },
    )
    try:
        async with asyncio.timeout(call.means.ask_seconds):
            answer = await call.means.answer(id)
    except TimeoutError:
        # from here on the answer is a message: the host must know that nobody waits for its word any more
        await call.send("system", {"action": "question_left", "payload": {"questionId": id}})
        return Outcome(ok=True, result={"answered": False, "questionId": id, "note": OPEN})
    await call.send("system", {"action": "question_heard", "payload": {"questionId": id}})
    if answer.get("status") != "answered":
        reason = str(answer.get("result") or "Nobody answered in time.")
        return Outcome(ok=True, result={"answered": False, "questionId": id, "note": reason})
    given = {name: answer[name] for name in ("selectedOption", "text", "userId") if answer.get(name)}
    return Outcome(ok=True, result={"answered": True, **given})


TOOL = Tool(
    name="ask_user_question",
    description=(
        "Ask the person something that you cannot decide or find out yourself, and wait for the answer, for some "
        "minutes at most. If it has not come by then you are told so: end your turn, and the answer arrives later as a "
        "message. Ask one thing at a time, and offer options where there are some; the person may answer in own words."
    ),
    arguments={
        "question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION, "description": "All of it."},
        "options": {
            "type": "array",
            "maxItems": MAX_OPTIONS,
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_OPTION},
            "description": "Answers to choose from.",
        },
        "title": {"type": "string", "maxLength": MAX_TITLE, "description": "What it is about, in a few words."},
    },
    required=frozenset({"question"}),
    run=run,
)
