"""Changes through the API: nothing of anybody's is lost, each stands in the ledger, and no secret leaves."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.domain.insight import FILE, VERSION
from manydesks.testing.api import ServedOffice

AGENT = {"name": "Amy", "provider": "rehearsal", "model": None}


def put(api: httpx.Client, path: str, /, **body: Any) -> httpx.Response:
    return api.put(path, json=body)


def test_what_is_not_sent_is_kept(api: httpx.Client) -> None:
    put(api, "/api/agents/amy", **AGENT, concurrency=3, budget={"usd": 5.0, "runs": 9}, reaches=["assistant"])
    put(api, "/api/agents/amy", name="Amy Two", provider="rehearsal", model="m1")
    found = api.get("/api/agents/amy").json()
    assert (found["name"], found["model"], found["concurrency"]) == ("Amy Two", "m1", 3)
    assert (found["reaches"], found["budget"]) == (["assistant"], {"usd": 5.0, "runs": 9})
    put(api, "/api/agents/amy", **AGENT, budget={})
    assert api.get("/api/agents/amy").json()["budget"] is None


def test_a_stale_version_is_409_and_nothing_is_lost(api: httpx.Client) -> None:
    put(api, "/api/agents/ben", **AGENT)
    read = api.get("/api/agents/ben").json()["version"]
    first = put(api, "/api/agents/ben", **AGENT, concurrency=2, version=read)
    assert first.status_code == 200
    assert first.json()["version"] != read
    late = put(api, "/api/agents/ben", **AGENT, concurrency=9, version=read)
    assert late.status_code == 409
    assert late.json()["version"] == first.json()["version"]
    assert api.get("/api/agents/ben").json()["concurrency"] == 2


def test_of_many_who_edit_at_once_one_wins(served: ServedOffice, api: httpx.Client) -> None:
    put(api, "/api/agents/cat", **AGENT)
    put(api, "/api/teams/cats", name="Cats", agents=["cat"], leader_agent="cat")
    agent = api.get("/api/agents/cat").json()["version"]
    team = api.get("/api/teams").json()["cats"]["version"]
    settings = api.get("/api/settings").json()["version"]
    prompt = api.get("/api/agents/cat/system-prompt").json()["version"]

    def edit(number: int) -> list[int]:
        with served.caller() as mine:
            return [
                put(mine, "/api/agents/cat", **{**AGENT, "name": f"Cat {number}"}, version=agent).status_code,
                put(
                    mine, "/api/teams/cats", name=f"Cats {number}", agents=["cat"], leader_agent="cat", version=team
                ).status_code,
                put(mine, "/api/settings", dispatch={"batch": 10 + number}, version=settings).status_code,
                put(mine, "/api/agents/cat/system-prompt", content=f"Be {number}.", version=prompt).status_code,
            ]

    with ThreadPoolExecutor(8) as together:
        answers = list(together.map(edit, range(1, 9)))
    for which in zip(*answers, strict=True):
        assert sorted(which) == [200] + [409] * 7


def test_a_team_is_who_was_given(api: httpx.Client) -> None:
    for name in ("dan", "eve", "fay"):
        put(api, f"/api/agents/{name}", **{**AGENT, "name": name})
    put(api, "/api/teams/dreams", name="Dreams", agents=["dan", "eve"], leader_agent="dan")
    put(api, "/api/teams/dreams", name="Dreams", agents=["fay"], leader_agent="fay")
    assert api.get("/api/teams").json()["dreams"] | {"version": ""} == {
        "id": "dreams",
        "name": "Dreams",
        "agents": ["fay"],
        "leader_agent": "fay",
        "version": "",
    }
    assert api.delete("/api/agents/eve").status_code == 200
    led = api.delete("/api/agents/fay")
    assert (led.status_code, "leads the team" in led.json()["error"]) == (409, True)


def test_every_change_has_its_event_in_the_same_transaction(api: httpx.Client) -> None:
    before = api.get("/api/events", params={"limit": 1}).json()["head"]
    put(api, "/api/agents/gus", **AGENT)
    api.post("/api/agents/gus/pause", json={})
    api.post("/api/agents/gus/pause", json={})  # it was so already: no change
    sent = api.post("/api/message", json={"message": "hello", "agent": "gus"}).json()
    api.post(f"/api/message/{sent['messageId']}/cancel", json={})
    put(api, "/api/settings", dispatch={"batch": 7})
    put(api, "/api/settings", secrets={"audited": "0123456789"})
    put(api, "/api/agents/gus/system-prompt", content="Be brief.")
    put(api, "/api/settings", secrets={"audited": None})
    api.get("/api/agents")
    events = api.get("/api/events", params={"after": before, "limit": 1000}).json()["events"]
    audit = [(event["data"]["method"], event["data"]["path"]) for event in events if event["kind"] == "api_changed"]
    assert audit == [
        ("PUT", "/api/agents/gus"),
        ("POST", "/api/agents/gus/pause"),
        ("POST", "/api/message"),
        ("POST", f"/api/message/{sent['messageId']}/cancel"),
        ("PUT", "/api/settings"),
        ("PUT", "/api/settings"),
        ("PUT", "/api/agents/gus/system-prompt"),
        ("PUT", "/api/settings"),
    ]
    assert {event["data"]["address"] for event in events if event["kind"] == "api_changed"} == {"127.0.0.1"}
    by_seq = {event["seq"]: event for event in events}
    for event in events:
        if event["kind"] == "agent_added":
            assert by_seq[event["seq"] + 1]["kind"] == "api_changed"
            assert by_seq[event["seq"] + 1]["at"] == event["at"]


def test_settings_are_merged_and_count_at_once(make_served: Callable[..., ServedOffice], home: Path) -> None:
    home.mkdir(parents=True)
    (home / "settings.toml").write_text("# mine\n[dispatch]\nbatch = 3 # few\n")
    office = make_served()
    with office.caller() as api:
        changed = put(
            api,
            "/api/settings",
            dispatch={"desks": 9},
            upstreams={"mine": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}},
        )
        assert changed.status_code == 200, changed.text
        assert (changed.json()["dispatch"]["batch"], changed.json()["dispatch"]["desks"]) == (3, 9)
        text = (home / "settings.toml").read_text()
        assert "# mine" in text
        assert "batch = 3 # few" in text
        assert put(api, "/api/settings", dispatch={"batch": None}).json()["dispatch"]["batch"] == 10
        later = put(api, "/api/settings", office={"durability": "crash"}).json()
        assert later["nextStart"] == ["office.durability"]


def test_half_of_a_bad_change_is_not_made(api: httpx.Client, served: ServedOffice) -> None:
    before = api.get("/api/settings").json()
    refused = put(api, "/api/settings", dispatch={"desks": 5}, api={"auth": "none", "host": "0.0.0.0"})
    assert refused.status_code == 400
    assert "loopback" in refused.json()["error"]
    for bad in ("", " ", "with a line end\n"):
        assert put(api, "/api/settings", dispatch={"desks": 5}, secrets={"good": "x", "bad": bad}).status_code == 400
    assert api.get("/api/settings").json() == before


def test_secrets_go_in_and_never_come_out(api: httpx.Client, served: ServedOffice) -> None:
    value = "sk-very-secret-0123456789"
    answer = put(api, "/api/settings", secrets={"my_key": value})
    assert answer.json()["secrets"]["my_key"] == {"set": True}
    put(api, "/api/settings", prices={"a": {"model": value, "input_usd": 1, "output_usd": 1}})
    for path in ("/api/settings", "/api/logs", "/api/status", "/api/events?limit=1000", "/api/openapi.json"):
        text = api.get(path).text
        assert value not in text
        assert served.token() not in text
    assert put(api, "/api/settings", secrets={"my_key": None}).json()["secrets"] == {}
    put(api, "/api/settings", prices={"a": None})


def test_a_manual_is_replaced_and_no_link_is_followed(api: httpx.Client, served: ServedOffice, tmp_path: Path) -> None:
    put(api, "/api/agents/hal", **AGENT)
    put(api, "/api/agents/hal/system-prompt", content="Open the doors.")
    assert api.get("/api/agents/hal/system-prompt").json()["content"].startswith("Open the doors.")
    manual = served.home.workspace("hal") / "AGENTS.md"
    outside = tmp_path / "outside"
    outside.write_text("private")
    manual.unlink()
    manual.symlink_to(outside)
    assert put(api, "/api/agents/hal/system-prompt", content="x").status_code == 400
    assert api.get("/api/agents/hal/system-prompt").status_code == 400
    memory = served.home.workspace("hal") / "memory"
    (memory / "secret.md").symlink_to(outside)
    (memory / "own.md").write_text("mine")
    names = [file["name"] for file in api.get("/api/agents/hal/memory").json()["files"]]
    assert "own.md" in names
    assert "secret.md" not in names
    assert outside.read_text() == "private"


def test_what_is_said_unasked_waits_for_its_channel(api: httpx.Client) -> None:
    said = api.post(
        "/api/responses", json={"channel": "owl", "sender": "ada", "senderId": "a1", "message": "look"}
    ).json()
    (waiting,) = api.get("/api/responses/pending", params={"channel": "owl"}).json()
    assert (waiting["messageId"], waiting["message"], waiting["senderId"]) == (said["messageId"], "look", "a1")
    assert said["messageId"].startswith("proactive_")
    assert waiting["originalMessage"] is None


def test_a_room_hears_what_is_posted(api: httpx.Client) -> None:
    put(api, "/api/agents/ida", **{**AGENT, "name": "Ida"})
    put(api, "/api/teams/room", name="Room", agents=["ida"], leader_agent="ida")
    posted = api.post("/api/chatroom/room", json={"message": "!say heard", "sender": "ada"}).json()
    (post,) = api.get("/api/chatroom/room").json()
    assert (post["id"], post["message"], post["sender"], post["teamId"]) == (posted["id"], "!say heard", "ada", "room")


def test_a_trace_is_spans_of_time(api: httpx.Client) -> None:
    put(api, "/api/agents/jim", **{**AGENT, "name": "Jim"})
    put(api, "/api/teams/pair", name="Pair", agents=["jim", "assistant"], leader_agent="jim")
    sent = api.post("/api/message", json={"message": "!say [@jim: !say done]", "agent": "assistant"}).json()
    api.get(f"/api/message/{sent['messageId']}", params={"wait": 20})

    def both() -> dict[str, Any]:
        found: dict[str, Any] = api.get(f"/api/traces/{sent['traceId']}").json()
        return found

    spans = both()["spans"]
    for _ in range(200):
        if sum(span["kind"] == "run" and span["end"] is not None for span in spans) == 2:
            break
        spans = both()["spans"]
    kinds = [span["kind"] for span in spans]
    assert {kind: kinds.count(kind) for kind in ("message", "queue", "run")} == {"message": 2, "queue": 2, "run": 2}
    first, second = (span for span in spans if span["kind"] == "message")
    assert (first["parent"], second["parent"], second["fromAgent"]) == (None, first["id"], "assistant")
    ids = {span["id"] for span in spans}
    assert len(ids) == len(spans)
    assert all(span["parent"] is None or span["parent"] in ids for span in spans)
    assert all(span["end"] is None or span["end"] >= span["start"] for span in spans)


def test_figures_of_the_history_with_how_far_they_are_behind(api: httpx.Client, served: ServedOffice) -> None:
    with closing(sqlite3.connect(served.home.lake / FILE)) as db:
        db.execute("create table meta (name text primary key, value text)")
        rows = {"version": VERSION, "to_seq": 1, "built_at": 9}
        db.executemany("insert into meta values (?, ?)", [(name, str(value)) for name, value in rows.items()])
        db.execute("create table slo (day text, agent text, ratio real)")
        db.executemany("insert into slo values (?, 'ada', 0.5)", [("2026-01-02",), ("2026-01-01",)])
        db.commit()
    found = api.get("/api/insights/slo", params={"from": "2026-01-02", "to": "2026-01-31"}).json()
    assert found["rows"] == [{"day": "2026-01-02", "agent": "ada", "ratio": 0.5}]
    assert (found["builtAt"], found["seq"]) == (9, 1)
    head = api.get("/api/events", params={"limit": 1}).json()["head"]
    assert (found["behind"], found["ahead"]) == (head - 1, 0)
    assert json.dumps(found).count("home") == 0


def test_an_error_of_the_office_itself_shows_nothing_of_it(
    make_served: Callable[..., ServedOffice], home: Path
) -> None:
    office = make_served()
    with office.caller() as api:
        (home / "logs" / "host.log").chmod(0o600)
        (home / "lake" / FILE).write_bytes(b"not a database")
        answer = api.get("/api/insights/slo")
        assert answer.status_code == 404
        assert "gold.db is damaged" in answer.json()["error"]
        assert str(home) not in answer.text
        (home / "lake" / FILE).unlink()
        assert "none are published yet" in api.get("/api/insights/slo").json()["error"]


@pytest.mark.parametrize(
    "path", ["/api/agents/..%2F..%2Fetc", "/api/agents/%2e%2e", "/api/message/..%2f..%2fsecrets.toml"]
)
def test_no_path_is_made_of_an_id(api: httpx.Client, path: str) -> None:
    assert api.get(path).status_code in (400, 404)
