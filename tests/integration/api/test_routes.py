"""Every route: the happy way, bad input, an unknown id, no login, a wrong login. No route is without its line here."""

from __future__ import annotations

import asyncio
import itertools
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.settings.home import Home
from manydesks.store.deliver import Delivery
from manydesks.store.store import Store
from manydesks.testing.api import ServedOffice

Answer = httpx.Response
AGENT = {"name": "Amy", "provider": "rehearsal", "model": None}
TEAM = {"name": "Web", "agents": ["assistant"], "leader_agent": "assistant"}
FAR = 2**52


class World:
    """An office with something of everything, and somebody who is let in."""

    def __init__(self, office: ServedOffice, api: httpx.Client, dead_response: int) -> None:
        self.office = office
        self.api = api
        self.dead_response = dead_response
        self._names = (f"agent{number}" for number in itertools.count())

    def agent(self) -> str:
        name = next(self._names)
        assert self.api.put(f"/api/agents/{name}", json=AGENT).status_code == 200
        return name

    def team(self) -> str:
        name = next(self._names).replace("agent", "team")
        assert self.api.put(f"/api/teams/{name}", json=TEAM).status_code == 200
        return name

    def sent(self, text: str = "!say hello", **more: Any) -> str:
        return str(self.api.post("/api/message", json={"message": text, **more}).json()["messageId"])

    def ended(self, text: str = "!say hello", **more: Any) -> str:
        id = self.sent(text, **more)
        self.api.get(f"/api/message/{id}", params={"wait": 20})
        return id

    def dead(self) -> int:
        id = self.ended("!fail permanent no")
        return int(next(row["id"] for row in self.api.get("/api/queue/dead").json() if row["data"]["messageId"] == id))

    def held(self) -> str:
        return self.sent(notBefore=FAR)

    def running(self) -> int:
        id = self.sent("!hang", agent=self.agent())
        self.office.until(lambda reader: reader.message(id)["status"] == "processing" or None)
        rows = self.api.get("/api/queue/processing").json()
        return int(next(row["id"] for row in rows if row["messageId"] == id))

    def response(self) -> int:
        id = self.ended()
        return int(self.api.get(f"/api/message/{id}").json()["responses"][0]["id"])

    def question(self) -> str:
        self.sent('!tool ask_user_question {"question": "Tea?", "options": ["yes", "no"]}', agent=self.agent())
        return str(self.office.until(lambda reader: reader.questions())[-1]["questionId"])

    def session(self) -> str:
        self.ended()
        rows = self.api.get("/api/sessions", params={"agent": "assistant"}).json()
        return str(next(row["id"] for row in rows if row["status"] == "active"))


@dataclass(frozen=True, kw_only=True)
class Case:
    happy: Callable[[World], Answer]
    #: requests that are bad input, each with a word of the sentence
    bad: tuple[tuple[str, dict[str, Any], str], ...] = ()
    #: an address that names nothing
    unknown: str | None = None
    body: dict[str, Any] | None = None
    #: what the happy way is answered with
    status: int = 200


def get(path: str, **params: Any) -> Callable[[World], Answer]:
    return lambda world: world.api.get(path, params=params)


LIMITS = tuple(({"limit": value}, "limit") for value in (0, 1001, "x"))


def limits(path: str) -> tuple[tuple[str, dict[str, Any], str], ...]:
    return tuple((path, {"params": params}, word) for params, word in LIMITS)


