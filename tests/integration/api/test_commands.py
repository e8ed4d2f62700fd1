"""What commands do to a running office, the API does too, and shows the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from manydesks.api.app import openapi_document
from manydesks.cli.main import COMMANDS
from manydesks.testing.api import ServedOffice
from manydesks.testing.shell import Shell

#: command → the routes that do the same
SAME = {
    "status": "GET /api/status",
    "send": "POST /api/message, GET /api/message/{id}",
    "chat": "POST /api/message, GET /api/message/{id}, GET /api/events/stream, GET /api/agents/{id}/messages",
    "trace": "GET /api/traces/{id}",
    "run export": "GET /api/runs/{id}/export",
    "agent add": "PUT /api/agents/{id}",
    "agent list": "GET /api/agents",
    "agent show": "GET /api/agents/{id}, GET /api/usage",
    "agent edit": "PUT /api/agents/{id}",
    "agent remove": "DELETE /api/agents/{id}",
    "agent reset": "POST /api/agents/{id}/reset",
    "agent pause": "POST /api/agents/{id}/pause",
    "agent resume": "POST /api/agents/{id}/resume",
    "team add": "PUT /api/teams/{id}",
    "team list": "GET /api/teams",
    "team show": "GET /api/teams/{id}",
    "team edit": "PUT /api/teams/{id}",
    "team remove": "DELETE /api/teams/{id}",
    "team room": "GET /api/chatroom/{team}, POST /api/chatroom/{team}",
    "secret set": "PUT /api/settings",
    "secret list": "GET /api/settings",
    "secret remove": "PUT /api/settings",
    "doctor": "GET /api/doctor",
    "questions": "GET /api/questions",
    "answer": "POST /api/questions/{id}",
    "responses list": "GET /api/responses",
    "responses show": "GET /api/responses/{id}",
    "responses resend": "POST /api/responses/{id}/resend",
    "responses ack": "POST /api/responses/{id}/ack",
    "responses drop": "DELETE /api/responses/{id}",
    "queue status": "GET /api/queue/status, GET /api/queue/agents",
    "queue list": "GET /api/queue/messages",
    "queue show": "GET /api/message/{id}",
    "queue dead": "GET /api/queue/dead",
    "queue held": "GET /api/queue/held",
    "queue retry": "POST /api/queue/dead/{id}/retry",
    "queue drop": "DELETE /api/queue/dead/{id}, DELETE /api/queue/held/{id}",
    "queue release": "POST /api/queue/held/{id}/release",
    "queue cancel": "POST /api/queue/cancel, POST /api/message/{id}/cancel, POST /api/queue/processing/{id}/kill",
    "queue pause": "POST /api/pause, POST /api/agents/{id}/pause",
    "queue resume": "POST /api/resume, POST /api/agents/{id}/resume",
    "queue prune": "POST /api/queue/prune",
    "usage": "GET /api/usage",
    "events": "GET /api/events, GET /api/events/stream",
    "logs": "GET /api/logs",
    "hook list": "GET /api/hooks",
    "forget": "POST /api/message/{id}/forget",
}
#: begin and end the process that answers, show what lets a program in, concern the machine, or take hours
LOCAL = {"up", "down", "restart", "token", "service", "completion", "backup", "restore", "pipeline"}


def commands() -> Iterator[str]:
    for name, entry in COMMANDS.items():
        command = entry.load()
        if isinstance(command, click.Group):
            yield from (f"{name} {inner}" for inner in command.commands)
        else:
            yield name


def test_every_command_has_its_route_or_is_of_this_machine() -> None:
    found = {name for name in commands() if name.split()[0] not in LOCAL}
    assert found == SAME.keys()
    assert COMMANDS.keys() >= LOCAL
    routes = {
        f"{method.upper()} {path}" for path, operations in openapi_document()["paths"].items() for method in operations
    }
    assert {route for named in SAME.values() for route in named.split(", ")} <= routes


@pytest.fixture(scope="module")
def shell(served: ServedOffice) -> Shell:
    return Shell(served.home.path)


def ended(api: httpx.Client, text: str, **more: Any) -> dict[str, Any]:
    sent = api.post("/api/message", json={"message": text, **more}).json()
    found: dict[str, Any] = api.get(f"/api/message/{sent['messageId']}", params={"wait": 20}).json()
    return found


def test_a_run_is_taken_out_as_the_command_does_it(api: httpx.Client, shell: Shell) -> None:
    found = ended(api, "!say one\n!say two")
    tape = api.get(f"/api/runs/{found['messageId']}/export").json()
    assert tape == shell.value("run", "export", found["messageId"])
    assert tape == api.get(f"/api/runs/{found['runs'][-1]['id']}/export").json()
    assert tape[-1] == {"type": "answer", "text": "one\ntwo", "messages": 1}


def test_a_run_of_which_nothing_is_left_is_409(api: httpx.Client, served: ServedOffice) -> None:
    api.put("/api/agents/gone", json={"name": "Gone", "provider": "rehearsal", "model": None})
    found = ended(api, "!say hello", agent="gone")
    (session,) = api.get("/api/sessions", params={"agent": "gone"}).json()
    outbound = served.home.session("gone", session["id"]) / "out" / "outbound.db"
    outbound.rename(outbound.with_name("elsewhere"))
    refused = api.get(f"/api/runs/{found['messageId']}/export")
    outbound.with_name("elsewhere").rename(outbound)
    assert refused.status_code == 409
    assert "wrote nothing" in refused.json()["error"]


def test_a_secret_that_an_agent_was_told_is_masked_in_its_run(api: httpx.Client) -> None:
    api.put("/api/settings", json={"secrets": {"told": "sk-told-to-an-agent-0123"}})
    found = ended(api, "!say it is sk-told-to-an-agent-0123")
    tape = api.get(f"/api/runs/{found['messageId']}/export").text
    api.put("/api/settings", json={"secrets": {"told": None}})
    assert "it is" in tape
    assert "sk-told-to-an-agent-0123" not in tape


def logs_of(api: httpx.Client, what: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get("/api/logs", params={"of": what, "limit": 1000}).json()
    return found


def test_logs_of_an_agent_and_a_run_are_those_of_the_command(api: httpx.Client, shell: Shell) -> None:
    # one at a desk of its own, which prints
    api.put("/api/agents/loud", json={"name": "Loud", "provider": "rehearsal", "model": None, "sandbox": "none"})
    found = ended(api, "!say hello", agent="loud")
    for what in ("loud", found["messageId"], "api"):
        # a desk has a last word after its answer: both are compared once nothing came between
        shown, before = logs_of(api, what), None
        while shown != before:
            before, told = shown, shell.value("logs", what, "-n", "1000")
            shown = logs_of(api, what)
        assert shown["entries"] == told
        assert shown["lines"] == [entry["text"] for entry in shown["entries"]]
    of_agent = api.get("/api/logs", params={"of": "loud", "limit": 1000}).json()["entries"]
    (session,) = api.get("/api/sessions", params={"agent": "loud"}).json()
    assert session["id"] in {entry["source"] for entry in of_agent}
    assert len(api.get("/api/logs", params={"of": "loud", "limit": 2}).json()["lines"]) == 2
    refused = api.get("/api/logs", params={"of": "lould"})
    assert (refused.status_code, "did you mean 'loud'?" in refused.json()["error"]) == (400, True)


def test_a_check_up_finds_what_the_command_finds(api: httpx.Client, shell: Shell) -> None:
    def told(found: dict[str, Any]) -> dict[str, str]:
        return {finding["what"]: finding["level"] for finding in found["findings"]}

    found = api.get("/api/doctor").json()
    assert told(found) == told(shell.value("doctor"))
    assert found["ok"] is True
    api.put("/api/agents/lost", json={"name": "Lost", "provider": "rehearsal", "model": None})
    workspace = Path(api.get("/api/agents/lost").json()["working_directory"])
    workspace.rename(workspace.with_name("lost-elsewhere"))
    found = api.get("/api/doctor").json()
    workspace.with_name("lost-elsewhere").rename(workspace)
    assert (found["ok"], told(found)["agent lost"]) == (False, "bad")


def test_one_response_and_those_of_a_state(served: ServedOffice, api: httpx.Client, shell: Shell) -> None:
    said = api.post("/api/responses", json={"channel": "crow", "sender": "ada", "message": "look"}).json()
    # there is no such channel: it is found out, and stays so
    served.until(lambda reader: (reader.response(said["id"]) or {}).get("status") == "held" or None)
    one = api.get(f"/api/responses/{said['id']}").json()
    told = shell.value("responses", "show", str(said["id"]))
    for name in ("status", "attempts", "reason", "instance", "platformId", "createdAt", "updatedAt", "ackedAt"):
        assert one[name] == told[name]
    of_state = api.get("/api/responses", params={"channel": "crow", "status": one["status"]}).json()
    assert [row["id"] for row in of_state] == [said["id"]]
    assert api.get("/api/responses", params={"channel": "crow", "status": "dead"}).json() == []
    api.delete(f"/api/responses/{said['id']}")
    withdrawn = api.get("/api/responses", params={"channel": "crow", "status": "withdrawn"}).json()
    assert [row["id"] for row in withdrawn] == [said["id"]]


def test_a_message_says_what_it_waits_for_and_what_was_tried(api: httpx.Client, shell: Shell) -> None:
    api.put("/api/agents/slow", json={"name": "Slow", "provider": "rehearsal", "model": None})
    api.post("/api/agents/slow/pause", json={})
    ids = [
        api.post("/api/message", json={"message": f"!say {n}", "agent": "slow"}).json()["messageId"] for n in range(2)
    ]
    second = api.get(f"/api/message/{ids[1]}").json()
    assert (second["agentPaused"], second["before"]) == (True, 1)
    assert [row["messageId"] for row in second["waitsFor"]] == [ids[0]]
    told = shell.value("queue", "show", ids[1])
    assert [second[name] for name in ("waitsFor", "before", "runs", "wait")] == [
        told[name] for name in ("waitsFor", "before", "runs", "wait")
    ]
    chained = api.post(
        "/api/message", json={"message": "[@slow: !say a] -> [@assistant: !say b]", "sender": "ada"}
    ).json()
    last = api.get(f"/api/message/{chained['messages'][-1]['messageId']}").json()
    assert (last["wait"]["kind"], [part["agent"] for part in last["wait"]["parts"]]) == ("chain", ["slow"])
    api.post("/api/queue/cancel", json={"agent": None})
    failed = ended(api, "!fail permanent no")
    assert [(run["attempt"], run["outcome"]) for run in failed["runs"]] == [(1, "failed")]


def test_a_held_message_is_given_up(api: httpx.Client) -> None:
    sent = api.post("/api/message", json={"message": "later", "notBefore": 2**52}).json()["messageId"]
    assert api.delete(f"/api/queue/held/{sent}").json() == {"ok": True}
    assert api.get(f"/api/message/{sent}").json()["status"] == "cancelled"
    assert api.delete(f"/api/queue/held/{sent}").status_code == 409


def test_a_heartbeat_is_read_and_written(api: httpx.Client, served: ServedOffice) -> None:
    api.put("/api/agents/beat", json={"name": "Beat", "provider": "rehearsal", "model": None})
    file = served.home.workspace("beat") / "HEARTBEAT.md"
    before = api.get("/api/agents/beat/heartbeat").json()
    assert (before["content"], before["path"]) == (file.read_text(), "workspaces/beat/HEARTBEAT.md")
    after = api.put("/api/agents/beat/heartbeat", json={"content": "Mail.", "version": before["version"]}).json()
    assert (file.read_text(), after["content"]) == ("Mail.", "Mail.")
    late = api.put("/api/agents/beat/heartbeat", json={"content": "Post.", "version": before["version"]})
    assert (late.status_code, late.json()["version"], file.read_text()) == (409, after["version"], "Mail.")
