"""Listeners: every event once or more, in order, from where they left off, and nobody waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.envelope import Incoming
from manydesks.office.hooks import listening
from manydesks.office.hooks.failures import Failures
from manydesks.office.hooks.roster import Hooks
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.store.store import Store
from manydesks.testing.clock import ManualClock

Write = Callable[[str, str], Path]
Failed = Callable[[], list[dict[str, Any]]]

LISTENER = """
import json
@on({kinds})
def heard(event):
    with open({path!r}, "a") as out:
        print(json.dumps([event.seq, event.kind, event.text, event.data]), file=out)
"""


@pytest.fixture
def heard(tmp_path: Path) -> Callable[[], list[list[Any]]]:
    def look() -> list[list[Any]]:
        path = tmp_path / "heard"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return look


@pytest.fixture
def listener(plugin: Write, tmp_path: Path) -> Callable[[str], Path]:
    return lambda kinds: plugin("ear", LISTENER.format(kinds=kinds, path=str(tmp_path / "heard")))


async def until(hooks: Hooks, look: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not look():
            hooks.news()
            await asyncio.sleep(0.01)


async def followed(hooks: Hooks, store: Store) -> None:
    """The listener has its mark: what comes now is for it."""
    await hooks.listed()
    async with asyncio.timeout(20):
        while await store._do(lambda tx: tx.one("select 1 from marks where name = 'hook:ear'")) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_it_is_told_of_its_kinds_only_with_text_and_from_now_on(
    hooks: Hooks, store: Store, listener: Callable[[str], Path], heard: Callable[[], list[list[Any]]]
) -> None:
    listener("'message_enqueued', 'processor_stop'")
    await store.add_agent(id="ada", provider="rehearsal")
    await store.note("processor_stop", version="before")
    hooks.start()
    await followed(hooks, store)
    incoming = Incoming(source="api", key="api_1", text="hello there", channel="console", platform_id="x")
    await store.accept(incoming, default_agent="ada", message_bytes=100)
    await store.note("processor_stop", version="after")
    await until(hooks, lambda: len(heard()) >= 2)
    assert [(kind, text) for _, kind, text, _ in heard()] == [
        ("message_enqueued", "hello there"),
        ("processor_stop", None),
    ]
    assert heard()[1][3]["version"] == "after"


async def notes(store: Store, numbers: range) -> None:
    for number in numbers:
        await store.note("processor_start", version=str(number))


async def test_it_goes_on_where_it_was_after_a_restart(
    store: Store,
    the_home: Home,
    in_force: InForce,
    clock: ManualClock,
    listener: Callable[[str], Path],
    heard: Callable[[], list[list[Any]]],
) -> None:
    listener("'*'")

    async def life(work: Callable[[Hooks], Awaitable[None]]) -> None:
        hooks = Hooks(store, the_home, in_force, clock)
        hooks.start()
        try:
            await work(hooks)
        finally:
            await hooks.stop()

    async def first(hooks: Hooks) -> None:
        await followed(hooks, store)
        await notes(store, range(150))
        await until(hooks, lambda: len(heard()) >= 150)

    await life(first)
    await notes(store, range(150, 160))
    before = len(heard())

    async def second(hooks: Hooks) -> None:
        await until(hooks, lambda: heard()[-1][3].get("version") == "159")

    await life(second)
    told = [row[3]["version"] for row in heard()]
    assert list(dict.fromkeys(told)) == [str(number) for number in range(160)]
    # at least once: a page at most comes again
    assert len(heard()) <= before + 10 + listening.PAGE


async def test_one_that_raises_misses_that_event_and_gets_the_next(
    hooks: Hooks, store: Store, plugin: Write, tmp_path: Path, failed: Failed
) -> None:
    path = tmp_path / "heard"
    plugin("ear", f"""
        @on("processor_start")
        def heard(event):
            if event.data["version"] == "1":
                raise ValueError("not that one")
            open({str(path)!r}, "a").write(event.data["version"])
        """)  # fmt: skip
    hooks.start()
    await followed(hooks, store)
    await notes(store, range(3))
    await until(hooks, lambda: path.exists() and path.read_text() == "02")
    assert [event["reason"] for event in failed()] == ["ValueError: not that one"]


async def test_one_that_hangs_goes_off_and_loses_nothing_that_it_was_not_told(
    hooks: Hooks, store: Store, plugin: Write, tmp_path: Path
) -> None:
    path = tmp_path / "heard"
    plugin("ear", "@on('processor_start', timeout=0.2)\ndef heard(event):\n    while True: pass")
    hooks.start()
    await followed(hooks, store)
    await notes(store, range(10))
    async with asyncio.timeout(20):
        while (await hooks.listed())[0]["state"] == "on":
            hooks.news()
            await asyncio.sleep(0.01)
    plugin("ear", f"@on('processor_start')\ndef heard(event): open({str(path)!r}, 'a').write(event.data['version'])")
    await hooks.reload()
    # two were given up; the third, which made it go off, and all after it come again
    await until(hooks, lambda: path.exists() and path.read_text().endswith("9"))
    assert path.read_text() == "23456789"


async def test_settings_that_are_read_again_in_the_middle_of_a_page_repeat_nothing(
    hooks: Hooks, store: Store, plugin: Write, tmp_path: Path
) -> None:
    path, busy = tmp_path / "heard", tmp_path / "busy"
    write = f"open({str(path)!r}, 'a').write(event.data['version'])"
    plugin("ear", f"""
        import time
        @on("processor_start")
        def heard(event):
            if event.data["version"] == "3":
                open({str(busy)!r}, "w").close()
                time.sleep(60)
            {write}
        """)  # fmt: skip
    hooks.start()
    await followed(hooks, store)
    await notes(store, range(10))
    await until(hooks, busy.exists)
    plugin("ear", f"@on('processor_start')\ndef heard(event): {write}")
    await hooks.reload()
    await until(hooks, lambda: path.read_text().endswith("9"))
    assert path.read_text() == "0123456789"


async def test_of_two_listeners_only_the_one_that_hangs_is_left_out(
    hooks: Hooks, store: Store, plugin: Write, tmp_path: Path
) -> None:
    path = tmp_path / "heard"
    plugin("ear", f"""
        @on("processor_start", timeout=0.2)
        def hangs(event):
            while True: pass
        @on("processor_start")
        def heard(event): open({str(path)!r}, "a").write(event.data["version"])
        """)  # fmt: skip
    hooks.start()
    await followed(hooks, store)
    await notes(store, range(10))
    await until(hooks, lambda: path.exists() and path.read_text() == "0123456789")
    (row,) = await hooks.listed()
    assert row["state"] == "on"
    assert [spec["leftOut"] is None for spec in row["hooks"]] == [False, True]


async def test_a_plugin_whose_only_listener_is_left_out_hooks_messages_and_loses_no_event(
    hooks: Hooks, store: Store, plugin: Write, tmp_path: Path
) -> None:
    path = tmp_path / "heard"
    well = "@incoming\ndef well(message): message.text += '!'\n"
    plugin("ear", well + "@on('processor_start', timeout=0.2)\ndef heard(event):\n    while True: pass")
    hooks.start()
    await followed(hooks, store)
    await notes(store, range(10))
    async with asyncio.timeout(20):
        while (await hooks.listed())[0]["hooks"][1]["leftOut"] is None:
            hooks.news()
            await asyncio.sleep(0.01)
    assert hooks._listening is not None
    await asyncio.gather(*hooks._listening._tasks)  # how far it got is stored
    incoming = Incoming(source="api", key="api_1", text="hello", channel="console", platform_id="x")
    assert (await hooks.incoming(incoming)).text == "hello!"
    hear = f"@on('processor_start')\ndef heard(event): open({str(path)!r}, 'a').write(event.data['version'])"
    plugin("ear", well + hear)
    await hooks.reload()
    # as with one that goes off: the third, on which it was left out, and all after it come again
    await until(hooks, lambda: path.exists() and path.read_text().endswith("9"))
    assert path.read_text() == "23456789"


async def test_a_slow_listener_holds_no_message_up(hooks: Hooks, store: Store, plugin: Write) -> None:
    plugin("ear", """
        import time
        @on("processor_start")
        def heard(event): time.sleep(600)
        @incoming
        def quick(message): message.text += "!"
        """)  # fmt: skip
    hooks.start()
    await followed(hooks, store)
    await notes(store, range(1))
    hooks.news()
    incoming = Incoming(source="api", key="api_1", text="hello", channel="console", platform_id="x")
    assert (await hooks.incoming(incoming)).text == "hello!"


async def test_what_was_pruned_before_it_was_told_is_said(
    store: Store,
    the_home: Home,
    in_force: InForce,
    clock: ManualClock,
    listener: Callable[[str], Path],
    heard: Callable[[], list[list[Any]]],
    failed: Failed,
) -> None:
    listener("'processor_start'")
    await store.listener_mark("ear")
    await notes(store, range(5))
    clock.advance(2 * 86_400_000)
    while (await store.prune(keep_ms=86_400_000, require_archive=False)).more:
        pass
    hooks = Hooks(store, the_home, in_force, clock)
    hooks.start()
    try:
        await notes(store, range(5, 6))
        await until(hooks, lambda: heard() and heard()[-1][3]["version"] == "5")
    finally:
        await hooks.stop()
    # the newest event is always kept
    assert [row[3]["version"] for row in heard()] == ["4", "5"]
    assert "the events 1 to 4 were pruned" in hooks._failures.last["ear"]


async def test_a_store_that_cannot_be_written_costs_a_word_never_a_message(
    the_home: Home, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(the_home.office_db, durability="crash", clock=clock)
    await store._do(lambda tx: tx.all("pragma max_page_count = 1"))
    try:
        await Failures(store, clock).note("bad", "incoming f", "it raised " * 100_000)
    finally:
        store.close()
    assert "could not be stored" in caplog.text
