"""`python -m manydesks.testing.model`: the server as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from conftest import Client

COMMAND = [sys.executable, "-m", "manydesks.testing.model"]


def begin(*arguments: str | Path) -> tuple[subprocess.Popen[str], dict[str, str]]:
    process = subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_plays_a_script_until_a_signal(plain: Client, tmp_path: Path, number: signal.Signals) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log"
    script.write_text('[{"text": "Hello."}]')
    process, said = begin(script, "--port", "0", "--log", log)
    try:
        url = f"{said['baseUrl']}/v1/messages?beta=true"
        headers = {"anthropic-version": "x", "x-api-key": "sk-secret"}
        answer = httpx.post(url, json=plain.body("hi"), headers=headers, trust_env=False)
    finally:
        process.send_signal(number)
        rest, _ = process.communicate(timeout=30)
    assert plain.heard(answer).text == "Hello."
    assert said["pid"] == process.pid
    assert (process.returncode, rest) == (0, "")
    [line] = log.read_text().splitlines()
    assert "sk-secret" not in line
    seen = json.loads(line)
    assert (seen["method"], seen["path"], seen["query"]) == ("POST", "/v1/messages", "beta=true")
    assert seen["body"] == plain.body("hi")


def test_without_a_script_it_echoes_also_on_a_socket(plain: Client, tmp_path: Path) -> None:
    path = tmp_path / "m.sock"
    process, said = begin("--socket", path)
    try:
        assert said["socket"] == str(path)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url=said["baseUrl"]) as http:
            answer = http.post("/v1/messages", json=plain.body("hi"), headers={"anthropic-version": "x"})
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert plain.heard(answer).text == "hi"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{script}"], 2, "turns[0].txt"),
        (["/nowhere.json"], 2, "/nowhere.json cannot be read"),
        (["--port", "70000"], 2, "--port"),
        (["--socket", "/nowhere/m.sock"], 1, "could not be started"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"txt": "a"}]')
    given = [argument.format(script=script) for argument in arguments]
    done = subprocess.run([*COMMAND, *given], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