CASES = {
    "POST /api/message": Case(
        happy=lambda w: w.api.post("/api/message", json={"message": "!say hello"}),
        bad=(
            ("/api/message", {"json": {}}, "message"),
            ("/api/message", {"json": {"message": ""}}, "message"),
            ("/api/message", {"json": {"message": " \n"}}, "message"),
            ("/api/message", {"json": {"message": 7}}, "message"),
            ("/api/message", {"json": {"message": "a", "colour": "red"}}, "colour"),
            ("/api/message", {"json": {"message": "a", "priority": 101}}, "priority"),
            ("/api/message", {"json": {"message": "a", "priority": "5"}}, "priority"),
            ("/api/message", {"json": {"message": "a", "messageId": "../x"}}, "messageId"),
            ("/api/message", {"json": {"message": "a", "channel": "console"}}, "console"),
            ("/api/message", {"json": {"message": "a\x00b"}}, "message"),
            ("/api/message", {"json": []}, "body"),
            ("/api/message", {"json": {"message": "a", "files": ["words.txt"]}}, "files"),
            ("/api/message", {"json": {"message": "a", "files": ["/no/such/file"]}}, "/no/such/file"),
            ("/api/message", {"json": {"message": "a", "files": ["/"]}}, "regular file"),
        ),
    ),
    "GET /api/message/{id}": Case(
        happy=lambda w: w.api.get(f"/api/message/{w.ended()}"),
        bad=(
            ("/api/message/x", {"params": {"wait": 61}}, "wait"),
            ("/api/message/x", {"params": {"wait": "long"}}, "wait"),
        ),
        unknown="/api/message/nobody_00000000",
    ),
    "POST /api/message/{id}/cancel": Case(
        happy=lambda w: w.api.post(f"/api/message/{w.held()}/cancel", json={}),
        bad=(("/api/message/x/cancel", {"json": {"a": 1}}, "'a'"),),
        unknown="/api/message/nobody_00000000/cancel",
    ),
    "POST /api/message/{id}/forget": Case(
        happy=lambda w: w.api.post(f"/api/message/{_acked(w)}/forget", json={}),
        bad=(("/api/message/x/forget", {"json": {"trace": "yes"}}, "trace"),),
        unknown="/api/message/nobody_00000000/forget",
    ),
    "GET /api/queue/status": Case(happy=get("/api/queue/status")),
    "GET /api/queue/agents": Case(happy=get("/api/queue/agents")),
    "GET /api/queue/messages": Case(
        happy=get("/api/queue/messages", status="dead", agent="assistant"),
        bad=(*limits("/api/queue/messages"), ("/api/queue/messages", {"params": {"status": "odd"}}, "status")),
    ),
    "POST /api/queue/cancel": Case(
        happy=lambda w: w.api.post("/api/queue/cancel", json={"agent": w.agent()}),
        bad=(
            ("/api/queue/cancel", {"json": {}}, "agent"),
            ("/api/queue/cancel", {"json": {"agent": "nobody"}}, "nobody"),
        ),
    ),
    "POST /api/queue/prune": Case(
        happy=lambda w: w.api.post("/api/queue/prune", json={}),
        bad=(("/api/queue/prune", {"json": {"a": 1}}, "'a'"),),
    ),
    "GET /api/queue/processing": Case(happy=get("/api/queue/processing"), bad=limits("/api/queue/processing")),
    "POST /api/queue/processing/{id}/kill": Case(
        happy=lambda w: w.api.post(f"/api/queue/processing/{w.running()}/kill", json={}),
        bad=(("/api/queue/processing/1/kill", {"json": [1]}, "body"),),
        unknown="/api/queue/processing/999999/kill",
    ),
    "GET /api/queue/held": Case(happy=get("/api/queue/held"), bad=limits("/api/queue/held")),
    "POST /api/queue/held/{id}/release": Case(
        happy=lambda w: w.api.post(f"/api/queue/held/{w.held()}/release", json={}),
        bad=(("/api/queue/held/1/release", {"json": {"a": 1}}, "'a'"),),
        unknown="/api/queue/held/999999/release",
    ),
    "DELETE /api/queue/held/{id}": Case(
        happy=lambda w: w.api.delete(f"/api/queue/held/{w.held()}"),
        bad=(("/api/queue/held/%20", {}, "id"),),
        unknown="/api/queue/held/999999",
    ),
    "GET /api/queue/dead": Case(
        happy=lambda w: (w.dead(), w.api.get("/api/queue/dead", params={"agent": "assistant"}))[1],
        bad=(*limits("/api/queue/dead"), ("/api/queue/dead", {"params": {"agent": "../x"}}, "agent")),
    ),
    "POST /api/queue/dead/{id}/retry": Case(
        happy=lambda w: w.api.post(f"/api/queue/dead/{w.dead()}/retry", json={"message": "!say better"}),
        bad=(("/api/queue/dead/1/retry", {"json": {"message": ""}}, "message"),),
        unknown="/api/queue/dead/999999/retry",
    ),
    "DELETE /api/queue/dead/{id}": Case(
        happy=lambda w: w.api.delete(f"/api/queue/dead/{w.dead()}"), unknown="/api/queue/dead/999999"
    ),
    "GET /api/responses": Case(
        happy=get("/api/responses", channel="pigeon", status="dead"),
        bad=(*limits("/api/responses"), ("/api/responses", {"params": {"status": "odd"}}, "status")),
    ),
    "GET /api/responses/{id}": Case(
        happy=lambda w: w.api.get(f"/api/responses/{w.response()}"),
        bad=((f"/api/responses/{10**30}", {}, "id"),),
        unknown="/api/responses/999999",
    ),
    "GET /api/responses/pending": Case(
        happy=get("/api/responses/pending", channel="api"),
        bad=(
            ("/api/responses/pending", {}, "channel"),
            ("/api/responses/pending", {"params": {"channel": "api", "limit": 0}}, "limit"),
        ),
    ),
    "POST /api/responses": Case(
        happy=lambda w: w.api.post("/api/responses", json={"channel": "pigeon", "sender": "ada", "message": "look"}),
        bad=(
            ("/api/responses", {"json": {"channel": "pigeon", "sender": "ada"}}, "message"),
            ("/api/responses", {"json": {"channel": "../x", "sender": "ada", "message": "a"}}, "channel"),
            (
                "/api/responses",
                {"json": {"channel": "pigeon", "sender": "ada", "message": "a", "agent": "nobody"}},
                "nobody",
            ),
        ),
    ),
    "POST /api/responses/{id}/ack": Case(
        happy=lambda w: w.api.post(f"/api/responses/{w.response()}/ack", json={}),
        bad=(("/api/responses/1/ack", {"json": {"a": 1}}, "'a'"),),
        unknown="/api/responses/999999/ack",
    ),
    "POST /api/responses/{id}/resend": Case(
        happy=lambda w: w.api.post(f"/api/responses/{w.dead_response}/resend", json={}),
        bad=(("/api/responses/1/resend", {"json": [1]}, "body"),),
        unknown="/api/responses/999999/resend",
    ),
    "DELETE /api/responses/{id}": Case(
        happy=lambda w: w.api.delete(f"/api/responses/{w.response()}"),
        bad=((f"/api/responses/{10**30}", {}, "id"),),
        unknown="/api/responses/999999",
    ),
    "GET /api/agents": Case(happy=get("/api/agents")),
    "GET /api/agents/{id}": Case(
        happy=get("/api/agents/assistant"), bad=(("/api/agents/A", {}, "id"),), unknown="/api/agents/nobody"
    ),
    "PUT /api/agents/{id}": Case(
        happy=lambda w: w.api.put(f"/api/agents/{w.agent()}", json={**AGENT, "concurrency": 2, "system_prompt": "Hi."}),
        bad=(
            ("/api/agents/amy", {"json": {"name": "Amy"}}, "provider"),
            ("/api/agents/amy", {"json": {**AGENT, "provider": "nothing"}}, "nothing"),
            ("/api/agents/amy", {"json": {**AGENT, "concurrency": 0}}, "concurrency"),
            ("/api/agents/amy", {"json": {**AGENT, "workspace": "/etc"}}, "workspace"),
            ("/api/agents/amy", {"json": {**AGENT, "id": "ben"}}, "'id'"),
            ("/api/agents/amy", {"json": {**AGENT, "reaches": ["nobody"]}}, "nobody"),
            ("/api/agents/amy", {"json": {**AGENT, "budget": {"usd": -1}}}, "usd"),
            ("/api/agents/amy", {"json": {**AGENT, "budget": {"usd": 1e-7}}}, "0.000001"),
            ("/api/agents/..%2f..%2fetc", {"json": AGENT}, ""),
            ("/api/agents/system", {"json": AGENT}, "system"),
        ),
    ),
    "DELETE /api/agents/{id}": Case(
        happy=lambda w: w.api.delete(f"/api/agents/{w.agent()}"),
        bad=(("/api/agents/A", {}, "id"),),
        unknown="/api/agents/nobody",
    ),
    "POST /api/agents/{id}/pause": Case(
        happy=lambda w: w.api.post(f"/api/agents/{w.agent()}/pause", json={}),
        bad=(("/api/agents/assistant/pause", {"json": {"a": 1}}, "'a'"),),
        unknown="/api/agents/nobody/pause",
    ),
    "POST /api/agents/{id}/resume": Case(
        happy=lambda w: w.api.post(f"/api/agents/{w.agent()}/resume", json={}),
        bad=(("/api/agents/assistant/resume", {"json": {"a": 1}}, "'a'"),),
        unknown="/api/agents/nobody/resume",
    ),
    "POST /api/agents/{id}/reset": Case(
        happy=lambda w: w.api.post(f"/api/agents/{w.agent()}/reset", json={}),
        bad=(("/api/agents/assistant/reset", {"json": {"a": 1}}, "'a'"),),
        unknown="/api/agents/nobody/reset",
    ),
    "GET /api/agents/{id}/messages": Case(
        happy=get("/api/agents/assistant/messages", since_id=0),
        bad=limits("/api/agents/assistant/messages"),
        unknown="/api/agents/nobody/messages",
    ),
    "GET /api/agents/{id}/system-prompt": Case(
        happy=get("/api/agents/assistant/system-prompt"),
        bad=(("/api/agents/A/system-prompt", {}, "id"),),
        unknown="/api/agents/nobody/system-prompt",
    ),
    "PUT /api/agents/{id}/system-prompt": Case(
        happy=lambda w: w.api.put(f"/api/agents/{w.agent()}/system-prompt", json={"content": "Be brief."}),
        bad=(("/api/agents/assistant/system-prompt", {"json": {"content": 7}}, "content"),),
        unknown="/api/agents/nobody/system-prompt",
        body={"content": "Be brief."},
    ),
    "GET /api/agents/{id}/heartbeat": Case(
        happy=get("/api/agents/assistant/heartbeat"),
        bad=(("/api/agents/A/heartbeat", {}, "id"),),
        unknown="/api/agents/nobody/heartbeat",
    ),
    "PUT /api/agents/{id}/heartbeat": Case(
        happy=lambda w: w.api.put(f"/api/agents/{w.agent()}/heartbeat", json={"content": "Look at the mail."}),
        bad=(("/api/agents/assistant/heartbeat", {"json": {"content": 7}}, "content"),),
        unknown="/api/agents/nobody/heartbeat",
        body={"content": "Look at the mail."},
    ),
    "GET /api/agents/{id}/memory": Case(
        happy=get("/api/agents/assistant/memory"),
        bad=(("/api/agents/A/memory", {}, "id"),),
        unknown="/api/agents/nobody/memory",
    ),
    "GET /api/agents/{id}/skills": Case(
        happy=get("/api/agents/assistant/skills"),
        bad=(("/api/agents/A/skills", {}, "id"),),
        unknown="/api/agents/nobody/skills",
    ),
    "POST /api/pause": Case(
        happy=lambda w: (w.api.post("/api/pause", json={}), w.api.post("/api/resume", json={}))[0],
        bad=(("/api/pause", {"json": {"a": 1}}, "'a'"),),
    ),
    "POST /api/resume": Case(
        happy=lambda w: w.api.post("/api/resume", json={}), bad=(("/api/resume", {"json": {"a": 1}}, "'a'"),)
    ),
    "GET /api/teams": Case(happy=lambda w: (w.team(), w.api.get("/api/teams"))[1]),
    "GET /api/teams/{id}": Case(
        happy=lambda w: w.api.get(f"/api/teams/{w.team()}"),
        bad=(("/api/teams/A", {}, "id"),),
        unknown="/api/teams/nobody",
    ),
    "PUT /api/teams/{id}": Case(
        happy=lambda w: w.api.put(f"/api/teams/{w.team()}", json={**TEAM, "name": "Other"}),
        bad=(
            ("/api/teams/web", {"json": {"name": "Web"}}, "agents"),
            ("/api/teams/web", {"json": {**TEAM, "agents": ["nobody"]}}, "nobody"),
            ("/api/teams/web", {"json": {**TEAM, "leader_agent": "nobody"}}, "nobody"),
            ("/api/teams/assistant", {"json": TEAM}, "taken"),
        ),
    ),
    "DELETE /api/teams/{id}": Case(
        happy=lambda w: w.api.delete(f"/api/teams/{w.team()}"),
        bad=(("/api/teams/A", {}, "id"),),
        unknown="/api/teams/nobody",
    ),
    "GET /api/chatroom/{team}": Case(
        happy=lambda w: w.api.get(f"/api/chatroom/{w.team()}", params={"since": 0}),
        bad=limits("/api/chatroom/web"),
        unknown="/api/chatroom/nobody",
    ),
    "POST /api/chatroom/{team}": Case(
        happy=lambda w: w.api.post(f"/api/chatroom/{w.team()}", json={"message": "!say hello"}),
        bad=(("/api/chatroom/web", {"json": {}}, "message"),),
        unknown="/api/chatroom/nobody",
        body={"message": "hello"},
    ),
    "GET /api/events": Case(
        happy=get("/api/events", after=0, types="agent_added"),
        bad=(*limits("/api/events"), ("/api/events", {"params": {"types": "nothing"}}, "nothing")),
    ),
    "GET /api/events/stream": Case(
        happy=lambda w: _head_of_stream(w),
        bad=(
            ("/api/events/stream", {"params": {"after": -1}}, "after"),
            ("/api/events/stream", {"params": {"types": "nothing"}}, "nothing"),
            ("/api/events/stream", {"headers": {"Last-Event-ID": "x"}}, "Last-Event-ID"),
        ),
    ),
    "GET /api/traces/{id}": Case(
        happy=lambda w: w.api.get(f"/api/traces/{w.ended()}"),
        bad=(("/api/traces/%20", {}, "id"),),
        unknown="/api/traces/trace_00000000",
    ),
    "GET /api/sessions": Case(happy=get("/api/sessions", agent="assistant"), bad=limits("/api/sessions")),
    "GET /api/sessions/{id}": Case(
        happy=lambda w: w.api.get(f"/api/sessions/{w.session()}"),
        bad=(("/api/sessions/%20", {}, "id"),),
        unknown="/api/sessions/session_00000000",
    ),
    "POST /api/sessions/{id}/reset": Case(
        happy=lambda w: w.api.post(f"/api/sessions/{w.session()}/reset", json={}),
        bad=(("/api/sessions/x/reset", {"json": {"a": 1}}, "'a'"),),
        unknown="/api/sessions/session_00000000/reset",
    ),
    "GET /api/usage": Case(
        happy=get("/api/usage", by="day", since="2026-01-31"),
        bad=(
            ("/api/usage", {"params": {"by": "colour"}}, "by"),
            ("/api/usage", {"params": {"since": "yesterday"}}, "since"),
        ),
    ),
    "GET /api/questions": Case(happy=get("/api/questions"), bad=limits("/api/questions")),
    "POST /api/questions/{id}": Case(
        happy=lambda w: w.api.post(f"/api/questions/{w.question()}", json={"option": "yes"}),
        bad=(("/api/questions/x", {"json": {}}, "option"),),
        unknown="/api/questions/question_00000000",
        body={"option": "yes"},
    ),
    "GET /api/status": Case(happy=get("/api/status")),
    "GET /api/logs": Case(
        happy=get("/api/logs", of="assistant", limit=10),
        bad=(
            *limits("/api/logs"),
            ("/api/logs", {"params": {"of": "nothing-like-it"}}, "nothing-like-it"),
            ("/api/logs", {"params": {"of": "../host"}}, "of"),
        ),
    ),
    "GET /api/runs/{id}/export": Case(
        happy=lambda w: w.api.get(f"/api/runs/{w.ended()}/export"),
        bad=(("/api/runs/%20/export", {}, "id"),),
        unknown="/api/runs/run_00000000/export",
    ),
    "GET /api/doctor": Case(happy=get("/api/doctor")),
    "GET /api/hooks": Case(happy=get("/api/hooks")),
    "GET /api/settings": Case(happy=get("/api/settings")),
    "PUT /api/settings": Case(
        happy=lambda w: w.api.put("/api/settings", json={"retry": {"max_attempts": 4}}),
        bad=(
            ("/api/settings", {"json": {"retry": {"max_attempts": 0}}}, "max_attempts"),
            ("/api/settings", {"json": {"retry": {"colour": 0}}}, "colour"),
            ("/api/settings", {"json": {"colours": {}}}, "colours"),
            ("/api/settings", {"json": {"office": {"default_agent": "../x"}}}, "default_agent"),
            ("/api/settings", {"json": {"providers": {"nothing": {"a": 1}}}}, "nothing"),
            ("/api/settings", {"json": {"secrets": {"A-B": "x"}}}, "secrets"),
        ),
    ),
    "GET /api/insights/{table}": Case(
        happy=get("/api/insights/slo"),
        status=404,  # this office has no pipeline; with one: tests/pipeline/test_insights_route.py
        bad=(
            ("/api/insights/agent_daily", {"params": {"from": "x"}}, "from"),
            ("/api/insights/agent_daily", {"params": {"limit": 0}}, "limit"),
            ("/api/insights/nothing", {}, "table"),
        ),
    ),
}


