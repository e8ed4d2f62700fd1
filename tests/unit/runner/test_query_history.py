"""The tool asks the office and waits for its word, but not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from manydesks.domain.mail import Content, Inbound
from manydesks.runner.answers import Answers
from manydesks.runner.tools import query_history, registry
from manydesks.runner.tools.base import Means, Outcome


class Bench:
    """A toolbox whose rows are kept here."""

    def __init__(self, means: Means) -> None:
        self.sent: list[tuple[str, Content]] = []
        message = Inbound(seq=2, id="m1", run="run_1", fence=1, kind="chat", at=1, tries=1, content={"text": "hi"})
        self._box = registry.Toolbox(registry.find(), [message], self._send, means)

    async def _send(self, message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
        self.sent.append((kind, content))
        return 1

    async def call(self, **arguments: Any) -> Outcome:
        return await self._box.call("query_history", arguments, message="m1")


def payload(bench: Bench) -> Mapping[str, Any]:
    [(kind, content)] = bench.sent
    assert (kind, content["action"]) == ("system", "query_history")
    found = content["payload"]
    assert isinstance(found, Mapping)
    return found


async def test_it_gets_its_rows() -> None:
    answers = Answers()
    bench = Bench(Means(answer=answers.wait))
    call = asyncio.create_task(bench.call(table="cost_daily", agent="ada", **{"from": "2026-01-01"}))
    async with asyncio.timeout(20):
        await answers.wanted.wait()
        asked = payload(bench)
        assert {name: asked[name] for name in asked if name != "questionId"} == {
            "table": "cost_daily",
            "agent": "ada",
            "from": "2026-01-01",
            "limit": query_history.DEFAULT_ROWS,
        }
        answers.say({"questionId": asked["questionId"], "status": "answered", "result": {"rows": [], "behind": 3}})
        assert await call == Outcome(ok=True, result={"rows": [], "behind": 3})


async def test_a_refusal_is_for_the_model() -> None:
    async def refused(id: str) -> Content:
        return {"questionId": id, "status": "refused", "result": "There is no such day."}

    outcome = await Bench(Means(answer=refused)).call(table="slo", to="2026-13-01")
    assert outcome == Outcome(ok=False, result="There is no such day.")


async def test_an_office_that_does_not_answer_is_not_waited_for() -> None:
    outcome = await Bench(Means(answer=Answers().wait, ask_seconds=0.01)).call(table="slo")
    assert not outcome.ok
    assert "Go on without" in outcome.result


async def test_wrong_arguments_are_told_what_is_allowed() -> None:
    bench = Bench(Means())
    for arguments, sentence in (
        ({}, "needs the argument 'table'"),
        ({"table": "messages"}, "must be one of agent_daily, channel_daily"),
        ({"table": "slo", "limit": 0}, "must be at least 1"),
        ({"table": "slo", "from": "1 May"}, "at least 10 characters"),
        ({"table": "slo", "sql": "drop"}, "has no argument 'sql'"),
    ):
        outcome = await bench.call(**arguments)
        assert not outcome.ok
        assert sentence in outcome.result
    assert bench.sent == []
