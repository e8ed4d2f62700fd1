"""An office that other machines can reach says so wherever somebody looks, in one sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path

from manydesks.testing.shell import Shell

OPEN = {"MANYDESKS_API__ENABLED": "true", "MANYDESKS_API__HOST": "0.0.0.0", "MANYDESKS_PORT": "0"}
PLAIN = "whoever has the token is its owner, and what is said is not encrypted, the token included"


def test_it_is_said_when_it_opens_and_by_whoever_looks(home: Path) -> None:
    shell = Shell(home, {**os.environ, **OPEN})
    (before,) = (found for found in shell.value("doctor")["findings"] if found["what"] == "api")
    assert PLAIN in before["says"]
    opened = shell.run("up", "--detach")
    try:
        assert opened.returncode == 0, opened.stderr
        assert PLAIN in opened.stderr
        url = shell.value("status")["host"]["api"]["url"]
        sentence = f"Other machines can reach the office at {url}, {PLAIN} (api.tls_certificate)."
        assert shell.value("status")["exposed"] == sentence
        assert f"api     {sentence}" in shell.said("status").splitlines()
        (found,) = (found for found in shell.value("doctor")["findings"] if found["what"] == "api")
        assert (found["says"], found["level"]) == (sentence, "note")
    finally:
        shell.run("down")


def test_an_office_for_this_machine_alone_says_nothing(home: Path) -> None:
    shell = Shell(home, {**os.environ, **OPEN, "MANYDESKS_API__HOST": "127.0.0.1"})
    opened = shell.run("up", "--detach")
    try:
        assert "reach" not in opened.stderr
        assert shell.value("status")["exposed"] is None
        assert "api" not in {found["what"] for found in shell.value("doctor")["findings"]}
    finally:
        shell.run("down")


def test_a_program_gets_it_beside_the_value(home: Path) -> None:
    shell = Shell(home, {**os.environ, **OPEN})
    opened = shell.run("up", "--detach", "--json")
    try:
        assert PLAIN in json.loads(opened.stderr)["notice"]
        assert json.loads(opened.stdout)["pid"] > 0
    finally:
        shell.run("down")
