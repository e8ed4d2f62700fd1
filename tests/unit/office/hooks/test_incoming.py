"""What plugins may do with a message on its way in, and what happens to those that fail."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput
from manydesks.office.hooks import failures
from manydesks.office.hooks.plugin import MOST_LOST
from manydesks.office.hooks.roster import Hooks
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.settings.model import HooksSettings, Settings
from manydesks.testing.clock import ManualClock

Write = Callable[[str, str], Path]
Failed = Callable[[], list[dict[str, Any]]]


def said(text: str = "hello") -> Incoming:
    return Incoming(source="console", key="console_1", text=text, channel="console", platform_id="x", sender="ada")


async def test_without_plugins_a_message_is_what_it_was(hooks: Hooks) -> None:
    message = said()
    assert await hooks.incoming(message) is message


async def test_text_and_metadata_are_changed_and_facts_are_seen(hooks: Hooks, plugin: Write) -> None:
    plugin(
        "polite",
        """
        @incoming
        def greet(message):
            message.text = f"{message.sender} on {message.channel} says: {message.text}"
            message.metadata["language"] = "en"
            message.sender = "somebody else"
        """,
    )
    changed = await hooks.incoming(said())
    assert (changed.text, changed.metadata) == ("ada on console says: hello", {"language": "en"})
    assert changed.sender == "ada"


async def test_hooks_go_in_their_order_then_by_name_and_each_sees_what_the_last_one_left(
    hooks: Hooks, plugin: Write
) -> None:
    plugin("a", "@incoming\ndef f(message): return message.text + ' a'")
    plugin("b", "@incoming(order=-5)\ndef f(message): return message.text + ' b'\n"
                "@incoming(order=200)\nasync def g(message): return message.text + ' B'")  # fmt: skip
    plugin("c", "@incoming\ndef f(message): message.text += ' c'")
    assert (await hooks.incoming(said("-"))).text == "- b a c B"


async def test_a_refusal_is_a_sentence_for_the_sender(hooks: Hooks, plugin: Write, failed: Failed) -> None:
    plugin("door", "@incoming\ndef f(message): raise Refused('We are closed\\non Sundays.')")
    with pytest.raises(BadInput, match=r"^We are closed on Sundays\.$"):
        await hooks.incoming(said())
    assert failed() == []


async def test_one_that_raises_is_skipped_and_said(hooks: Hooks, plugin: Write, failed: Failed, the_home: Home) -> None:
    plugin("a", "@incoming\ndef f(message):\n    message.text = 'half'\n    1 / 0")
    plugin("b", "@incoming\ndef f(message): message.text += ' b'")
    assert (await hooks.incoming(said())).text == "hello b"
    (event,) = failed()
    assert event == {"plugin": "a", "hook": "incoming f", "reason": "ZeroDivisionError: division by zero", "times": 1}
    await hooks.stop()
    assert "1 / 0" in (the_home.logs / "plugins" / "a.log").read_text()


RUBBISH = {
    "return 5": "it returned a int",
    "message.text = 5": "a text that is no text",
    "message.text = '  '": "nothing of the text",
    "message.text = '\\ud800'": "half a character",
    "message.text *= 300": "1500 bytes; at most 1024",
    "message.metadata = ['a']": "no object with names",
    "message.metadata['a'] = float('nan')": "not JSON",
    "message.metadata['a'] = object()": "not JSON",
    "message.metadata['a'] = 'x' * 20_000": "bytes of metadata; at most 16384",
    "message.metadata['card'] = 1": "the office's own",
    "message.text = 'x' * 20_000_000": "more than 8 MiB",
    "import os; os._exit(3)": "ended with 3",
    "import sys; sys.exit('bye')": "ended with 1",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": "ended with -11",
}


@pytest.mark.parametrize("code", RUBBISH)
async def test_whatever_else_it_gives_back_the_message_goes_on_as_it_was(
    hooks: Hooks, plugin: Write, failed: Failed, code: str
) -> None:
    plugin("bad", f"@incoming\ndef f(message):\n    {code}")
    changed = await hooks.incoming(said())
    assert (changed.text, dict(changed.metadata)) == ("hello", {})
    (event,) = failed()
    assert RUBBISH[code] in event["reason"]


HANGS = {
    "busy": "while True: pass",
    "asleep": "import time; time.sleep(600)",
    # holds the interpreter as a whole: in a thread of the office nothing else would run
    "pattern": "import re; re.match('(a+)+b', 'a' * 60)",
    "deaf": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    "child": "import subprocess; subprocess.run(['sleep', '600'])",
}


@pytest.mark.parametrize("code", HANGS.values(), ids=HANGS)
async def test_one_that_hangs_is_ended_when_its_time_is_over(
    hooks: Hooks, plugin: Write, failed: Failed, code: str, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    plugin("slow", f"""
        import os
        @incoming(timeout=0.3)
        def f(message):
            open({str(mark)!r}, 'w').write(str(os.getpid()))
            {code}
        """)  # fmt: skip
    assert (await hooks.incoming(said())).text == "hello"
    (event,) = failed()
    assert event["reason"] == "it took more than 0.3 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


async def test_after_some_lost_processes_it_is_left_alone_until_a_reload(
    hooks: Hooks, plugin: Write, failed: Failed, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    code = f"@incoming(timeout=0.2)\ndef f(message):\n    open({str(calls)!r}, 'a').write('.')\n    while True: pass"
    plugin("slow", code)
    for _ in range(MOST_LOST + 2):
        await hooks.incoming(said())
    assert calls.read_text() == "." * MOST_LOST
    (listed,) = await hooks.listed()
    assert listed["state"] == "off"
    assert "3 times in a row" in listed["reason"]
    plugin("slow", "@incoming\ndef f(message): message.text = 'mended'")
    await hooks.reload()
    assert (await hooks.incoming(said())).text == "mended"
    (listed,) = await hooks.listed()
    assert listed["state"] == "on"


async def test_all_together_have_a_time_too(
    hooks: Hooks, plugin: Write, failed: Failed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manydesks.office.hooks.roster.INCOMING_SECONDS", 0.5)
    for name in "abcdef":
        plugin(name, "@incoming(timeout=0.4)\ndef f(message):\n    while True: pass")
    await hooks.listed()
    began = time.monotonic()
    assert (await hooks.incoming(said())).text == "hello"
    assert time.monotonic() - began < 3
    reasons = [event["reason"] for event in failed()]
    assert len(reasons) == 6
    assert any("before it was its turn" in reason for reason in reasons)


async def test_failures_are_said_at_most_once_a_minute_with_their_number(
    hooks: Hooks, plugin: Write, failed: Failed, clock: ManualClock
) -> None:
    plugin("bad", "@incoming\ndef f(message): 1 / 0")
    for _ in range(5):
        await hooks.incoming(said())
    assert [event["times"] for event in failed()] == [1]
    clock.advance(failures.PACE_MS)
    await hooks.incoming(said())
    assert [event["times"] for event in failed()] == [1, 5]


NOT_LOADED = {
    "this is no Python": "SyntaxError",
    "1 / 0": "ZeroDivisionError",
    "x = 1": "no function with @incoming",
    "@on('message_deed')\ndef f(event): pass": "did you mean 'message_dead'",
    "@on()\ndef f(event): pass": "needs the kinds",
    "@incoming(timeout=0)\ndef f(message): pass": "number of seconds",
    "@incoming(order='first')\ndef f(message): pass": "whole number",
    "@incoming(3)\ndef f(message): pass": "by name",
    "import os; os._exit(4)": "ended with 4",
}


@pytest.mark.parametrize("code", NOT_LOADED)
async def test_one_that_cannot_be_loaded_is_off_and_says_why(
    hooks: Hooks, plugin: Write, failed: Failed, code: str
) -> None:
    plugin("bad", code)
    plugin("good", "@incoming\ndef f(message): message.text += '!'")
    assert (await hooks.incoming(said())).text == "hello!"
    bad, good = await hooks.listed()
    assert (bad["state"], good["state"]) == ("off", "on")
    assert NOT_LOADED[code] in bad["reason"]
    assert failed()[0]["hook"] == "load"


async def test_one_that_hangs_while_it_is_loaded_holds_nobody_up_for_long(
    hooks: Hooks, plugin: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manydesks.office.hooks.line.LOAD_SECONDS", 0.5)
    plugin("slow", "while True: pass")
    await hooks.incoming(said())
    (listed,) = await hooks.listed()
    assert listed["reason"] == "it was not loaded within 0.5 s"


async def test_plugins_are_switched_off_by_name_or_all_together(hooks: Hooks, plugin: Write, in_force: InForce) -> None:
    for name in "ab":
        plugin(name, f"@incoming\ndef f(message): message.text += '{name}'")
    in_force.settings = Settings(hooks=HooksSettings(disabled=["a"]))
    assert (await hooks.incoming(said("-"))).text == "-b"
    assert [row["reason"] for row in await hooks.listed()] == ["disabled in the settings", None]
    in_force.settings = Settings(hooks=HooksSettings(enabled=False))
    await hooks.reload()
    assert (await hooks.incoming(said("-"))).text == "-"


async def test_a_change_of_the_settings_counts_at_once_and_loads_anew(
    hooks: Hooks, plugin: Write, in_force: InForce
) -> None:
    plugin("a", "@incoming\ndef f(message): message.text += 'a'")
    hooks.start()
    assert (await hooks.incoming(said("-"))).text == "-a"
    in_force.change(Settings(hooks=HooksSettings(disabled=["a"])))
    assert hooks._reloading is not None
    await hooks._reloading
    assert (await hooks.incoming(said("-"))).text == "-"
    in_force.change(Settings())
    await hooks._reloading
    assert (await hooks.incoming(said("-"))).text == "-a"
    before = hooks._reloading
    in_force.change(Settings(hooks=HooksSettings(timeout_seconds=9)))
    assert hooks._reloading is before, "a time needs no loading"


async def test_a_reload_skips_no_hook_of_a_message_that_is_under_way(
    hooks: Hooks, plugin: Write, tmp_path: Path, failed: Failed
) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    plugin("a", f"@incoming\ndef f(message):\n    open({str(begun)!r}, 'w').close()\n    message.text += ' a'")
    plugin("b", "@incoming\ndef f(message): message.text += ' b'")
    under_way = asyncio.create_task(hooks.incoming(said()))
    reloading = asyncio.create_task(_reload_once(hooks, begun))
    assert (await under_way).text == "hello a b"
    await reloading
    assert failed() == []


async def _reload_once(hooks: Hooks, begun: Path) -> None:
    await hooks.listed()
    reloading = asyncio.create_task(hooks.reload())
    await asyncio.sleep(0)
    # lets the hook go on
    await asyncio.to_thread(lambda: begun.open().close())
    await reloading


async def test_what_it_prints_is_its_log_and_a_flood_costs_only_itself(
    hooks: Hooks, plugin: Write, the_home: Home, failed: Failed
) -> None:
    plugin("chatty", "import sys\n@incoming\ndef f(message):\n    print('seen', message.text)\n    sys.stdin.read()")
    plugin("flood", "@incoming(timeout=0.5)\ndef f(message):\n    while True: print('x' * 1000)")
    assert (await hooks.incoming(said())).text == "hello"
    assert [event["plugin"] for event in failed()] == ["flood"]
    await hooks.stop()
    assert (the_home.logs / "plugins" / "chatty.log").read_text() == "seen hello\n"
    sizes = [path.stat().st_size for path in (the_home.logs / "plugins").glob("flood.log*")]
    assert sum(sizes) < 4 << 20


async def test_a_plugin_is_given_no_secret_and_knows_the_home(
    hooks: Hooks, plugin: Write, the_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYDESKS_SECRET_KEY", "sesame-123456")
    plugin("env", "import os\n@incoming\ndef f(message): return str(sorted(k for k in os.environ if 'MANYDESKS' in k))")
    # the second is how what it starts is found again
    assert (await hooks.incoming(said())).text == "['MANYDESKS_HOME', '_MANYDESKS_PLUGIN']"
