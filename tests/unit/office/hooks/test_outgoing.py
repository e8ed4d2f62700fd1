"""What plugins may do with an answer before it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manydesks.domain.envelope import Claimed, Incoming
from manydesks.domain.mail import Ack, Collected, Outbound
from manydesks.office.hooks.plugin import MOST_LOST
from manydesks.office.hooks.roster import Hooks
from manydesks.office.rules import rules
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.store.reader import Reader
from manydesks.store.store import Store

Write = Callable[[str, str], Path]
Failed = Callable[[], list[dict[str, Any]]]

SIGN = """
@outgoing
def sign(answer):
    answer.text += f" -- {answer.agent} to {answer.sender} about {answer.asked}"
    answer.metadata["signed"] = True
"""


async def claimed(store: Store, **more: Any) -> Claimed:
    await store.add_agent(id="ada", provider="rehearsal")
    incoming = Incoming(source="api", key="api_1", text="hi", channel="console", platform_id="x", sender="bob", **more)
    await store.accept(incoming, default_agent="ada", message_bytes=100)
    (found,) = await store.claim(batch=10, most=1)
    return found


def page(claim: Claimed, *contents: dict[str, Any], kind: str = "chat", fence: int | None = None) -> Collected:
    about = {"run": claim.run, "fence": claim.fence if fence is None else fence, "in_reply_to": "api_1", "at": 1}
    rows = [
        Outbound(id=f"out_{n}", seq=2 * n + 1, kind=kind, content=content, **about)
        for n, content in enumerate(contents)
    ]
    return Collected(epoch="ab" * 16, last_seq=2 * len(rows), messages=tuple(rows))


async def test_text_and_metadata_reach_the_response(hooks: Hooks, store: Store, plugin: Write, the_home: Home) -> None:
    plugin("signature", SIGN)
    claim = await claimed(store, metadata={"mood": "good"})
    hooked = await hooks.outgoing(claim.session, "ada", page(claim, {"text": "hello", "files": []}))
    assert hooked.messages[0].content == {"text": "hello -- ada to bob about {'mood': 'good'}", "files": []}
    await store.take(claim.session, hooked, rules(Settings()))
    reader = Reader(the_home.office_db, sockets=the_home.run)
    try:
        ((text, metadata),) = reader._all("select text, metadata from responses_text")
    finally:
        reader.close()
    assert (text, metadata) == ("hello -- ada to bob about {'mood': 'good'}", '{"signed":true}')


async def test_only_texts_are_shown_and_the_rest_passes(hooks: Hooks, store: Store, plugin: Write) -> None:
    plugin("shout", "@outgoing\ndef f(answer): return answer.text.upper() + answer.operation")
    claim = await claimed(store)
    others = [
        {"operation": "reaction", "emoji": "+", "target": "api_1"},
        {"operation": "card", "card": {"title": "a"}, "fallbackText": "a"},
        {"text": 5},
        {"text": "  "},
    ]
    found = page(claim, {"text": "a"}, {"operation": "edit", "text": "b", "target": "out_0"}, *others)
    hooked = await hooks.outgoing(claim.session, "ada", found)
    assert [row.content.get("text") for row in hooked.messages[:2]] == ["Amessage", "Bedit"]
    assert hooked.messages[2:] == found.messages[2:]
    system = page(claim, {"text": "a"}, kind="system")
    assert await hooks.outgoing(claim.session, "ada", system) is system


async def test_what_belongs_to_no_run_under_way_is_shown_to_nobody(hooks: Hooks, store: Store, plugin: Write) -> None:
    plugin("shout", "@outgoing\ndef f(answer): return answer.text.upper()")
    claim = await claimed(store)
    ended = Ack(message="api_1", run=claim.run, fence=claim.fence, status="completed", at=1, seq=1)
    await store.take(claim.session, Collected(epoch="ab" * 16, last_seq=2, acks=(ended,)), rules(Settings()))
    found = page(claim, {"text": "late"})
    assert (await hooks.outgoing(claim.session, "ada", found)).messages == found.messages


async def test_one_that_fails_is_skipped_and_said_with_the_trace(
    hooks: Hooks, store: Store, plugin: Write, the_home: Home
) -> None:
    plugin("bad", "@outgoing\ndef f(answer): answer.text = None")
    claim = await claimed(store)
    hooked = await hooks.outgoing(claim.session, "ada", page(claim, {"text": "hello"}))
    assert hooked.messages[0].content == {"text": "hello"}
    reader = Reader(the_home.office_db, sockets=the_home.run)
    try:
        (event,) = reader.events(0, 100, ["hook_failed"])
    finally:
        reader.close()
    assert (event["message"], event["run"], event["agent"]) == ("api_1", claim.run, "ada")
    assert event["trace"]


HALF = """
@incoming
def well(message): message.text += "!"
@outgoing(timeout=0.2)
def hangs(answer):
    open({calls!r}, "a").write(".")
    while True: pass
