"""The provider `claude` with the real program, against the scripted model; no office around it."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from manydesks.domain.clock import SystemClock
from manydesks.domain.mail import Collected, Inbound
from manydesks.runner.loop import Runner
from manydesks.runner.program import find_program
from manydesks.runner.providers.base import (
    Answer,
    Endpoint,
    Failed,
    Progress,
    Station,
    Step,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from manydesks.runner.providers.claude_cli.provider import LOST, Claude
from manydesks.runner.tools import send_message
from manydesks.runner.tools.registry import Toolbox
from manydesks.runner.toolserver import ToolServer
from manydesks.testing import model as scripted
from manydesks.testing.mailbox import MemoryMailbox
from manydesks.testing.model import Asked, Cut, Hang, ModelServer, Refuse

pytestmark = pytest.mark.skipif(
    find_program("claude") is None, reason="claude is not installed: pip install 'manydesks[dev]'"
)

SECONDS = 60.0


async def nothing(*_: Any) -> int:
    raise AssertionError("no tool of ours is called directly")


def chat(text: str, id: str = "api_aaaaaaaa", *, seq: int = 2, **changes: Any) -> Inbound:
    content = {"sender": "Ada", "senderId": "console:ada", "text": text, **changes.pop("content", {})}
    values: dict[str, Any] = {"run": "run_aaaaaaaa", "fence": 1, "kind": "chat", "at": 1_700_000_000_000, "tries": 1}
    return Inbound(id=id, seq=seq, content=content, **values | changes)


def turn(*messages: Inbound, continuation: str | None = None) -> Turn:
    tools = Toolbox({}, messages, nothing)
    return Turn(agent="coder", name="Coder", messages=messages, tools=tools, continuation=continuation)


async def all_of(claude: Claude, batch: Turn) -> list[Step]:
    async with asyncio.timeout(SECONDS):
        return [step async for step in claude.turn(batch)]


def answer_of(steps: list[Step]) -> Answer:
    assert isinstance(steps[-1], Answer), steps
    return steps[-1]


def failure_of(steps: list[Step]) -> Failed:
    assert isinstance(steps[-1], Failed), steps
    return steps[-1]


class Place:
    """A desk whose model is scripted."""

    def __init__(self, folder: Path, model: ModelServer, socket: Path) -> None:
        self.model = model
        for name in ("workspace", "state", "inbox"):
            (folder / name).mkdir()
        self.station = Station(
            agent="coder",
            name="Coder",
            model="scripted",
            workspace=folder / "workspace",
            state=folder / "state",
            inbox=folder / "inbox",
            options={"retries": 1},
            endpoint=Endpoint(kind="anthropic", socket=socket),
            sandboxed=True,
        )

    @asynccontextmanager
    async def claude(self, **changes: Any) -> AsyncIterator[Claude]:
        options = {**self.station.options, **changes.pop("options", {})}
        claude = Claude(replace(self.station, options=options, **changes))
        try:
            yield claude
        finally:
            await claude.close()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory(prefix="md-") as short:
        async with ModelServer(socket=Path(short) / "m.sock") as model:
            yield Place(tmp_path, model, Path(short) / "m.sock")


def bash(command: str) -> scripted.ToolCall:
    return scripted.ToolCall(name="Bash", arguments={"command": command, "description": "Does it."})


def remembers(asked: Asked) -> scripted.Turn:
    """Says which of these words the person has ever said."""
    said = " ".join(asked.said)
    return scripted.Turn(text=" ".join(word for word in ("apple", "pear", "plum") if word in said) or "nothing")


async def test_a_conversation_goes_on_in_another_process(place: Place) -> None:
    place.model.play(remembers)
    async with place.claude() as claude:
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        assert (first.text, first.answers) == ("apple", ("api_aaaaaaaa",))
        second = answer_of(await all_of(claude, turn(chat("pear"), continuation=first.continuation)))
        assert second.text == "apple pear"
    async with place.claude() as claude:
        third = answer_of(await all_of(claude, turn(chat("plum"), continuation=second.continuation)))
    assert third.text == "apple pear plum"
    assert first.continuation == second.continuation == third.continuation
    assert {request.asked.conversation for request in place.model.requests if request.asked} == {first.continuation}


async def test_what_was_prepared_serves_the_first_turn(place: Place) -> None:
    place.model.play(remembers)
    async with place.claude() as claude:
        await claude.prepare(None)
        ready = claude.pid
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        assert (first.text, claude.pid) == ("apple", ready)
        assert ready is not None
    async with place.claude() as claude:
        await claude.prepare(first.continuation)
        ready = claude.pid
        second = answer_of(await all_of(claude, turn(chat("pear"), continuation=first.continuation)))
        assert (second.text, claude.pid) == ("apple pear", ready)


async def test_instructions_that_change_after_the_preparation_count(place: Place) -> None:
    place.model.play(scripted.Turn(text="Good."))
    async with place.claude() as claude:
        await claude.prepare(None)
        (place.station.workspace / "AGENTS.md").write_text("Always be brief: RULE-ONE.")
        await all_of(claude, turn(chat("hello")))
    [request] = place.model.requests
    assert request.asked is not None
    assert "RULE-ONE" in request.asked.system


async def test_what_keeps_it_from_being_prepared_is_said_by_the_turn(place: Place) -> None:
    async with place.claude(options={"program": "/nowhere/claude"}) as claude:
        await claude.prepare(None)
        assert "/nowhere/claude" in failure_of(await all_of(claude, turn(chat("hello")))).reason


async def test_the_prompt_and_the_instructions(place: Place) -> None:
    place.model.play(scripted.Turn(text="Good."))
    (place.station.workspace / "AGENTS.md").write_text("Always be brief: RULE-ONE.")
    (place.station.workspace / "SOUL.md").write_text("A calm soul: RULE-TWO.")
    async with place.claude() as claude:
        await all_of(claude, turn(chat("a <host-notice>b")))
    [request] = place.model.requests
    assert request.asked is not None
    assert request.key == "placeholder"
    assert '<message id="api_aaaaaaaa" seq="2" from="console:ada" sender="Ada"' in request.asked.user
    assert "a &lt;host-notice&gt;b</message>" in request.asked.user
    whole = str(request.asked.body)
    assert (whole.count("RULE-ONE"), whole.count("RULE-TWO")) == (1, 1)  # not a second time, by claude itself


async def test_changed_instructions_count_from_the_next_turn(place: Place) -> None:
    place.model.play(remembers)
    manual = place.station.workspace / "AGENTS.md"
    manual.write_text("Say OLD-RULE.")
    async with place.claude() as claude:
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        manual.write_text("Say NEW-RULE.")
        second = answer_of(await all_of(claude, turn(chat("pear"), continuation=first.continuation)))
    assert second.text == "apple pear"
    last = place.model.requests[-1].asked
    assert last is not None
    assert "NEW-RULE" in str(last.body)
    assert "OLD-RULE" not in str(last.body)


async def test_steps_of_a_turn_with_a_tool(place: Place) -> None:
    usage = scripted.Usage(input=100, output=7, cache_read=20, cache_write=3)
    place.model.play(
        scripted.Turn(text="I will look.", calls=(bash("sleep 0.2; echo $((6 * 7)) | tee made"),), usage=usage),
        scripted.Turn(text="It is 42.", usage=usage),
    )
    async with place.claude() as claude:
        steps = await all_of(claude, turn(chat("work")))
    kinds = [type(step) for step in steps if not isinstance(step, Progress)]
    assert kinds == [Text, ToolCall, ToolResult, Usage, Answer]
    said, call, result, used, answer = (step for step in steps if not isinstance(step, Progress))
    assert cast(Text, said).text == "I will look."
    assert (cast(ToolCall, call).tool, cast(ToolResult, result).tool) == ("Bash", "Bash")
    assert cast(ToolCall, call).id == cast(ToolResult, result).id
    assert (cast(ToolResult, result).ok, cast(ToolResult, result).result) == (True, "42")
    assert cast(ToolResult, result).duration_ms >= 200
    assert cast(Answer, answer).text == "It is 42."
    assert "".join(step.text for step in steps if isinstance(step, Progress)) == "I will look.It is 42."
    expected = Usage(input=200, output=14, cache_read=40, cache_write=6, cost_usd=None, model="scripted")
    assert used == expected
    assert (place.station.workspace / "made").read_text() == "42\n"


async def test_usage_is_of_the_turn_and_not_of_the_session(place: Place) -> None:
    for tokens in (100, 10, 1):
        place.model.play(scripted.Turn(text="Yes.", usage=scripted.Usage(input=tokens, output=2)))
    seen: list[int | None] = []
    continuation = None
    for turns in (2, 1):
        async with place.claude() as claude:
            for _ in range(turns):
                steps = await all_of(claude, turn(chat("go"), continuation=continuation))
                continuation = answer_of(steps).continuation
                seen += [step.input for step in steps if isinstance(step, Usage)]
    assert seen == [100, 10, 1]


async def test_messages_pushed_into_a_run_are_covered_by_its_answer(place: Place) -> None:
    place.model.play(scripted.Turn(calls=(bash("until [ -e go ]; do sleep 0.02; done"),)), scripted.Turn(text="Both."))
    steps: list[Step] = []
    async with place.claude() as claude, asyncio.timeout(SECONDS):
        async for step in claude.turn(turn(chat("one"))):
            steps.append(step)
            if isinstance(step, ToolCall):
                await claude.push((chat("two", "api_bbbbbbbb", seq=4), chat("three", "api_cccccccc", seq=6)))
                (place.station.workspace / "go").touch()
    assert answer_of(steps).text == "Both."
    assert answer_of(steps).answers == ("api_aaaaaaaa", "api_bbbbbbbb", "api_cccccccc")
    assert "api_cccccccc" in str(place.model.requests[-1].body)
    assert len([step for step in steps if isinstance(step, Answer)]) == 1


async def test_a_message_pushed_too_late_for_one_answer_gets_its_own(place: Place) -> None:
    place.model.play(scripted.Turn(text="First.", fault=Hang(after_event=2)), scripted.Turn(text="Second."))
    steps: list[Step] = []
    async with place.claude() as claude, asyncio.timeout(SECONDS):

        async def later() -> None:
            await place.model.wait_hanging(1)
            await claude.push((chat("two", "api_bbbbbbbb", seq=4),))
            place.model.release()

        task = asyncio.create_task(later())
        steps = [step async for step in claude.turn(turn(chat("one")))]
        await task
    answers = [(step.text, step.answers) for step in steps if isinstance(step, Answer)]
    assert answers == [("First.", ("api_aaaaaaaa",)), ("Second.", ("api_bbbbbbbb",))]


async def test_what_is_pushed_after_the_turn_is_left_alone(place: Place) -> None:
    place.model.play(remembers)
    async with place.claude() as claude:
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        await claude.push((chat("pear", "api_bbbbbbbb", seq=4),))
        second = answer_of(await all_of(claude, turn(chat("plum"), continuation=first.continuation)))
    assert second.text == "apple plum"


def hangs_on(word: str) -> Callable[[Asked], scripted.Turn | None]:
    def play(asked: Asked) -> scripted.Turn | None:
        said = word in asked.user
        return scripted.Turn(text="Never said to its end.", fault=Hang(after_event=4)) if said else None

    return play


async def test_an_interrupt_leaves_the_session_usable(place: Place) -> None:
    place.model.play(hangs_on("quince"), remembers)
    async with place.claude() as claude, asyncio.timeout(SECONDS):
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        pid = claude.pid
        async with aclosing(cast(Any, claude.turn(turn(chat("quince"), continuation=first.continuation)))) as steps:
            assert isinstance(await anext(steps), Progress)
            await claude.push((chat("pear", "api_bbbbbbbb", seq=4),))
        assert [ending.how for ending in await place.model.wait_endings(2)] == ["whole", "left"]
        # what was pushed and not read is forgotten with it: it comes again as a turn of its own
        third = answer_of(await all_of(claude, turn(chat("plum"), continuation=first.continuation)))
        assert claude.pid == pid
    assert third.text == "apple plum"


async def test_an_interrupt_while_a_tool_is_at_work(place: Place) -> None:
    place.model.play(scripted.Turn(calls=(bash("echo $$ > pid; exec sleep 1000"),)), scripted.Turn(text="Yes?"))
    async with place.claude() as claude, asyncio.timeout(SECONDS):
        async with aclosing(cast(Any, claude.turn(turn(chat("work"))))) as steps:
            async for step in steps:
                if isinstance(step, ToolCall):
                    break
        assert claude.pid is not None
        # the first turn gave no answer, so nobody knows its conversation: the same process serves the next attempt
        answer = answer_of(await all_of(claude, turn(chat("still there?", tries=2))))
    assert answer.text == "Yes?"


@pytest.mark.parametrize("warm", [True, False])
async def test_what_an_interrupted_turn_spent_is_its_own(place: Place, warm: bool) -> None:
    costly = scripted.Usage(input=50_000, output=700)

    def play(asked: Asked) -> scripted.Turn:
        works = scripted.Turn(calls=(bash("exec sleep 1000"),), usage=costly)
        return scripted.Turn(text="Yes?") if "still there?" in asked.user else works

    place.model.play(play)
    async with place.claude(options={"warm": warm}) as claude, asyncio.timeout(SECONDS):
        async with aclosing(cast(Any, claude.turn(turn(chat("work"))))) as steps:
            async for step in steps:
                if isinstance(step, ToolCall):
                    break
        [spent] = claude.owed()
        # one that cannot be told is killed: what was seen until then is the least it can have been
        assert (spent.input, warm and spent.output) == (50_000, warm and 700)
        assert claude.owed() == ()
        next_turn = await all_of(claude, turn(chat("still there?", tries=2)))
        [later] = [step for step in next_turn if isinstance(step, Usage)]
        assert later.input is not None
        assert later.input < 50_000


async def test_what_a_failed_turn_spent_is_said_before_it_fails(place: Place) -> None:
    costly = scripted.Usage(input=50_000, output=700)
    place.model.play(
        scripted.Turn(calls=(bash("true"),), usage=costly),
        scripted.Turn(fault=Refuse(status=429, headers={"retry-after": "40"})),
    )
    async with place.claude() as claude, asyncio.timeout(SECONDS):
        *_, spent, failed = await all_of(claude, turn(chat("work")))
        assert isinstance(spent, Usage)
        assert (spent.input, spent.output) == (50_000, 700)
        assert isinstance(failed, Failed)
        assert failed.retry_after == 40
        assert claude.owed() == ()


async def test_a_cancelled_turn_leaves_the_session_usable(place: Place) -> None:
    place.model.play(hangs_on("quince"), remembers)
    async with place.claude() as claude, asyncio.timeout(SECONDS):
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        pid = claude.pid
        task = asyncio.create_task(all_of(claude, turn(chat("quince"), continuation=first.continuation)))
        await place.model.wait_hanging(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        second = answer_of(await all_of(claude, turn(chat("pear"), continuation=first.continuation)))
        assert (second.text, claude.pid) == ("apple pear", pid)


@pytest.mark.parametrize(
    ("fault", "failure", "words", "retry_after"),
    [
        (Refuse(status=401), "permanent", "does not accept the office's key", None),
        (Refuse(status=403), "permanent", "does not accept the office's key", None),
        (Refuse(status=400), "permanent", "refused the request (400)", None),
        (Refuse(status=429, headers={"retry-after": "2"}), "transient", "answered 429", 2.0),
        (Refuse(status=529), "transient", "answered 529", None),
        (Refuse(status=500), "transient", "answered 500", None),
        (Cut(), "transient", "could not be reached", None),
        (Cut(after_event=4), "transient", "could not be reached", None),
    ],
    ids=str,
)
async def test_errors_of_the_service(
    place: Place, fault: Any, failure: str, words: str, retry_after: float | None
) -> None:
    def play(asked: Asked) -> scripted.Turn:
        return scripted.Turn(text="Half of it", fault=fault) if "first" in asked.user else scripted.Turn(text="Yes.")

    place.model.play(play)
    async with place.claude() as claude:
        failed = failure_of(await all_of(claude, turn(chat("first"))))
        assert (failed.failure, failed.retry_after, failed.message) == (failure, retry_after, "api_aaaaaaaa")
        assert words in failed.reason
        # the same process serves the next attempt
        assert answer_of(await all_of(claude, turn(chat("again", tries=2)))).text == "Yes."
    assert "attempt 2" in str(place.model.requests[-1].body)


async def test_a_model_that_says_nothing(place: Place) -> None:
    place.model.play(hangs_on("quince"), remembers)
    async with place.claude(options={"silence_seconds": 1.5}) as claude:
        failed = failure_of(await all_of(claude, turn(chat("quince"))))
        assert (failed.failure, failed.reason) == ("transient", "claude said nothing for 1.5 s")
        assert [ending.how for ending in await place.model.wait_endings(1)] == ["left"]
        assert answer_of(await all_of(claude, turn(chat("apple")))).text == "apple"


async def test_a_killed_program_is_a_transient_failure_and_its_session_goes_on(place: Place) -> None:
    place.model.play(hangs_on("quince"), remembers)
    steps: list[Step] = []
    async with place.claude() as claude, asyncio.timeout(SECONDS):
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        async for step in claude.turn(turn(chat("quince"), continuation=first.continuation)):
            steps.append(step)
            if isinstance(step, Progress):
                assert claude.pid is not None
                os.kill(claude.pid, signal.SIGKILL)
        failed = failure_of(steps)
        assert failed.failure == "transient"
        assert "by signal 9" in failed.reason
        # what the model had read before it ended is booked, without a price
        [usage] = [step for step in steps if isinstance(step, Usage)]
        assert (usage.model, usage.cost_usd) == ("scripted", None)
        assert usage.input
        second = answer_of(await all_of(claude, turn(chat("pear", tries=2), continuation=first.continuation)))
        assert second.text == "apple pear"
        assert second.continuation == first.continuation


@pytest.mark.parametrize("known", ["not a session", str(uuid.UUID(int=7))])
async def test_a_lost_session_begins_anew_and_says_so(place: Place, known: str) -> None:
    place.model.play(remembers)
    async with place.claude() as claude:
        answer = answer_of(await all_of(claude, turn(chat("apple"), continuation=known)))
    assert answer.text == "apple"
    assert answer.continuation not in (None, known)
    assert f"<host-notice>{LOST}</host-notice>" in str(place.model.requests[-1].asked)


async def test_a_session_that_claude_cannot_find_begins_anew(place: Place) -> None:
    """The file is there, but not a conversation."""
    place.model.play(remembers)
    known = str(uuid.UUID(int=7))
    folder = place.station.state / "claude" / "projects" / "elsewhere"
    folder.mkdir(parents=True)
    (folder / f"{known}.jsonl").write_text("")
    async with place.claude() as claude:
        answer = answer_of(await all_of(claude, turn(chat("apple"), continuation=known)))
        assert answer.text == "apple"
        again = answer_of(await all_of(claude, turn(chat("pear"), continuation=answer.continuation)))
    assert again.text == "apple pear"


async def test_without_a_warm_process(place: Place) -> None:
    place.model.play(remembers)
    async with place.claude(options={"warm": False}) as claude:
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        assert claude.pid is None
        second = answer_of(await all_of(claude, turn(chat("pear"), continuation=first.continuation)))
    assert second.text == "apple pear"


async def test_a_turn_without_a_warm_process_can_be_interrupted(place: Place) -> None:
    place.model.play(hangs_on("quince"), remembers)
    async with place.claude(options={"warm": False}) as claude, asyncio.timeout(SECONDS):
        async with aclosing(cast(Any, claude.turn(turn(chat("quince"))))) as steps:
            await anext(steps)
        assert claude.pid is None
        assert answer_of(await all_of(claude, turn(chat("apple")))).text == "apple"


async def test_a_command_goes_alone_and_the_conversation_is_archived(place: Place) -> None:
    place.model.play(remembers)
    allowed = {"content": {"isCommand": True}}
    async with place.claude() as claude:
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        batch = (
            chat("pear", "api_bbbbbbbb", seq=4),
            chat("/compact", "api_cccccccc", seq=6, **allowed),
            chat("/compact", "api_dddddddd", seq=8),
        )
        steps = await all_of(claude, turn(*batch, continuation=first.continuation))
    answers = [step for step in steps if isinstance(step, Answer)]
    assert [answer.answers for answer in answers] == [("api_bbbbbbbb",), ("api_cccccccc",), ("api_dddddddd",)]
    assert answers[1].text == "/compact: done."
    [file] = (place.station.workspace / "memory" / "conversations").iterdir()
    kept = file.read_text()
    assert "apple" in kept
    assert "pear" in kept
    # the third one's sender may not: it is a message like any other
    assert ">/compact</message>" in str(place.model.requests[-1].body)


async def test_clear_begins_a_new_conversation_in_the_same_process(place: Place) -> None:
    place.model.play(remembers)
    async with place.claude() as claude:
        first = answer_of(await all_of(claude, turn(chat("apple"))))
        pid = claude.pid
        order = chat("/clear", "api_bbbbbbbb", seq=4, content={"isCommand": True})
        cleared = answer_of(await all_of(claude, turn(order, continuation=first.continuation)))
        assert (cleared.text, cleared.continuation != first.continuation) == ("/clear: done.", True)
        last = answer_of(await all_of(claude, turn(chat("pear"), continuation=cleared.continuation)))
        assert (last.text, last.continuation, claude.pid) == ("pear", cleared.continuation, pid)


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


async def test_pictures_and_pdfs_go_natively_and_sounds_as_paths(place: Place) -> None:
    place.model.play(scripted.Turn(text="Seen."))
    assert place.station.inbox is not None
    files = {"dot.png": PNG, "paper.pdf": b"%PDF-1.4 nothing", "word.ogg": b"OggS\0sound"}
    folder = place.station.inbox / "api_aaaaaaaa"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    attachments = [{"name": name, "path": f"api_aaaaaaaa/{name}", "bytes": len(data)} for name, data in files.items()]
    async with place.claude() as claude:
        answer_of(await all_of(claude, turn(chat("look", content={"attachments": attachments}))))
    asked = place.model.requests[0].asked
    assert asked is not None
    blocks = [
        block
        for message in asked.body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    assert [block["type"] for block in blocks if block["type"] != "text"] == ["image", "document"]
    said = "".join(asked.said)
    assert '<attachment part="1" name="dot.png"' in said
    assert '<attachment part="2" name="paper.pdf"' in said
    assert f'<attachment name="word.ogg" bytes="10" path="{folder / "word.ogg"}"/>' in said


async def test_a_long_prompt_goes_in_and_a_longer_one_is_refused(place: Place) -> None:
    place.model.play(scripted.Turn(text="Read.", times=None))
    long = "words " * 400_000  # 2.4 MB
    async with place.claude() as claude:
        assert answer_of(await all_of(claude, turn(chat(long)))).text == "Read."
        short, longest = chat("hi", "api_bbbbbbbb"), chat(long * 4, "api_cccccccc", seq=4)
        failed = failure_of(await all_of(claude, turn(short, longest)))
    assert (failed.failure, failed.message) == ("permanent", "api_cccccccc")
    assert "at most 4194304" in failed.reason


async def test_what_the_model_cannot_hold_is_refused_for_good(place: Place) -> None:
    async with place.claude(options={"max_prompt_bytes": 16 << 20}) as claude:
        failed = failure_of(await all_of(claude, turn(chat("words " * 1_700_000))))  # 10 MB
    assert (failed.failure, failed.reason) == ("permanent", "claude cannot take it: Prompt is too long")
    assert place.model.requests == ()


async def test_tools_of_the_desk_are_reached_over_mcp(place: Place) -> None:
    heard: list[Any] = []

    async def send(message: Inbound, kind: str, content: Any, *, id: str | None = None) -> int:
        heard.append((message.id, content["text"]))
        return 7

    call = scripted.ToolCall(name="mcp__manydesks__send_message", arguments={"text": "Half way."})
    wrong = scripted.ToolCall(name="mcp__manydesks__send_message", arguments={"words": "?"})
    missing = scripted.ToolCall(name="mcp__manydesks__fly", arguments={})
    place.model.play(scripted.Turn(calls=(call,)), scripted.Turn(calls=(wrong, missing)), scripted.Turn(text="Done."))
    tools = {"send_message": send_message.TOOL}
    server = ToolServer(tools=tools)
    batch = turn(chat("work"))
    batch = replace(batch, tools=Toolbox(tools, batch.messages, send))
    try:
        # without a sandbox, and without anybody to ask: the office's own tools are allowed
        async with place.claude(tools_url=await server.start(), sandboxed=False) as claude:
            with server.turn(batch.tools, "api_aaaaaaaa"):
                steps = await all_of(claude, batch)
    finally:
        await server.close()
    assert answer_of(steps).text == "Done."
    assert heard == [("api_aaaaaaaa", "Half way.")]
    calls = [step for step in steps if isinstance(step, ToolCall)]
    results = {step.id: step for step in steps if isinstance(step, ToolResult)}
    assert [step.tool for step in calls] == ["send_message", "send_message", "fly"]
    assert [results[step.id].ok for step in calls] == [True, False, False]
    assert "send_message has no argument 'words'" in str(results[calls[1].id].result)
    asked = place.model.requests[0].asked
    assert asked is not None
    assert "mcp__manydesks__send_message" in asked.tools


async def test_without_a_sandbox_nothing_is_run_unless_the_owner_says_so(place: Place) -> None:
    place.model.play(scripted.Turn(calls=(bash("python3 -c 'open(1, chr(119))' > made"),)), scripted.Turn(text="No."))
    async with place.claude(sandboxed=False) as claude:
        steps = await all_of(claude, turn(chat("work")))
    [result] = [step for step in steps if isinstance(step, ToolResult)]
    assert not result.ok
    assert not (place.station.workspace / "made").exists()


async def test_two_runners_do_not_share_a_session(place: Place) -> None:
    place.model.play(remembers)
    async with place.claude() as one, place.claude() as two:
        first = answer_of(await all_of(one, turn(chat("apple"))))
        failed = failure_of(await all_of(two, turn(chat("pear"), continuation=first.continuation)))
        assert (failed.failure, failed.reason) == ("transient", "another runner's claude still works in this session")
        await one.close()
        answer = answer_of(await all_of(two, turn(chat("pear"), continuation=first.continuation)))
    assert answer.text == "apple pear"


async def test_the_loop_pushes_what_arrives_and_acks_what_was_read(place: Place) -> None:
    """The whole desk without its host: mailbox, loop, claude."""
    # the tool ends when claude has noted the second message; the brackets keep it from finding these very words
    wait = bash('until grep -rqs "api_[b]bbbbbbb" "$CLAUDE_CONFIG_DIR/projects"; do sleep 0.02; done')
    place.model.play(scripted.Turn(calls=(wait,)), scripted.Turn(text="Both."))
    box = MemoryMailbox(clock=SystemClock())
    box.desk.open()
    nudge, output = asyncio.Event(), asyncio.Event()
    async with place.claude() as claude, asyncio.timeout(SECONDS):
        runner = Runner(
            box.desk,
            claude,
            agent="coder",
            clock=SystemClock(),
            nudge=nudge,
            on_output=output.set,
            idle_seconds=60,
            poll_seconds=1,
        )
        box.host.put([chat("one")])
        running = asyncio.create_task(runner.run())

        async def until(condition: Callable[[Collected], bool]) -> Collected:
            while True:
                output.clear()
                found = box.host.collect(None, 0)
                if found is not None and condition(found):
                    return found
                await output.wait()

        await until(lambda found: any(step.type == "tool_call" for step in found.steps))
        box.host.put([chat("two", "api_bbbbbbbb", seq=4)])
        nudge.set()
        found = await until(lambda found: len(found.acks) == 2)
        box.host.control("stop", {})
        nudge.set()
        await running
    assert [(ack.message, ack.status) for ack in found.acks] == [
        ("api_aaaaaaaa", "completed"),
        ("api_bbbbbbbb", "completed"),
    ]
    assert [(row.in_reply_to, row.content["text"]) for row in found.messages] == [("api_aaaaaaaa", "Both.")]
    assert found.state["continuation"]
    assert [step.type for step in found.steps] == ["tool_call", "tool_result", "usage"]
