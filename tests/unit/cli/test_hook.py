from __future__ import annotations

import json

ROW = {
    "name": "signature",
    "source": "/home/plugins/signature.py",
    "state": "on",
    "reason": None,
    "hooks": [
        {"hook": "incoming", "name": "check", "order": 10, "kinds": [], "leftOut": None},
        {"hook": "on", "name": "note", "order": 100, "kinds": ["message_dead", "response_dead"], "leftOut": None},
    ],
    "lastFailure": "ValueError: no",
}
OFF = {**ROW, "name": "bad", "state": "off", "reason": "it cannot be loaded", "hooks": []}


def test_a_running_office_says_what_it_has(run, door):
    door.answers["hooks"] = {"plugins": [ROW, OFF]}
    head, first, second = run("hook", "list").stdout.splitlines()
    assert head.split()[:3] == ["NAME", "STATE", "HOOKS"]
    assert "incoming:check (10); on message_dead, response_dead:note" in first
    assert first.endswith("ValueError: no")
    assert second.split()[:3] == ["bad", "off", "-"]
    assert second.endswith("it cannot be loaded")
    assert json.loads(run("hook", "list", "--json").stdout) == [ROW, OFF]


def test_a_hook_that_is_left_out_says_so_and_why_before_whatever_else_failed(run, door):
    lost = {"hook": "outgoing", "name": "sign", "order": 100, "kinds": [], "leftOut": "it took more than 2 s"}
    door.answers["hooks"] = {"plugins": [{**ROW, "hooks": [ROW["hooks"][0], lost]}]}
    _, row = run("hook", "list").stdout.splitlines()
    assert row.split()[:2] == ["signature", "on"]
    assert "incoming:check (10); outgoing:sign (left out)" in row
    assert row.endswith("outgoing:sign: it took more than 2 s")


def test_no_plugins(run, door):
    door.answers["hooks"] = {"plugins": []}
    result = run("hook", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "There are no plugins" in result.stderr
    assert run("hook", "list", "--json").stdout == "[]\n"
