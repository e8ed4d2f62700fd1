"""`PUT` of agents and teams: what is not sent is kept, all is changed or nothing, nobody is in another's way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.testing.api import ServedOffice

AGENT: dict[str, Any] = {"name": "Amy", "provider": "rehearsal", "model": None}


def put(api: httpx.Client, path: str, /, **body: Any) -> httpx.Response:
    return api.put(path, json=body)


def head(api: httpx.Client) -> int:
    return int(api.get("/api/events", params={"limit": 1}).json()["head"])


def test_a_manual_leaves_the_same_trace_whichever_way_it_is_written(api: httpx.Client) -> None:
    put(api, "/api/agents/abe", **AGENT)
    for path, body in (
        ("/api/agents/abe", {"system_prompt": "Be kind."}),
        ("/api/agents/abe/system-prompt", {"content": "Be brief."}),
    ):
        before = head(api)
        assert put(api, path, **body).status_code == 200
        events = api.get("/api/events", params={"after": before}).json()["events"]
        assert [(event["kind"], event["data"].get("path")) for event in events] == [("api_changed", path)]
    assert api.get("/api/agents/abe/system-prompt").json()["content"].startswith("Be brief.")


def test_the_office_s_part_of_a_manual_is_put_back_whichever_way_it_is_written(api: httpx.Client) -> None:
    put(api, "/api/agents/ann", **AGENT)
    whole = api.get("/api/agents/ann/system-prompt").json()["content"]
    assert whole.count("assistant") > 0
    without = whole.replace("assistant", "nobody")
    assert put(api, "/api/agents/ann", system_prompt=without).status_code == 200
    assert api.get("/api/agents/ann/system-prompt").json()["content"] == whole


def test_a_manual_that_cannot_be_written_changes_nothing_else(
    api: httpx.Client, served: ServedOffice, tmp_path: Path
) -> None:
    put(api, "/api/agents/bob", **{**AGENT, "name": "Bob"})
    manual = served.home.workspace("bob") / "AGENTS.md"
    outside = tmp_path / "outside"
    outside.write_text("private")
    manual.unlink()
    manual.symlink_to(outside)
    before = head(api)
    refused = put(api, "/api/agents/bob", name="Robert", system_prompt="x")
    assert (refused.status_code, "cannot be written" in refused.json()["error"]) == (400, True)
    assert api.get("/api/agents/bob").json()["name"] == "Bob"
    # an agent that is not there yet, in a folder that one of its name has left
    folder = served.home.workspace("cara")
    folder.mkdir()
    (folder / "AGENTS.md").symlink_to(outside)
    assert put(api, "/api/agents/cara", **AGENT, system_prompt="x").status_code == 400
    assert api.get("/api/agents/cara").status_code == 404
    assert (head(api), outside.read_text()) == (before, "private")


def test_many_who_add_the_same_at_once_are_merged(served: ServedOffice, api: httpx.Client) -> None:
    def add(number: int) -> list[int]:
        with served.caller() as mine:
            agent = put(mine, "/api/agents/dora", **{**AGENT, "name": f"Dora {number}"})
            team = put(mine, "/api/teams/doras", name=f"{number}", agents=["assistant"], leader_agent="assistant")
            return [agent.status_code, team.status_code]

    with ThreadPoolExecutor(10) as together:
        answers = list(together.map(add, range(10)))
    assert answers == [[200, 200]] * 10
    kinds = [event["kind"] for event in api.get("/api/events", params={"limit": 1000}).json()["events"]]
    assert kinds.count("team_added") == 1
    late = put(api, "/api/agents/dora", **AGENT, version="0123456789abcdef")
    assert (late.status_code, late.json()["version"]) == (409, api.get("/api/agents/dora").json()["version"])
    assert put(api, "/api/teams/doras", name="Late", version="0123456789abcdef").status_code == 409


def test_what_was_read_and_is_gone_is_not_added_anew(api: httpx.Client) -> None:
    read = put(api, "/api/agents/finn", **AGENT).json()["version"]
    team = put(api, "/api/teams/finns", name="F", agents=[], leader_agent="finn").json()["version"]
    assert api.delete("/api/teams/finns").status_code == 200
    assert api.delete("/api/agents/finn").status_code == 200
    assert put(api, "/api/agents/finn", **AGENT, version=read).status_code == 409
    given = {"name": "F", "agents": [], "leader_agent": "assistant"}
    assert put(api, "/api/teams/finns", **given, version=team).status_code == 409
    assert "finn" not in api.get("/api/agents").json()


def test_what_was_read_can_be_sent_back(api: httpx.Client) -> None:
    put(api, "/api/agents/gus", **AGENT)
    put(api, "/api/teams/guses", name="G", agents=["gus"], leader_agent="gus")
    for path in ("/api/agents/gus", "/api/teams/guses"):
        read = api.get(path).json()
        assert put(api, path, **read).status_code == 200
        assert api.get(path).json() == read
        assert put(api, path, **{**read, "id": "other"}).status_code == 400


def test_of_an_agent_that_is_there_anything_may_be_left_out(api: httpx.Client) -> None:
    given = {"model": "m1", "sandbox": "none", "concurrency": 3, "budget": {"runs": 9}, "reaches": ["assistant"]}
    put(api, "/api/agents/eli", **{**AGENT, **given, "options": {"script": "!say hi"}})
    read = api.get("/api/agents/eli").json()
    assert read | given == read
    same = put(api, "/api/agents/eli")
    assert (same.status_code, same.json()["agent"]) == (200, read)
    assert put(api, "/api/agents/eli", version=read["version"]).status_code == 200
    assert put(api, "/api/agents/eli", version="0123456789abcdef").status_code == 409
    assert put(api, "/api/agents/eli", name="Eli").json()["agent"] == {**read, "name": "Eli", "version": _version(api)}
    defaults = {"model": None, "sandbox": None, "budget": None, "options": {}, "concurrency": 1, "reaches": []}
    reset = put(api, "/api/agents/eli", **dict.fromkeys(defaults)).json()["agent"]
    assert {key: reset[key] for key in defaults} == defaults
    for field in ("name", "provider"):
        refused = put(api, "/api/agents/eli", **{field: None})
        assert (refused.status_code, refused.json()["error"]) == (400, f"'{field}' is not allowed: it must be a text.")


def _version(api: httpx.Client) -> str:
    return str(api.get("/api/agents/eli").json()["version"])


def test_of_a_team_that_is_there_anything_may_be_left_out(api: httpx.Client) -> None:
    put(api, "/api/agents/gil", **AGENT)
    put(api, "/api/teams/gang", name="Gang", agents=["gil", "assistant"], leader_agent="gil")
    read = api.get("/api/teams/gang").json()
    assert put(api, "/api/teams/gang").json()["team"] == read
    named = put(api, "/api/teams/gang", name="The gang").json()["team"]
    assert named == {**read, "name": "The gang", "version": named["version"]}
    assert put(api, "/api/teams/gang", leader_agent="assistant").json()["team"]["leader_agent"] == "assistant"
    assert put(api, "/api/teams/gang", agents=[]).json()["team"]["agents"] == ["assistant"]


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/api/agents/new", {}, "A new agent needs 'name', 'provider' and 'model'."),
        ("/api/agents/new", {"name": "New", "provider": "rehearsal"}, "A new agent needs 'model'."),
        ("/api/teams/new", {"name": "New"}, "A new team needs 'agents' and 'leader_agent'."),
    ],
)
def test_a_new_one_needs_more(api: httpx.Client, path: str, body: dict[str, Any], sentence: str) -> None:
    refused = put(api, path, **body)
    assert (refused.status_code, refused.json()["error"]) == (400, sentence)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"upstream": None}, "The option 'upstream' has no value"),
        ({"upstream": "nowhere"}, "There is no model server 'nowhere'; the settings name anthropic"),
        ({"upstream": "openai"}, "speaks 'openai', and the agent's provider 'anthropic'"),
        ({"base_url": "ftp://x"}, "base_url"),
    ],
)
def test_a_model_server_that_is_none_is_refused(api: httpx.Client, options: dict[str, Any], words: str) -> None:
    given = {"name": "Kim", "provider": "anthropic", "model": "m1"}
    for body in ({**given, "options": options}, given):
        answer = put(api, "/api/agents/kim", **body)
    assert answer.status_code == 200  # a key may come later
    for path in ("/api/agents/kim", "/api/agents/kit"):
        refused = put(api, path, **given, options=options)
        assert (refused.status_code, words in refused.json()["error"]) == (400, True), refused.text
    assert api.get("/api/agents/kim").json()["options"] == {}
    assert api.get("/api/agents/kit").status_code == 404
