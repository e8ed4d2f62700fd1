"""Messages over HTTP: stored when the office says so, answered, found again."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from manydesks.testing.api import ServedOffice


def send(api: httpx.Client, text: str, **more: Any) -> dict[str, Any]:
    answer = api.post("/api/message", json={"message": text, **more})
    assert answer.status_code == 200, answer.text
    value: dict[str, Any] = answer.json()
    return value


def ended(api: httpx.Client, id: str) -> dict[str, Any]:
    value: dict[str, Any] = api.get(f"/api/message/{id}", params={"wait": 20}).json()
    return value


def test_a_message_is_stored_and_answered(api: httpx.Client) -> None:
    sent = send(api, "!say hello", sender="bob", senderId="bob-1")
    assert sent["messages"] == [{"messageId": sent["messageId"], "agent": "assistant", "status": "pending"}]
    found = ended(api, sent["messageId"])
    assert (found["status"], found["attempts"], found["agent"]) == ("completed", 1, "assistant")
    assert (found["sender"], found["senderId"], found["channel"]) == ("bob", "bob-1", "api")
    assert [(answer["message"], answer["agent"]) for answer in found["responses"]] == [("hello", "assistant")]


def test_an_answer_is_fetched_and_acknowledged_once(api: httpx.Client) -> None:
    sent = send(api, "!say for pigeons", channel="pigeon", senderId="loft")
    ended(api, sent["messageId"])
    (waiting,) = api.get("/api/responses/pending", params={"channel": "pigeon"}).json()
    assert (waiting["message"], waiting["originalMessage"]) == ("for pigeons", "!say for pigeons")
    assert api.post(f"/api/responses/{waiting['id']}/ack", json={}).json() == {"ok": True}
    assert api.get("/api/responses/pending", params={"channel": "pigeon"}).json() == []


def test_ten_who_hand_in_the_same_id_store_it_once(served: ServedOffice) -> None:
    def post(_: int) -> httpx.Response:
        with served.caller() as mine:
            return mine.post("/api/message", json={"message": "!say once", "messageId": "same-for-all"})

    with ThreadPoolExecutor(10) as together:
        answers = list(together.map(post, range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    refused = next(answer.json() for answer in answers if answer.status_code == 409)
    assert refused["messageId"] == "same-for-all"
    assert "accepted before" in refused["error"]


def test_an_unknown_agent_in_the_body_is_bad_input_and_one_in_the_text_a_notice(api: httpx.Client) -> None:
    refused = api.post("/api/message", json={"message": "hello", "agent": "asistant"})
    assert refused.status_code == 400
    assert "did you mean 'assistant'" in refused.json()["error"]
    sent = send(api, "!say ok\n[@asistant: hello]")
    assert any("assistant" in notice for notice in sent["notices"])


def test_a_message_that_is_too_long_is_413(api: httpx.Client) -> None:
    refused = api.post("/api/message", json={"message": "ä" * 200_000})
    assert refused.status_code == 413
    assert "limits.message_bytes" in refused.json()["error"]


def test_a_long_poll_returns_when_the_message_ends_and_not_before(api: httpx.Client) -> None:
    sent = send(api, "!sleep 0.5\n!say slept")
    began = time.monotonic()
    early = api.get(f"/api/message/{sent['messageId']}", params={"wait": 0.05}).json()
    assert early["status"] in ("pending", "processing")
    found = ended(api, sent["messageId"])
    assert found["responses"][0]["message"] == "slept"
    assert 0.3 < time.monotonic() - began < 10


def test_a_file_goes_along(api: httpx.Client) -> None:
    content = base64.b64encode(b"some words").decode()
    sent = send(api, "look at this", files=[{"name": "words.txt", "content": content}])
    (file,) = ended(api, sent["messageId"])["files"]
    assert (file["name"], file["bytes"]) == ("words.txt", 10)
    for bad in ({"name": "words.txt", "content": "???"}, {"name": "../words.txt", "content": content}):
        assert api.post("/api/message", json={"message": "look", "files": [bad]}).status_code == 400


def test_a_message_for_later_waits_for_its_moment(api: httpx.Client) -> None:
    moment = int(time.time() * 1000) + 700
    sent = send(api, "!say later", notBefore=moment)
    assert sent["messages"][0]["status"] == "held"
    held = {row["messageId"]: row for row in api.get("/api/queue/held").json()}
    assert (held[sent["messageId"]]["reason"], held[sent["messageId"]]["until"]) == ("delay", moment)
    found = ended(api, sent["messageId"])
    assert found["responses"][0]["message"] == "later"
    assert found["responses"][0]["createdAt"] >= moment - 50
    assert found["holdReason"] is None


def test_what_is_cancelled_does_not_go_on(api: httpx.Client) -> None:
    sent = send(api, "!hang")
    assert api.post(f"/api/message/{sent['messageId']}/cancel", json={}).json() == {"ok": True}
    assert ended(api, sent["messageId"])["status"] == "cancelled"


def test_what_is_forgotten_is_gone(api: httpx.Client) -> None:
    sent = send(api, "!say a word that is soon forgotten")
    (answer,) = ended(api, sent["messageId"])["responses"]
    # an answer that is on its way still needs its words
    assert api.post(f"/api/message/{sent['messageId']}/forget", json={}).status_code == 409
    api.post(f"/api/responses/{answer['id']}/ack", json={})
    assert api.post(f"/api/message/{sent['messageId']}/forget", json={}).json()["messages"] == [sent["messageId"]]
    assert api.get(f"/api/message/{sent['messageId']}").json()["message"] == "(forgotten)"
