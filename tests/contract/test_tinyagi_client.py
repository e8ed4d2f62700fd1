"""A client that was written for TinyAGI's REST API, with a token added and nothing else: its web office and its channel
programs, which fetch answers when an event says that there are some.

What it sends and reads is as such clients do it, without any help of ours: plain requests, `files` as paths, rows by
the names of columns, events by `type`.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest

from manydesks.testing.api import ServedOffice

#: with every request of the web office, also those without a body
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def office() -> Iterator[ServedOffice]:
    with tempfile.TemporaryDirectory(prefix="md-") as folder:
        served = ServedOffice(Path(folder) / "home", retry__base_seconds=0.02, retry__jitter=0)
        served.start()
        try:
            yield served
        finally:
            served.kill()


class WebOffice:
    """Its pages: `fetch` with the JSON content type on everything; an answer that is not ok is an error."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def fetch(self, path: str, method: str = "GET", body: Any = None) -> Any:
        content = json.dumps(body).encode() if body is not None else None
        answer = self._http.request(method, path, content=content, headers=JSON)
        assert answer.is_success, answer.json()["error"]
        return answer.json()

    def save_agent(self, id: str, **more: Any) -> Any:
        agent = {"name": id.title(), "provider": "rehearsal", "model": "m1", "working_directory": "", **more}
        return self.fetch(f"/api/agents/{id}", "PUT", agent)


@pytest.fixture(scope="module")
def web(office: ServedOffice) -> Iterator[WebOffice]:
    with office.caller() as http:
        yield WebOffice(http)


