"""The control socket, spoken to by strangers: garbage gets an error, and the office lives."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

import pytest

from manydesks.office.wire import LINE_BYTES, SOCKET
from manydesks.testing.office import OfficeProcess

GARBAGE = {
    "not JSON": b"hello\n",
    "not UTF-8": b"\xff\xfe\n",
    "an empty line": b"\n",
    "no object": b"[1, 2]\n",
    "a number": b"7\n",
    "null": b"null\n",
    "no verb": b'{"args": {}}\n',
    "no args": b'{"verb": "send"}\n',
    "a verb of another type": b'{"verb": 7, "args": {}}\n',
    "args of another type": b'{"verb": "send", "args": []}\n',
    "an unknown verb": b'{"verb": "fly", "args": {}}\n',
    "an unhashable verb": b'{"verb": {}, "args": {}}\n',
    "an unknown argument": b'{"verb": "send", "args": {"text": "a", "colour": "red"}}\n',
    "an argument of another type": b'{"verb": "send", "args": {"text": {}}}\n',
    "half a character": b'{"verb": "send", "args": {"text": "\\ud800"}}\n',
    "no end of nesting": b"[" * 200_000 + b"\n",
    "a number without end": b"9" * 100_000 + b"\n",
    "a line that is cut off": b'{"verb": "status", "args"',
}


def speak(office: OfficeProcess, words: bytes) -> dict[str, Any] | None:
    """What the office answers; None if it only hangs up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(30)
        line.connect(str(office.home.socket(SOCKET)))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have heard enough before the end
            line.sendall(words)
            line.shutdown(socket.SHUT_WR)
        with line.makefile("rb") as answers:
            answer = answers.readline()
    return json.loads(answer) if answer else None


def test_garbage_is_refused_with_an_error(office: OfficeProcess) -> None:
    reader = office.door.reader()
    before = reader.head()
    for what, words in GARBAGE.items():
        answer = speak(office, words)
        assert answer is not None, what
        assert answer["type"] == "BadInput", (what, answer)
        assert answer["error"], what
    assert reader.head() == before
    reader.close()
    assert office.door.host()["pid"] == office.pid
    assert "Traceback" not in office.log()


def test_a_line_without_end_is_refused(office: OfficeProcess) -> None:
    answer = speak(office, b"x" * (LINE_BYTES + 1024 * 1024))
    assert answer is not None
    assert answer["type"] == "BadInput"
    assert office.door.host()["pid"] == office.pid


def test_someone_who_says_nothing_holds_nobody_up(office: OfficeProcess) -> None:
    with contextlib.ExitStack() as silent:
        for _ in range(50):
            line = silent.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            line.connect(str(office.home.socket(SOCKET)))
        assert office.ask("!say hello")["messages"][0]["status"] == "completed"
        assert office.stop() == 0


def test_someone_who_leaves_before_the_answer_does_no_harm(office: OfficeProcess) -> None:
    request = json.dumps({"verb": "send", "args": {"text": "!say heard", "message_id": "console_heard000"}})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(str(office.home.socket(SOCKET)))
        line.sendall(request.encode() + b"\n")
    office.until(lambda reader: reader.message("console_heard000"))
    assert office.ask("!say hello")["messages"][0]["status"] == "completed"


@pytest.mark.parametrize("left", ["socket", "file"])
def test_what_a_dead_host_left_is_no_host(office: OfficeProcess, left: str) -> None:
    office.kill()
    path = office.home.socket(SOCKET)
    assert path.exists()
    if left == "file":
        path.unlink()
        path.write_text("not a socket")
    assert office.door.host() is None
    assert office.door.ask("send", text="hello")["messages"]
    office.start()
    assert office.ask("!say hello")["messages"][0]["status"] == "completed"
