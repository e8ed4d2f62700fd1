"""Plugins in a real office: messages in and out, failures that cost nothing, and the end of their processes."""

from __future__ import annotations

import os
import signal
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

Write = Callable[[str, str], None]


@pytest.fixture
def plugin(home: Path) -> Write:
    def write(name: str, code: str) -> None:
        folder = home / "plugins"
        for made in (home, folder):
            made.mkdir(mode=0o700, exist_ok=True)
        (folder / f"{name}.py").write_text("from manydesks.office.hooks import *\n" + textwrap.dedent(code))

    return write


BOTH = """
@incoming
def shout(message):
    if "secret" in message.text:
        raise Refused("No secrets here, please.")
    message.metadata["was"] = message.text
    return message.text.upper()

@outgoing
def sign(answer):
    answer.text += f" (you wrote: {answer.asked['was']})"
    answer.metadata["signed"] = True
"""


def test_a_message_goes_through_on_its_way_in_and_out(office: OfficeProcess, shell: Shell, plugin: Write) -> None:
    office.stop()
    plugin("both", BOTH)
    office.start()
    said = shell.said("send", "!say hello", "--wait")
    assert said == "HELLO (you wrote: !say hello)\n" or "(you wrote: !say hello)" in said
    assert shell.refusal("send", "a secret") == "manydesks: No secrets here, please."
    (row,) = shell.value("hook", "list")
    assert (row["name"], row["state"], [spec["hook"] for spec in row["hooks"]]) == (
        "both",
        "on",
        ["incoming", "outgoing"],
    )


def test_without_an_office_the_message_is_hooked_as_well(shell: Shell, plugin: Write, home: Path) -> None:
    plugin("both", BOTH)
    message = shell.value("send", "hello")["messageId"]
    assert shell.value("trace", message)["messages"][0]["text"] == "HELLO"
    assert shell.refusal("send", "a secret") == "manydesks: No secrets here, please."
    assert [row["state"] for row in shell.value("hook", "list")] == ["on"]


def test_bad_ones_lose_and_hold_up_no_message(office: OfficeProcess, shell: Shell, plugin: Write, home: Path) -> None:
    office.stop()
    plugin("hangs", "@outgoing(timeout=0.3)\ndef f(answer):\n    while True: pass")
    plugin("raises", "@incoming\ndef f(message): 1 / 0\n@outgoing\ndef g(answer): 1 / 0")
    plugin("half", "@incoming\ndef f(message): message.metadata['half'] = 1\n"
                   "@outgoing(timeout=0.3)\ndef g(answer):\n    while True: pass")  # fmt: skip
    plugin("huge", "@outgoing\ndef f(answer): answer.text = 'x' * 500_000")
    plugin("open", "@outgoing\ndef f(answer): answer.text = 'forged'")
    (home / "plugins" / "open.py").chmod(0o666)
    office.start()
    traces = [office.ask(f"hello {number}") for number in range(6)]
    assert [trace["messages"][0]["status"] for trace in traces] == ["completed"] * 6
    texts = [trace["messages"][0]["responses"][0]["text"] for trace in traces]
    assert all("hello" in text and len(text) < 500 for text in texts)
    rows = {row["name"]: row for row in shell.value("hook", "list")}
    assert "3 times in a row" in rows["hangs"]["reason"]
    assert "can be written by others" in rows["open"]["reason"]
    assert rows["half"]["state"] == "on"
    assert ["3 times in a row" in (spec["leftOut"] or "") for spec in rows["half"]["hooks"]] == [False, True]
    assert "262144 are allowed" in rows["huge"]["lastFailure"]
    failed = shell.value("events", "--type", "hook_failed")
    assert {event["data"]["plugin"] for event in failed} == {"half", "hangs", "huge", "open", "raises"}
    half = [event["data"]["reason"] for event in failed if event["data"]["plugin"] == "half"]
    assert "it is left out" in half[-1]
    doctor = shell.run("doctor", "--json")
    assert "plugin open" in doctor.stdout
    assert "can be written by others" in doctor.stdout
    assert "Left out: outgoing g, it took more than 0.3 s, 3 times in a row" in doctor.stdout


def test_a_listener_goes_on_after_a_kill_and_no_process_is_left(
    office: OfficeProcess, plugin: Write, home: Path, tmp_path: Path
) -> None:
    office.stop()
    path = tmp_path / "heard"
    pids = tmp_path / "pids"
    plugin("ear", f"""
        import os
        @on("message_completed")
        def heard(event):
            open({str(path)!r}, "a").write(event.message + "\\n")
            open({str(pids)!r}, "a").write(str(os.getpid()) + "\\n")
        @incoming(timeout=60)
        def stuck(message):
            if "stuck" in message.text:
                open({str(pids)!r}, "a").write(str(os.getpid()) + "\\n")
                while True: pass
        """)  # fmt: skip
    office.start()
    first = office.ask("hello")["messages"][0]["messageId"]
    _until(lambda: path.exists() and first in path.read_text())
    sending = Shell(home).begin("send", "stuck")
    _until(lambda: len(set(pids.read_text().split())) == 2)
    office.kill()
    for pid in set(pids.read_text().split()):
        _until(lambda pid=pid: not _runs(int(pid)))  # type: ignore[misc]
    sending.send_signal(signal.SIGKILL)
    sending.communicate()
    office.start()
    second = office.ask("again")["messages"][0]["messageId"]
    _until(lambda: second in path.read_text())
    assert list(dict.fromkeys(path.read_text().split())) == [first, second]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


def _until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.02)
