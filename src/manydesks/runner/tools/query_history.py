"""`query_history`: figures about the office's past, which only the host can read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from manydesks.domain.ids import new_id
from manydesks.domain.insight import ACTION, MOST_FOR_AGENT, TABLES
from manydesks.runner.tools.base import Call, Outcome, Tool

#: the host answers in a moment, or not at all: it was restarted, and this turn will be over too
WAIT_SECONDS = 30.0
DEFAULT_ROWS = 30


async def run(call: Call, arguments: Mapping[str, Any]) -> Outcome:
    id = new_id("query")
    payload = {"questionId": id, "limit": DEFAULT_ROWS, **arguments}
    await call.send("system", {"action": ACTION, "payload": payload})
    try:
        async with asyncio.timeout(min(WAIT_SECONDS, call.means.ask_seconds)):
            answer = await call.means.answer(id)
    except TimeoutError:
        return Outcome(ok=False, result="The office did not answer in time. Go on without these figures.")
    return Outcome(ok=answer.get("status") == "answered", result=answer.get("result"))


TOOL = Tool(
    name=ACTION,
    description=(
        "Look up figures about the office's past: work, waiting times, costs, hand-offs, failures and topics, by day. "
        "Good for reports and for questions like 'what did last week cost' or 'who is overloaded'; not for what was "
        "said: no message is in it as a whole. The figures are made now and then: `behind` says how many events they "
        "have not seen. Tables: agent_daily and channel_daily (counts and percentiles), handoff_matrix (who gave work "
        "to whom), trace_summary (each request as a whole: time, cost, critical path), cost_daily (by agent, provider "
        "and model), dead_letters (what failed for good), busy_hours (by weekday and hour), topics_daily (unusual "
        "words), slo (how often quick enough). Days are UTC, newest first. What a row does not name is not known."
    ),
    arguments={
        "table": {"type": "string", "enum": list(TABLES), "description": "Which one."},
        "agent": {"type": "string", "minLength": 1, "maxLength": 33, "description": "Only rows about this agent."},
        "from": {"type": "string", "minLength": 10, "maxLength": 10, "description": "The first day: '2026-01-31'."},
        "to": {"type": "string", "minLength": 10, "maxLength": 10, "description": "The last day, included."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_FOR_AGENT,
            "description": f"Rows at most; {DEFAULT_ROWS} if not given.",
        },
    },
    required=frozenset({"table"}),
    run=run,
)