class Channel:
    """A program that brings a platform's messages in and answers out."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self._http = http
        self.name = name

    def bring(self, text: str, *, id: str, files: list[str] | None = None) -> None:
        body = {"channel": self.name, "sender": "Ada L", "senderId": "4711", "message": text, "messageId": id}
        if files:
            body["files"] = files  # type: ignore[assignment]
        self._http.post("/api/message", json=body).raise_for_status()

    def fetch(self) -> list[dict[str, Any]]:
        """Everything that waits; acknowledged, with a request that has neither a body nor a content type."""
        rows: list[dict[str, Any]] = self._http.get(f"/api/responses/pending?channel={self.name}").json()
        for row in rows:
            answer = self._http.post(f"/api/responses/{row['id']}/ack")
            assert answer.json() == {"ok": True}, answer.text
        return rows


@contextmanager
def listening(office: ServedOffice) -> Iterator[Queue[tuple[str, dict[str, Any]]]]:
    """`event:` and `data:` lines, as a program without an EventSource reads them."""
    heard: Queue[tuple[str, dict[str, Any]]] = Queue()
    connected = threading.Event()
    with office.caller() as http, http.stream("GET", "/api/events/stream") as response:

        def read() -> None:
            kind = ""
            connected.set()
            try:
                for line in response.iter_lines():
                    if line.startswith("event: "):
                        kind = line[7:]
                    elif line.startswith("data: "):
                        heard.put((kind, json.loads(line[6:])))
            except (httpx.HTTPError, httpx.StreamError):
                pass  # the test has heard enough

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        connected.wait(10)
        yield heard


def next_of(heard: Queue[tuple[str, dict[str, Any]]], kind: str) -> dict[str, Any]:
    while True:
        found, data = heard.get(timeout=20)
        if found == kind:
            return data


def test_a_channel_program_fetches_what_an_event_told_it_of(office: ServedOffice) -> None:
    with office.caller() as http, listening(office) as heard:
        channel = Channel(http, "carrier")
        channel.bring("!say for Ada", id="1700000000000_k3x9a")
        queued = next_of(heard, "message_enqueued")
        assert (queued["type"], queued["channel"], queued["sender"]) == ("message_enqueued", "carrier", "Ada L")
        assert queued["messageId"] == "1700000000000_k3x9a"
        assert isinstance(queued["timestamp"], int)
        step = next_of(heard, "chain_step_start")
        assert step["agentId"] == "assistant"
        ready = next_of(heard, "response_ready")
        assert (ready["channel"], ready["agentId"]) == ("carrier", "assistant")
        assert ready["messageId"] == "1700000000000_k3x9a"
        (row,) = channel.fetch()
    assert (row["message"], row["sender"], row["senderId"]) == ("for Ada", "Ada L", "4711")
    assert (row["messageId"], row["agent"], row["channel"]) == ("1700000000000_k3x9a", "assistant", "carrier")
    assert row["originalMessage"].startswith("!say for Ada")
    assert (row["files"], row["metadata"].get("parseMode")) == ([], None)
    with office.caller() as http:
        assert Channel(http, "carrier").fetch() == []


def test_files_go_in_and_come_out_as_paths(office: ServedOffice, tmp_path: Path) -> None:
    photo = tmp_path / "photo_7.jpg"
    photo.write_bytes(b"\xff\xd8 a photo")
    with office.caller() as http, listening(office) as heard:
        channel = Channel(http, "carrier")
        channel.bring(f"look\n\n[file: {photo}]", id="m-photo", files=[str(photo)])
        kept = http.get("/api/message/m-photo", params={"wait": 20}).json()["files"]
        assert [(file["name"], file["bytes"]) for file in kept] == [("photo_7.jpg", 10)]
        channel.fetch()
        # what a program sends to somebody by itself
        said = http.post(
            "/api/responses",
            json={
                "channel": "carrier",
                "sender": "Ada L",
                "senderId": "4711",
                "message": "look",
                "files": [str(photo)],
            },
        ).json()
        assert re.fullmatch(r"proactive_[a-z0-9]{8}", said["messageId"])
        while next_of(heard, "response_ready")["messageId"] != said["messageId"]:
            pass
        (row,) = channel.fetch()
    (path,) = row["files"]
    assert (Path(path).name, Path(path).read_bytes()) == ("photo_7.jpg", b"\xff\xd8 a photo")


def test_no_path_leads_to_what_the_office_keeps_for_itself(office: ServedOffice, tmp_path: Path) -> None:
    link = tmp_path / "words.txt"
    link.symlink_to(office.home.token_file)
    own = [str(office.home.token_file), str(link), f"{office.home.path}/files/../api.token", str(office.home.office_db)]
    with office.caller() as http:
        for path in own:
            refused = http.post("/api/message", json={"message": "look", "files": [path]})
            assert refused.status_code == 400
            assert "own folder" in refused.json()["error"]


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/1/../self/environ", "/dev/null", "/sys/kernel/notes"])
def test_what_only_looks_like_a_file_is_not_sent(office: ServedOffice, path: str) -> None:
    with office.caller() as http:
        refused = http.post("/api/message", json={"message": "look", "files": [path]})
    assert (refused.status_code, "cannot be sent" in refused.json()["error"]) == (400, True)


def test_paths_are_for_those_who_show_the_token(home: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("private")
    office = ServedOffice(home, api__auth="none")
    office.start()
    try:
        with httpx.Client(base_url=office.url(), trust_env=False) as anybody:
            refused = anybody.post("/api/message", json={"message": "look", "files": [str(words)]})
            assert refused.status_code == 400
            assert "Without a login" in refused.json()["error"]
            # and without a login, nothing is posted blindly
            assert anybody.post("/api/pause").status_code == 415
            assert anybody.post("/api/pause", headers={"Authorization": "Bearer x"}).status_code == 415
    finally:
        office.kill()


def test_agents_are_saved_listed_and_saved_again_as_they_were_read(web: WebOffice) -> None:
    saved = web.save_agent("coder", system_prompt="Write code.")
    assert saved["ok"] is True
    agent = web.fetch("/api/agents")["coder"]
    assert (agent["name"], agent["provider"], agent["model"]) == ("Coder", "rehearsal", "m1")
    assert Path(agent["working_directory"]).is_dir()
    assert saved["agent"] == agent
    # a form that was filled from what was read
    again = web.fetch("/api/agents/coder", "PUT", {**agent, "name": "Coder Two"})
    assert (again["ok"], again["agent"]["name"], again["notices"]) == (True, "Coder Two", [])
    assert web.fetch("/api/agents")["coder"]["model"] == "m1"
    assert web.fetch("/api/agents/coder/system-prompt")["content"].startswith("Write code.")
    # a folder of one's own choice is not had, and that is said
    (notice,) = web.save_agent("coder", working_directory="/srv/coder")["notices"]
    assert agent["working_directory"] in notice
    assert web.fetch("/api/agents/coder", "DELETE")["ok"] is True
    assert "coder" not in web.fetch("/api/agents")


def test_an_agent_s_workspace(web: WebOffice) -> None:
    web.save_agent("writer")
    folder = Path(web.fetch("/api/agents")["writer"]["working_directory"])
    (folder / "skills" / "haiku").mkdir(parents=True)
    (folder / "skills" / "haiku" / "SKILL.md").write_text("---\nname: haiku\ndescription: Seventeen syllables.\n---\n")
    (folder / "memory" / "rain.md").write_text("It rains.")
    (skill,) = (skill for skill in web.fetch("/api/agents/writer/skills") if skill["id"] == "haiku")
    assert (skill["name"], skill["description"]) == ("haiku", "Seventeen syllables.")
    memory = web.fetch("/api/agents/writer/memory")
    assert isinstance(memory["index"], str)
    assert {"name": "rain.md", "path": "rain.md"}.items() <= next(
        file for file in memory["files"] if file["name"] == "rain.md"
    ).items()
    assert memory["memoryDir"]
    for what in ("system-prompt", "heartbeat"):
        assert web.fetch(f"/api/agents/writer/{what}", "PUT", {"content": f"The {what}."})["ok"] is True
        shown = web.fetch(f"/api/agents/writer/{what}")
        assert shown["content"].startswith(f"The {what}.")
        assert shown["path"]


def test_what_was_said_has_the_names_of_its_columns(web: WebOffice) -> None:
    web.save_agent("teller")
    sent = web.fetch(
        "/api/message", "POST", {"message": "!say hello", "agent": "teller", "sender": "Web", "channel": "web"}
    )
    assert (sent["ok"], bool(sent["messageId"])) == (True, True)
    web.fetch(f"/api/message/{sent['messageId']}?wait=20")
    rows = web.fetch("/api/agents/teller/messages?limit=100&since_id=0")
    assert [(row["role"], row["content"]) for row in rows] == [("user", "!say hello"), ("assistant", "hello")]
    for row in rows:
        assert (row["agent_id"], row["message_id"], row["channel"]) == ("teller", sent["messageId"], "web")
        assert isinstance(row["created_at"], int)
        assert row["sender"]
    assert web.fetch(f"/api/agents/teller/messages?limit=100&since_id={rows[-1]['id']}") == []


def test_teams_and_their_rooms(web: WebOffice) -> None:
    for name in ("ann", "bob"):
        web.save_agent(name)
    team = {"name": "Web", "agents": ["ann", "bob"], "leader_agent": "ann"}
    assert team.items() <= web.fetch("/api/teams/web", "PUT", team)["team"].items()
    assert team.items() <= web.fetch("/api/teams")["web"].items()
    posted = web.fetch("/api/chatroom/web", "POST", {"message": "!say heard"})
    assert posted["ok"] is True
    (row,) = web.fetch("/api/chatroom/web?limit=100&since=0")
    assert (row["id"], row["team_id"], row["from_agent"], row["message"]) == (posted["id"], "web", "user", "!say heard")
    assert isinstance(row["created_at"], int)
    for name in ("since", "since_id"):
        assert web.fetch(f"/api/chatroom/web?limit=100&{name}={row['id']}") == []
    assert web.fetch("/api/teams/web", "DELETE")["ok"] is True


def test_a_dead_letter_is_listed_retried_and_deleted(office: ServedOffice, web: WebOffice) -> None:
    ids = [web.fetch("/api/message", "POST", {"message": "!fail permanent no"})["messageId"] for _ in range(2)]
    for id in ids:
        web.fetch(f"/api/message/{id}?wait=20")
    dead = {letter["data"]["messageId"]: letter for letter in web.fetch("/api/queue/dead")}
    letter = dead[ids[0]]
    assert {"channel": "api", "sender": "API", "message": "!fail permanent no", "agent": "assistant"}.items() <= letter[
        "data"
    ].items()
    assert isinstance(letter["id"], int)
    assert letter["failedReason"]
    assert letter["attemptsMade"] >= 1
    assert isinstance(letter["timestamp"], int)
    with office.caller() as http:
        # these, too, without a body and a content type
        assert http.post(f"/api/queue/dead/{letter['id']}/retry").json() == {"ok": True}
        assert http.delete(f"/api/queue/dead/{dead[ids[1]]['id']}").json() == {"ok": True}
        assert http.post("/api/queue/dead/999999/retry").status_code == 404
    assert web.fetch(f"/api/message/{ids[1]}")["status"] == "cancelled"


def test_the_queue_the_newest_answers_the_log_and_the_settings(web: WebOffice) -> None:
    status = web.fetch("/api/queue/status")
    assert all(isinstance(status[name], int) for name in ("incoming", "processing", "outgoing", "completed", "dead"))
    sent = web.fetch("/api/message", "POST", {"message": "!say newest"})["messageId"]
    web.fetch(f"/api/message/{sent}?wait=20")
    newest = web.fetch("/api/responses?limit=20")[0]
    assert (newest["message"], newest["messageId"], newest["files"]) == ("newest", sent, [])
    assert isinstance(newest["timestamp"], int)
    assert all(isinstance(line, str) for line in web.fetch("/api/logs?limit=100")["lines"])
    changed = web.fetch("/api/settings", "PUT", {"dispatch": {"batch": 9}})
    assert changed["ok"] is True
    assert changed["settings"] == web.fetch("/api/settings")
    assert changed["settings"]["dispatch"]["batch"] == 9


def test_an_id_that_is_known_is_409_with_the_id(office: ServedOffice) -> None:
    with office.caller() as http:
        body = {"message": "!say once", "messageId": "twice"}
        assert http.post("/api/message", json=body).json()["messageId"] == "twice"
        again = http.post("/api/message", json=body)
        assert (again.status_code, again.json()["messageId"]) == (409, "twice")
        assert http.post("/api/message", json={"message": ""}).status_code == 400
        assert http.get("/api/responses/pending").status_code == 400
