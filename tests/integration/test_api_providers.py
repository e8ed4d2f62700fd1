"""The providers `anthropic` and `openai` against a scripted model, through the real proxy and its Unix socket."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.domain.clock import SystemClock
from manydesks.domain.mail import Content, Inbound
from manydesks.proxy.gate import Call, Gate
from manydesks.proxy.server import Proxy
from manydesks.proxy.upstream import Upstream
from manydesks.runner.loop import Runner
from manydesks.runner.providers.base import (
    Answer,
    Endpoint,
    Failed,
    Progress,
    Provider,
    Station,
    Step,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from manydesks.runner.providers.registry import Providers
from manydesks.runner.tools import registry
from manydesks.settings.home import Home
from manydesks.testing.mailbox import MemoryMailbox
from manydesks.testing.model import Asked, Cut, Fail, Garble, Hang, ModelServer, Pace, Refuse, Script
from manydesks.testing.model import ToolCall as Wants
from manydesks.testing.model import Turn as Says
from manydesks.testing.model import Usage as Tokens

KEY = "sk-real-0123456789abcdef"
#: made once: reading the trusted certificates takes longer than most tests
TLS = httpx.create_ssl_context(trust_env=False)
DIALECTS = ("messages", "chat", "responses")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(20)
PDF = b"%PDF-1.7\n%%EOF\n"


@dataclass
class Desk:
    """One session: its door, its folders, and what its tools have sent."""

    dialect: str
    model: ModelServer
    station: Station
    proxy: Proxy
    calls: list[Call]
    #: a sentence: the session may not spend
    budget: dict[str, str]
    sent: list[tuple[str, Content]] = field(default_factory=list)
    continuation: str | None = None
    count: int = 0
    providers: list[Provider] = field(default_factory=list)

    def provider(self, **changes: Any) -> Provider:
        """A fresh one, as after a restart of the runner."""
        options = {**self.station.options, **changes.pop("options", {})}
        station = replace(self.station, options=options, **changes)
        name = "anthropic" if self.dialect == "messages" else "openai"
        self.providers.append(Providers().get(name).load(station))
        return self.providers[-1]

    def message(self, text: str, **fields: Any) -> Inbound:
        self.count += 1
        content = {"sender": "Ada", "senderId": "cli:ada", "text": text, **fields.pop("content", {})}
        given = {"id": f"m{self.count}", "run": "r1", "fence": 1, "kind": "chat", "at": 0, "tries": 1, **fields}
        return Inbound(content=content, **given)

    def batch(self, *messages: Inbound) -> Turn:
        async def send(message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
            self.sent.append((message.id, content))
            return 2 * len(self.sent) - 1

        tools = registry.Toolbox({"send_message": registry.find()["send_message"]}, messages, send)
        return Turn(agent="ada", name="Ada", messages=messages, tools=tools, continuation=self.continuation)

    async def turn(self, provider: Provider, *messages: Inbound | str, accept: bool = True) -> list[Step]:
        """All steps of a turn; with `accept` the host has taken the answer."""
        rows = tuple(self.message(row) if isinstance(row, str) else row for row in messages)
        steps = [step async for step in provider.turn(self.batch(*rows))]
        if accept and isinstance(steps[-1], Answer):
            self.continuation = steps[-1].continuation
        return steps


@asynccontextmanager
async def desk_of(dialect: str, script: Script | list[Any], **options: Any) -> AsyncIterator[Desk]:
    before = asyncio.all_tasks()
    kind = "anthropic" if dialect == "messages" else "openai"
    played = script if isinstance(script, Script) else Script(turns=tuple(script), shared=True)
    calls: list[Call] = []
    budget: dict[str, str] = {}

    async def may_spend(session: str) -> str | None:
        return budget.get(session)

    with tempfile.TemporaryDirectory(prefix="md-") as folder:
        home = Home(Path(folder, "home"))
        home.prepare()
        places = [Path(folder, name) for name in ("workspace", "state", "inbox")]
        for place in places:
            place.mkdir()
        (places[0] / "AGENTS.md").write_text("You like tea.")
        async with ModelServer(played, key=KEY) as model:
            upstreams = [
                Upstream(name="claude", kind="anthropic", base_url=model.base_url, key="k"),
                Upstream(name="gpt", kind="openai", base_url=model.openai_url, key="k"),
            ]
            gate = Gate(key_of=lambda upstream: KEY, may_spend=may_spend, called=calls.append)
            proxy = Proxy(home, upstreams, gate, tls=TLS)
            name = {"anthropic": "claude", "openai": "gpt"}[kind]
            socket = await proxy.open("s1", [name])
            station = Station(
                agent="ada",
                name="Ada",
                model="tea-1",
                workspace=places[0],
                state=places[1],
                inbox=places[2],
                endpoint=Endpoint(kind=kind, socket=socket, prefix=f"/{name}"),
                options={**({} if dialect == "messages" else {"api": dialect}), **options},
            )
            desk = Desk(dialect=dialect, model=model, station=station, proxy=proxy, calls=calls, budget=budget)
            try:
                yield desk
            finally:
                for provider in desk.providers:
                    await provider.close()
                await proxy.stop()
            assert [path for path in _files(folder) if KEY.encode() in path.read_bytes()] == []
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:  # generators of httpx that the loop is just closing; whatever waits for something is a leak
        left = (await asyncio.wait(left, timeout=1))[1]
    assert left == set(), "a task was left behind"


def _files(folder: str) -> list[Path]:
    return [path for path in Path(folder).rglob("*") if path.is_file()]


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def kinds(steps: list[Step]) -> list[str]:
    return [type(step).__name__ for step in steps if not isinstance(step, Progress)]


def last(steps: list[Step], kind: type[Any]) -> Any:
    assert isinstance(steps[-1], kind), steps[-1]
    assert sum(isinstance(step, Answer | Failed) for step in steps) == 1
    return steps[-1]


async def test_a_conversation_goes_on_over_turns_and_restarts(dialect: str) -> None:
    async with desk_of(dialect, [Says(text="One."), Says(text="Two."), Says(text="Three.")]) as desk:
        provider = desk.provider()
        first = await desk.turn(provider, "tea & biscuits")
        assert kinds(first) == ["Usage", "Answer"]
        assert last(first, Answer).text == "One."
        assert last(first, Answer).answers == ("m1",)
        assert last(await desk.turn(provider, "and milk"), Answer).text == "Two."
        # a fresh runner finds the same past in the file
        assert last(await desk.turn(desk.provider(), "and sugar"), Answer).text == "Three."
        request = desk.model.requests[2]
        assert request.key == KEY
        assert request.asked is not None
        assert request.asked.model == "tea-1"
        assert "You like tea." in request.asked.system
        assert [("tea &amp; biscuits" in said, "and milk" in said) for said in request.asked.said] == [
            (True, False),
            (False, True),
            (False, False),
        ]
        assert "One." in json.dumps(request.body)
        assert "Two." in json.dumps(request.body)
        assert [call.outcome for call in desk.calls] == ["answered"] * 3


async def test_words_are_progress_as_they_come(dialect: str) -> None:
    text = "A rather long answer, piece by piece."
    async with desk_of(dialect, [Says(text=text, piece=5, fault=Hang(after_event=8))]) as desk:
        seen: list[str] = []
        async with aclosing(desk.provider().turn(desk.batch(desk.message("go")))) as steps:  # type: ignore[type-var]
            async for step in steps:
                if isinstance(step, Progress):
                    seen.append(step.text)
                    break
            # the model stands still: what was seen was not held back until the end
            await desk.model.wait_hanging(1)
            desk.model.release()
            async for step in steps:
                if isinstance(step, Progress):
                    seen.append(step.text)
        assert "".join(seen) == text
        assert len(seen) > 1


async def test_tools_are_called_in_order_and_their_results_go_back(dialect: str) -> None:
    calls = (
        Wants(name="send_message", arguments={"text": "first"}),
        Wants(name="send_message", arguments={"text": "second"}),
        Wants(name="no_such_tool", arguments={}),
        Wants(name="send_message", arguments={"txt": 7}),
    )
    async with desk_of(
        dialect, [Says(text="Let me tell.", calls=calls), Says(text="Told."), Says(text="Yes.")]
    ) as desk:
        provider = desk.provider()
        steps = await desk.turn(provider, "tell them")
        assert kinds(steps) == ["Usage", "Text", *["ToolCall", "ToolResult"] * 4, "Usage", "Answer"]
        assert [step.text for step in steps if isinstance(step, Text)] == ["Let me tell."]
        assert [content["text"] for _, content in desk.sent] == ["first", "second"]
        assert {message for message, _ in desk.sent} == {"m1"}
        called = [step for step in steps if isinstance(step, ToolCall)]
        results = [step for step in steps if isinstance(step, ToolResult)]
        assert [step.id for step in called] == [step.id for step in results]
        assert len({step.id for step in called}) == 4
        assert [step.ok for step in results] == [True, True, False, False]
        asked = desk.model.requests[1].asked
        assert asked is not None
        assert len(asked.tool_results) == 4
        assert '"messageId": 1' in asked.tool_results[0]
        assert "There is no tool 'no_such_tool'" in asked.tool_results[2]
        assert "has no argument 'txt'" in asked.tool_results[3]
        assert asked.tools == ("send_message",)
        # the pairing of calls and results holds in later turns and after a restart: the server would refuse it if not
        assert last(await desk.turn(desk.provider(), "really?"), Answer).text == "Yes."


async def test_usage_is_counted_per_call_and_once(dialect: str) -> None:
    script = [
        Says(
            calls=(Wants(name="send_message", arguments={"text": "x"}),),
            usage=Tokens(input=100, output=7, cache_read=40),
        ),
        Says(text="Done.", usage=Tokens(input=20, output=3, cache_read=140)),
    ]
    async with desk_of(dialect, script) as desk:
        steps = await desk.turn(desk.provider(), "go")
        usages = [step for step in steps if isinstance(step, Usage)]
        assert [(use.input, use.output, use.cache_read) for use in usages] == [(100, 7, 40), (20, 3, 140)]
        assert {(use.model, use.cost_usd) for use in usages} == {("tea-1", None)}
        booked = [call.usage for call in desk.calls]
        for ours, theirs in zip(usages, booked, strict=True):
            assert theirs is not None
            assert (ours.input, ours.output, ours.cache_read) == (theirs.input, theirs.output, theirs.cache_read)
            assert ours.cache_write == theirs.cache_write


async def test_a_turn_that_was_not_accepted_is_not_seen_again(dialect: str) -> None:
    async with desk_of(dialect, [Says(text=f"Answer {n}.") for n in range(4)]) as desk:
        provider = desk.provider()
        await desk.turn(provider, "first")
        await desk.turn(provider, "lost words", accept=False)
        for again in (provider, desk.provider()):
            await desk.turn(again, "second", accept=False)
            sent = json.dumps(desk.model.requests[-1].body)
            assert "Answer 0." in sent
            assert "lost words" not in sent
            assert "Answer 1." not in sent
            assert sent.count("second") == 1


async def test_one_answer_covers_the_batch_and_goes_to_who_wants_it(dialect: str) -> None:
    async with desk_of(dialect, [Says(text="Both."), Says(text="After.")]) as desk:
        provider = desk.provider()
        context = desk.message("by the way", trigger=False)
        steps = await desk.turn(provider, context, desk.message("one"), desk.message("two"))
        assert last(steps, Answer).answers == ("m2", "m3", "m1")
        asked = desk.model.requests[0].asked
        assert asked is not None
        assert all(word in asked.user for word in ("by the way", "one", "two"))
        # nobody is asked for context alone, and it is not forgotten
        alone = await desk.turn(provider, desk.message("it rains", trigger=False))
        assert kinds(alone) == ["Answer"]
        assert last(alone, Answer).text == ""
        assert len(desk.model.requests) == 1
        await desk.turn(provider, "and now?")
        assert "it rains" in json.dumps(desk.model.requests[1].body)


async def test_the_past_is_cut_in_whole_turns_when_it_does_not_fit(dialect: str) -> None:
    calls = (Wants(name="send_message", arguments={"text": "y" * 300}),)
    script = Script(turns=(lambda asked: Says(text="ok") if asked.tool_results else Says(calls=calls),))
    async with desk_of(dialect, script, context_tokens=6_000, max_tokens=100) as desk:
        provider = desk.provider()
        for number in range(12):
            last(await desk.turn(provider, f"number {number}. " + "x" * 1_500), Answer)
        sent = json.dumps(desk.model.requests[-1].body)
        assert "number 11." in sent
        assert "number 10." in sent
        assert "number 0." not in sent
        assert sent.count("Earlier messages of this conversation are not shown") == 1
        assert "Earlier messages" not in json.dumps(desk.model.requests[0].body)
        # the server has refused none, so no call was parted from its result
        assert all(request.asked is not None for request in desk.model.requests)


@pytest.mark.parametrize("words", ["prompt is too long: 9 tokens > 8 maximum", "maximum context length is 8 tokens"])
async def test_an_api_that_finds_the_prompt_too_long_gets_less_of_the_past(dialect: str, words: str) -> None:
    limit = [1_000_000]

    def held_to_the_limit(asked: Asked) -> Says:
        fits = len(json.dumps(asked.body)) <= limit[0]
        return Says(text="c") if fits else Says(fault=Refuse(status=400, message=words))

    async with desk_of(dialect, [held_to_the_limit]) as desk:
        provider = desk.provider()
        for number in range(6):
            await desk.turn(provider, f"number {number}. " + "x" * 4_000)
        limit[0] = 20_000
        assert last(await desk.turn(provider, "now"), Answer).text == "c"
        sent = json.dumps(desk.model.requests[-1].body)
        assert "number 0." in json.dumps(desk.model.requests[6].body)
        assert "number 0." not in sent
        assert "number 5." in sent
        # what was learned is not paid for again
        before = len(desk.model.requests)
        last(await desk.turn(provider, "and now"), Answer)
        assert len(desk.model.requests) == before + 1
    async with desk_of(dialect, [Says(fault=Refuse(status=400, message=words), times=None)]) as desk:
        failed = last(await desk.turn(desk.provider(), "alone"), Failed)
        assert failed.failure == "permanent"
        assert words in failed.reason


@pytest.mark.parametrize(
    ("fault", "failure", "words"),
    [
        (Refuse(status=400, message="bad shape"), "permanent", "400: bad shape"),
        (Refuse(status=401), "permanent", "manydesks secret set"),
        (Refuse(status=403, message="not yours"), "permanent", "not yours (set the key"),
        (Refuse(status=404, message="no such model"), "permanent", "no such model"),
        (Refuse(status=413), "permanent", "413"),
        (Refuse(status=422), "permanent", "422"),
        (Refuse(status=402, message="no money"), "refused", "no money"),
        (Refuse(status=408), "transient", "408"),
        (Refuse(status=409), "transient", "409"),
        (Refuse(status=429), "transient", "429"),
        (Refuse(status=500), "transient", "500"),
        (Refuse(status=503, body="<html>busy</html>"), "transient", "503: it gave no reason"),
        (Refuse(status=529), "transient", "529"),
        (Cut(), "transient", "upstream"),
        (Cut(after_event=2), "transient", "broke off"),
        (Cut(after_byte=10), "transient", "broke off"),
        (Garble(event=2), "transient", "no JSON"),
        (Fail(after_event=2, status=529, message="too many"), "transient", "too many"),
        (Fail(after_event=2, status=400, message="bad words"), None, "bad words"),
        (Hang(), "transient", "said nothing for 1 s"),
        (Hang(after_event=3), "transient", "said nothing for 1 s"),
    ],
    ids=str,
)
async def test_every_fault_is_classified_and_the_next_try_works(
    dialect: str, fault: Any, failure: str | None, words: str
) -> None:
    # only who hangs is to be found silent, not who is slow on a busy machine
    idle = {"idle_seconds": 1} if isinstance(fault, Hang) else {}
    async with desk_of(dialect, [Says(text="x" * 300, fault=fault), Says(text="Well.")], **idle) as desk:
        provider = desk.provider()
        steps = await desk.turn(provider, "go")
        failed = last(steps, Failed)
        assert failed.message == "m1"
        # a stream names an error, and OpenAI has one name for what is ours and one for what is theirs
        assert failed.failure == (failure or ("transient" if dialect == "responses" else "permanent"))
        if not isinstance(fault, Cut) or fault.after_event:
            assert words in failed.reason
        assert len(desk.model.requests) == 1
        assert last(await desk.turn(provider, "again"), Answer).text == "Well."


@pytest.mark.parametrize(("given", "seconds"), [("7", 7.0), ("0.5", 0.5), ("soon", None)])
async def test_retry_after_is_handed_on(dialect: str, given: str, seconds: float | None) -> None:
    fault = Refuse(status=429, headers={"retry-after": given})
    async with desk_of(dialect, [Says(fault=fault)]) as desk:
        assert last(await desk.turn(desk.provider(), "go"), Failed).retry_after == seconds


async def test_over_budget_is_refused_with_the_office_s_sentence(dialect: str) -> None:
    async with desk_of(dialect, []) as desk:
        desk.budget["s1"] = "Ada has spent 5 USD of 5 today."
        failed = last(await desk.turn(desk.provider(), "go"), Failed)
        assert (failed.failure, failed.reason) == ("refused", "Ada has spent 5 USD of 5 today.")
        assert desk.model.requests == ()


async def test_a_cut_answer_still_says_what_it_cost() -> None:
    turn = Says(text="x" * 500, usage=Tokens(input=50, cache_read=9, output=80), fault=Cut(after_event=5))
    async with desk_of("messages", [turn]) as desk:
        steps = await desk.turn(desk.provider(), "go")
        assert kinds(steps) == ["Usage", "Failed"]
        usage = next(step for step in steps if isinstance(step, Usage))
        assert (usage.input, usage.cache_read, usage.output) == (50, 9, None)


async def test_the_ends_of_answers(dialect: str) -> None:
    script = [
        Says(text="Half an ans", stop="length"),
        Says(calls=(Wants(name="send_message", arguments={"text": "half"}),), stop="length"),
        Says(text="I would rather not.", stop="refusal"),
        Says(text="", usage=Tokens(output=2)),
        Says(text="", usage=Tokens(output=0)),
        Says(text="Fine."),
    ]
    async with desk_of(dialect, script, max_tokens=64) as desk:
        provider = desk.provider()
        cut = last(await desk.turn(provider, "long"), Answer)
        assert cut.text == "Half an ans\n\n(The answer ends here: it reached max_tokens = 64.)"
        before = last(await desk.turn(provider, "longer"), Failed)
        assert (before.failure, "max_tokens = 64" in before.reason) == ("permanent", True)
        assert desk.sent == []
        declined = last(await desk.turn(provider, "never"), Failed)
        assert (declined.failure, declined.reason) == ("refused", "the model declined to answer: I would rather not.")
        assert last(await desk.turn(provider, "hush"), Answer).text == ""
        assert last(await desk.turn(provider, "hush"), Failed).failure == "transient"
        assert last(await desk.turn(provider, "well?"), Answer).text == "Fine."
        sent = json.dumps(desk.model.requests[-1].body)
        assert "never" not in sent
        assert "The answer ends here" not in sent


async def test_a_model_that_never_stops_calling_is_stopped(dialect: str) -> None:
    calls = (Wants(name="send_message", arguments={"text": "again"}),)
    async with desk_of(dialect, [Says(calls=calls, times=None)], max_rounds=3) as desk:
        failed = last(await desk.turn(desk.provider(), "go"), Failed)
        assert failed.failure == "permanent"
        assert "after 3 rounds" in failed.reason
        assert len(desk.sent) == 3
        assert len(desk.model.requests) == 4


async def test_leaving_a_turn_closes_the_connection(dialect: str) -> None:
    turns = [Says(text="x" * 500, fault=Hang(after_event=7)), Says(fault=Hang()), Says(text="Here.")]
    async with desk_of(dialect, turns) as desk:
        provider = desk.provider()
        async with aclosing(provider.turn(desk.batch(desk.message("one")))) as steps:  # type: ignore[type-var]
            async for step in steps:
                assert isinstance(step, Progress)
                break
        assert [ending.how for ending in await desk.model.wait_endings(1)] == ["left"]
        waiting = asyncio.create_task(desk.turn(provider, "two"))
        await desk.model.wait_hanging(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [ending.how for ending in await desk.model.wait_endings(2)] == ["left", "left"]
        assert last(await desk.turn(provider, "three"), Answer).text == "Here."


async def test_a_slow_stream_is_no_silence(dialect: str) -> None:
    async with desk_of(
        dialect, [Says(text="slow but sure", pace=Pace(bytes=60, seconds=0.08))], idle_seconds=1.5
    ) as desk:
        assert last(await desk.turn(desk.provider(), "go"), Answer).text == "slow but sure"


async def test_a_door_that_is_closed_is_transient(dialect: str) -> None:
    async with desk_of(dialect, [Says(text="Back.")]) as desk:
        provider = desk.provider()
        await desk.proxy.close("s1")
        failed = last(await desk.turn(provider, "go"), Failed)
        assert failed.failure == "transient"
        assert "door" in failed.reason
        await desk.proxy.open("s1", ["claude" if dialect == "messages" else "gpt"])
        assert last(await desk.turn(provider, "go"), Answer).text == "Back."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "has no model: set `model`"),
        ({"endpoint": None}, "set its `base_url`"),
        ({"endpoint": Endpoint(kind="other", socket=Path("/nowhere"))}, "of the kind 'other'"),
        ({"options": {"max_rounds": "many"}}, "'max_rounds' must be a whole number from 0"),
    ],
)
async def test_what_is_missing_is_said(dialect: str, changes: dict[str, Any], words: str) -> None:
    async with desk_of(dialect, []) as desk:
        failed = last(await desk.turn(desk.provider(**changes), "go"), Failed)
        assert failed.failure == "permanent"
        assert words in failed.reason


def files_of(desk: Desk) -> dict[str, Any]:
    assert desk.station.inbox is not None
    (desk.station.inbox / "m1").mkdir()
    listed = []
    for name, mime, data in (
        ("cat.png", "image/png", PNG),
        ("a.pdf", "application/pdf", PDF),
        ("v.wav", "audio/wav", WAV),
    ):
        (desk.station.inbox / "m1" / name).write_bytes(data)
        listed.append({"type": "file", "name": name, "path": f"m1/{name}", "mime": mime, "bytes": len(data)})
    return {"attachments": listed}


async def test_files_go_as_they_are_where_the_api_takes_them(dialect: str) -> None:
    async with desk_of(dialect, [Says(text="A cat."), Says(text="Still.")], native=["image", "pdf", "audio"]) as desk:
        message = desk.message("what is it?", content=files_of(desk))
        await desk.turn(desk.provider(), message)
        first = json.dumps(desk.model.requests[0].body)
        # the host may empty the inbox; the talk goes on with the picture, also after a restart
        assert desk.station.inbox is not None
        for path in (desk.station.inbox / "m1").iterdir():
            path.unlink()
        await desk.turn(desk.provider(), "and now?")
        for sent in (first, json.dumps(desk.model.requests[1].body)):
            assert base64.b64encode(PNG).decode() in sent
            assert base64.b64encode(PDF).decode() in sent
            assert (base64.b64encode(WAV).decode() in sent) == (dialect == "chat")
        assert "v.wav" in first


async def test_files_that_are_not_wanted_go_as_paths(dialect: str) -> None:
    async with desk_of(dialect, [Says(text="Hm.")], native=[]) as desk:
        await desk.turn(desk.provider(), desk.message("what is it?", content=files_of(desk)))
        sent = json.dumps(desk.model.requests[0].body)
        assert base64.b64encode(PNG).decode() not in sent
        assert "m1/cat.png" in sent


async def test_anthropic_is_told_what_it_may_cache() -> None:
    async with desk_of("messages", [Says(text="a"), Says(text="b")]) as desk:
        provider = desk.provider()
        await desk.turn(provider, "one")
        await desk.turn(provider, "two")
        body = desk.model.requests[1].body
        assert body is not None
        mark = {"type": "ephemeral"}
        assert body["system"][-1]["cache_control"] == mark
        marked = [block for message in body["messages"] for block in message["content"] if "cache_control" in block]
        assert marked == [body["messages"][-1]["content"][-1]]
    async with desk_of("messages", [Says(text="a")], cache=False) as desk:
        await desk.turn(desk.provider(), "one")
        assert "cache_control" not in json.dumps(desk.model.requests[0].body)


async def test_thoughts_are_no_words_and_anthropic_gets_its_own_back(dialect: str) -> None:
    calls = (Wants(name="send_message", arguments={"text": "x"}),)
    turns = [Says(thinking="Tea or milk?", calls=calls), Says(thinking="Tea.", text="Tea it is.")]
    async with desk_of(dialect, turns) as desk:
        steps = await desk.turn(desk.provider(), "which?")
        assert last(steps, Answer).text == "Tea it is."
        assert "".join(step.text for step in steps if isinstance(step, Progress)) == "Tea it is."
        assert ("Tea or milk?" in json.dumps(desk.model.requests[1].body)) == (dialect == "messages")


async def test_extra_fields_reach_the_api(dialect: str) -> None:
    async with desk_of(dialect, [Says(text="a")], extra={"temperature": 0.25}) as desk:
        await desk.turn(desk.provider(), "one")
        body = desk.model.requests[0].body
        assert body is not None
        assert body["temperature"] == 0.25


@pytest.mark.parametrize("damage", ["gone", "torn", "shorter", "fifo", "link"])
async def test_a_history_that_was_tampered_with(dialect: str, damage: str) -> None:
    async with desk_of(dialect, [Says(text=f"Answer {n}.") for n in range(3)]) as desk:
        await desk.turn(desk.provider(), "one")
        await desk.turn(desk.provider(), "two")
        file = desk.station.state / "history.jsonl"
        data = file.read_bytes()
        if damage == "torn":
            file.write_bytes(data + b'{"v":1,"entries":[{"ro')
        elif damage == "shorter":
            file.write_bytes(data[:-5])
        else:
            file.unlink()
        if damage == "fifo":
            os.mkfifo(file)
        if damage == "link":
            file.symlink_to(desk.station.workspace / "AGENTS.md")
        end = (await desk.turn(desk.provider(), "three"))[-1]
        if damage in ("fifo", "link"):
            assert isinstance(end, Failed)
            assert end.failure == "transient"
            assert "own files cannot be used" in end.reason
            assert (desk.station.workspace / "AGENTS.md").read_text() == "You like tea."
        else:
            assert isinstance(end, Answer)
            assert ("Answer 1." in json.dumps(desk.model.requests[-1].body)) == (damage == "torn")
            last(await desk.turn(desk.provider(), "four"), Answer)
            assert "Answer 2." in json.dumps(desk.model.requests[-1].body)


async def test_the_talk_goes_on_with_the_other_provider() -> None:
    """History belongs to the session: an agent that is moved from one API to another remembers, calls included."""
    calls = (Wants(name="send_message", arguments={"text": "tea"}),)
    async with desk_of("messages", [Says(thinking="Hm.", calls=calls), Says(text="Sent.")]) as old:
        await old.turn(old.provider(), "send tea")
        async with desk_of("chat", [Says(text="I did.")]) as new:
            (new.station.state / "history.jsonl").write_bytes((old.station.state / "history.jsonl").read_bytes())
            new.continuation = old.continuation
            assert last(await new.turn(new.provider(), "did you?"), Answer).text == "I did."
            sent = json.dumps(new.model.requests[0].body)
            assert "send tea" in sent
            assert "Sent." in sent


async def test_through_the_runner_s_loop(dialect: str) -> None:
    """The same, with the loop and a mailbox: steps and acks are rows, and the next turn has the continuation."""
    calls = (Wants(name="send_message", arguments={"text": "On it."}),)
    async with desk_of(dialect, [Says(text="Wait.", calls=calls), Says(text="Done."), Says(text="Yes.")]) as desk:
        box, nudge, output = MemoryMailbox(), asyncio.Event(), asyncio.Event()
        box.desk.open()
        progress: list[str] = []
        runner = Runner(
            box.desk,
            desk.provider(),
            agent="ada",
            clock=SystemClock(),
            nudge=nudge,
            on_output=output.set,
            on_progress=progress.append,
            idle_seconds=600,
            poll_seconds=60,
        )
        running = asyncio.create_task(runner.run())
        async with asyncio.timeout(20):
            for fence in (1, 2):
                box.host.put([desk.message(f"message {fence}", run=f"run_{fence}", fence=fence)])
                nudge.set()
                while len(box.acks()) < fence:
                    await output.wait()
                    output.clear()
            box.host.control("stop", {})
            nudge.set()
            await running
        found = box.host.collect(None, 0)
        assert found is not None
        assert [(ack.message, ack.status) for ack in found.acks] == [("m1", "completed"), ("m2", "completed")]
        assert [row.content["text"] for row in found.messages] == ["On it.", "Done.", "Yes."]
        types = ["usage", "text", "tool_call", "tool_result", "usage", "usage"]
        assert [step.type for step in found.steps] == types
        assert found.state["continuation"].startswith("history:")
        assert "Done." in json.dumps(desk.model.requests[2].body)
        assert "".join(progress) == "Wait.Done.Yes."