def _acked(world: World) -> str:
    id = world.ended()
    for answer in world.api.get(f"/api/message/{id}").json()["responses"]:
        world.api.post(f"/api/responses/{answer['id']}/ack", json={})
    return id


def _head_of_stream(world: World) -> Answer:
    with world.api.stream("GET", "/api/events/stream") as answer:
        return answer


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="md-") as folder:
        home = Path(folder) / "home"
        Home(home).prepare()
        number = asyncio.run(_with_a_dead_response(home))
        office = ServedOffice(home)
        office.start()
        try:
            with office.caller() as api:
                yield World(office, api, number)
        finally:
            office.kill()


async def _with_a_dead_response(home: Path) -> int:
    store = Store(home / "office.db", durability="crash")
    try:
        said = await store.say(channel="pigeon", platform_id="ada", sender="ada", sender_id="", text="look")
        (parcel,) = await store.claim_parcels(["pigeon"], most=1)
        await store.settle(parcel, Delivery(dead=True, reason="the pigeon is ill"))
        return int(said["id"])
    finally:
        store.close()


def routes_of(api: httpx.Client) -> list[tuple[str, str]]:
    paths = api.get("/api/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, operations in paths.items() for method in operations]


def test_no_route_is_without_its_case(world: World) -> None:
    assert sorted(f"{method} {path}" for method, path in routes_of(world.api)) == sorted(CASES)


@pytest.mark.parametrize("route", CASES)
def test_the_happy_way(world: World, route: str) -> None:
    answer = CASES[route].happy(world)
    assert answer.status_code == CASES[route].status, "" if route.endswith("stream") else answer.text
    if not route.endswith("stream"):
        assert answer.headers["content-type"] == "application/json"
        answer.json()


@pytest.mark.parametrize("route", [route for route, case in CASES.items() if case.bad])
def test_bad_input_is_400_with_a_sentence(world: World, route: str, subtests: pytest.Subtests) -> None:
    method = route.split(" ")[0]
    for path, request, word in CASES[route].bad:
        with subtests.test(path=path, request=str(request)):
            answer = world.api.request(method, path, **request)
            if not word:
                assert answer.status_code in (400, 404)
                continue
            assert answer.status_code == 400, answer.text
            sentence = answer.json()["error"]
            assert word in sentence
            assert sentence.endswith(".")
            assert "\n" not in sentence


@pytest.mark.parametrize("route", [route for route, case in CASES.items() if case.unknown])
def test_an_unknown_id_is_404(world: World, route: str) -> None:
    method, case = route.split(" ")[0], CASES[route]
    assert case.unknown is not None
    body = {"json": case.body or {}} if method in ("POST", "PUT") else {}
    answer = world.api.request(method, case.unknown, **body)
    assert answer.status_code == 404, answer.text
    assert answer.json()["error"].startswith("There is no")


def test_what_is_no_json_is_refused_as_the_document_says(world: World, subtests: pytest.Subtests) -> None:
    paths = world.api.get("/api/openapi.json").json()["paths"]
    for method, path in routes_of(world.api):
        if method == "GET":
            continue
        with subtests.test(f"{method} {path}"):
            address, form = re.sub(r"\{\w+\}", "1", path), {"Content-Type": "text/plain"}
            answer = world.api.request(method, address, content=b"{}", headers=form)
            assert (answer.status_code, "415" in paths[path][method.lower()]["responses"]) == (415, True)


def test_no_route_says_404_that_names_nothing(world: World) -> None:
    paths = world.api.get("/api/openapi.json").json()["paths"]
    said = {
        path
        for path, operations in paths.items()
        for operation in operations.values()
        if "404" in operation["responses"]
    }
    assert {path for path in said if "{" not in path} == set()


def test_without_a_login_and_with_a_wrong_one_nothing_is_answered(world: World, subtests: pytest.Subtests) -> None:
    before = world.api.get("/api/events", params={"limit": 1}).json()["head"]
    for number, (method, path) in enumerate(routes_of(world.api)):
        address = re.sub(r"\{\w+\}", "1", path)
        with subtests.test(f"{method} {path}"):
            # from an address of its own: wrong logins of one address are slowed
            mine = httpx.HTTPTransport(local_address=f"127.0.1.{number + 1}")
            with world.office.caller(token="x" * 43, transport=mine) as stranger:
                body = {"json": {}} if method in ("POST", "PUT") else {}
                wrong = stranger.request(method, address, **body)
                none = stranger.request(method, address, headers={"Authorization": ""}, **body)
                del stranger.headers["Authorization"]
                missing = stranger.request(method, address, **body)
            for answer in (wrong, none, missing):
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
                assert set(answer.json()) == {"error"}
    assert world.api.get("/api/events", params={"limit": 1}).json()["head"] == before


def test_a_method_that_a_route_does_not_have_is_405(world: World) -> None:
    answer = world.api.patch("/api/agents", json={})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert world.api.post("/api/agents/assistant", json={}).headers["allow"] == "DELETE, GET, PUT"
    assert world.api.post("/api/docs", json={}).headers["allow"] == "GET"
    assert answer.json()["error"]