"""


async def test_a_hook_that_hangs_is_left_out_though_another_of_its_plugin_does_well(
    hooks: Hooks, store: Store, plugin: Write, failed: Failed, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    plugin("half", HALF.format(calls=str(calls)))
    claim = await claimed(store)
    message = Incoming(source="console", key="console_1", text="hello", channel="console", platform_id="x")
    for _ in range(MOST_LOST + 2):
        assert (await hooks.incoming(message)).text == "hello!"
        hooked = await hooks.outgoing(claim.session, "ada", page(claim, {"text": "an answer"}))
        assert hooked.messages[0].content == {"text": "an answer"}
    assert calls.read_text() == "." * MOST_LOST
    (row,) = await hooks.listed()
    assert (row["state"], row["reason"]) == ("on", None)
    well, hangs = row["hooks"]
    assert well["leftOut"] is None
    assert "3 times in a row; it is left out" in hangs["leftOut"]
    # the last word is not held back by the pace of the first
    assert [(event["hook"], event["times"]) for event in failed()] == [("outgoing hangs", 1), ("outgoing hangs", 2)]
    assert failed()[-1]["reason"] == hangs["leftOut"]


async def test_one_that_is_left_out_is_not_asked_for_the_rest_either(
    hooks: Hooks, store: Store, plugin: Write, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    plugin("half", HALF.format(calls=str(calls)))
    claim = await claimed(store)
    # some answers of one page, and others that wait for their turn meanwhile
    pages = [page(claim, *({"text": "an answer"} for _ in range(3))) for _ in range(3)]
    after = await asyncio.gather(*(hooks.outgoing(claim.session, "ada", found) for found in pages))
    assert [[row.content["text"] for row in found.messages] for found in after] == [["an answer"] * 3] * 3
    assert calls.read_text() == "." * MOST_LOST


async def test_a_long_answer_may_be_kept_long_but_not_made_longer(
    hooks: Hooks, store: Store, plugin: Write, failed: Failed
) -> None:
    plugin("same", "@outgoing\ndef f(answer): return answer.text.upper()")
    plugin("twice", "@outgoing\ndef f(answer): return answer.text * 2")
    claim = await claimed(store)
    hooked = await hooks.outgoing(claim.session, "ada", page(claim, {"text": "x" * 5000}))
    assert hooked.messages[0].content == {"text": "X" * 5000}
    assert [event["plugin"] for event in failed()] == ["twice"]


async def test_a_desk_cannot_give_metadata_itself(store: Store, the_home: Home) -> None:
    claim = await claimed(store)
    await store.take(claim.session, page(claim, {"text": "a", "metadata": {"forged": 1}}), rules(Settings()))
    reader = Reader(the_home.office_db, sockets=the_home.run)
    try:
        assert reader._all("select metadata from responses") == [(None,)]
    finally:
        reader.close()
