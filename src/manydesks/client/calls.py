"""What is asked of the office and what its answers mean, for both clients; nothing here waits for anything."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from manydesks.client.failure import no_office
from manydesks.client.values import Sent
from manydesks.domain.errors import ApiRefused, BadInput, Duplicate, LedgerPruned, OfficeError
from manydesks.domain.ids import new_id

#: of one request
TIMEOUT_SECONDS = 30.0
#: a long poll; the office waits 60 s at most
POLL_SECONDS = 50.0
#: no byte for so long, and the connection is taken for dead: the office says something every 15 s
SILENCE_SECONDS = 40.0
#: how long to wait before a connection is tried again
AGAIN_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
ENDED = frozenset({"completed", "dead", "cancelled"})

#: folders whose files are what the system shows of each process, and not the same to another one
NO_FILES = frozenset({"proc", "sys", "dev"})


@dataclass(frozen=True, kw_only=True)
class Call:
    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    seconds: float = TIMEOUT_SECONDS


def sending(
    message: str,
    *,
    agent: str | None = None,
    sender: str | None = None,
    sender_id: str | None = None,
    channel: str | None = None,
    message_id: str | None = None,
    priority: int = 0,
    not_before: int | None = None,
    files: Iterable[str | Path] = (),
    home: Path | None = None,
) -> Call:
    """With an id from the beginning: asked again after a lost connection, it is stored once all the same.

    `home`: that of an office on this machine, which takes files by their paths.
    """
    body: dict[str, Any] = {"message": message, "messageId": message_id or new_id("api")}
    given = {"agent": agent, "sender": sender, "senderId": sender_id, "channel": channel, "notBefore": not_before}
    body |= {name: value for name, value in given.items() if value is not None}
    if priority:
        body["priority"] = priority
    if attached := [_file(Path(file), home) for file in files]:
        body["files"] = attached
    return Call(method="POST", path="/api/message", body=body)


def id_of(sending: Call) -> str:
    return str((sending.body or {})["messageId"])


def message(id: str, wait: float = 0) -> Call:
    params = {"wait": wait} if wait else {}
    return Call(method="GET", path=f"/api/message/{quoted(id)}", params=params, seconds=TIMEOUT_SECONDS + wait)


def trace(id: str) -> Call:
    return Call(method="GET", path=f"/api/traces/{quoted(id)}")


def pending(channel: str, after: int, limit: int) -> Call:
    params = {"channel": channel, "after": after, "limit": limit}
    return Call(method="GET", path="/api/responses/pending", params=params)


def acknowledge(id: int) -> Call:
    return Call(method="POST", path=f"/api/responses/{quoted(id)}/ack")


def dead(agent: str | None, after: int, limit: int) -> Call:
    params = {"after": after, "limit": limit} | ({"agent": agent} if agent is not None else {})
    return Call(method="GET", path="/api/queue/dead", params=params)


def retry(id: int | str, text: str | None) -> Call:
    body = {} if text is None else {"message": text}
    return Call(method="POST", path=f"/api/queue/dead/{quoted(id)}/retry", body=body)


def drop(id: int | str) -> Call:
    return Call(method="DELETE", path=f"/api/queue/dead/{quoted(id)}")


def following(types: Sequence[str] | None, agent: str | None, trace: str | None) -> Call:
    if types is not None and (isinstance(types, str) or not types):
        raise BadInput("`types` is a list of one or more kinds of events; without it all are followed.")
    given = {"types": ",".join(types) if types is not None else None, "agent": agent, "trace": trace}
    params = {name: value for name, value in given.items() if value is not None}
    return Call(method="GET", path="/api/events/stream", params=params, seconds=SILENCE_SECONDS)


def quoted(id: object) -> str:
    return quote(str(id), safe="")


def sent(url: str, answer: Any) -> Sent:
    try:
        return Sent(
            message_id=answer["messageId"],
            trace_id=answer["traceId"],
            messages=tuple(answer["messages"]),
            notices=tuple(answer["notices"]),
        )
    except (KeyError, TypeError):
        raise no_office(url, "it answers to a message what no office does") from None


def found(url: str, answer: Any) -> dict[str, Any]:
    """An object, as most routes answer."""
    if not isinstance(answer, dict):
        raise no_office(url, "it answers what no office does")
    return answer


def waited(url: str, answer: Any) -> dict[str, Any]:
    """A message, which stands somehow."""
    message = found(url, answer)
    if "status" not in message:
        raise no_office(url, "it answers what no office does")
    return message


def sent_before(id: str, trace: Mapping[str, Any]) -> Sent:
    """A message whose answer was lost, as the office shows it now."""
    rows = [
        {"messageId": span["messageId"], "agent": span["agent"], "status": span["status"]}
        for span in _messages(trace)
        if span["parent"] is None
    ]
    return Sent(message_id=id, trace_id=trace["traceId"], messages=tuple(rows))


def ids_of(trace: Mapping[str, Any]) -> list[str]:
    """The messages that followed from one arrival, hand-offs among them, in their order."""
    return [span["messageId"] for span in _messages(trace)]


def _messages(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [span for span in trace["spans"] if span["kind"] == "message"]


def check_answered(message: Mapping[str, Any]) -> None:
    """Raises `OfficeError` if it is not, and will not be or was not in time."""
    if message["status"] != "completed":
        why = message.get("lastError") or message.get("holdReason") or "it was not answered in time"
        raise OfficeError(f"The message '{message['messageId']}' is {message['status']}: {str(why).rstrip('.')}.")


def answers_of(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The answers to all of them, in the messages' order; one to several of them is there once."""
    return list({answer["id"]: answer for message in messages for answer in message["responses"]}.values())


def text_of(sent: Sent, answers: Iterable[Mapping[str, Any]]) -> str:
    """What was answered; to what was for nobody but the office, its own words."""
    return "\n\n".join([answer["message"] for answer in answers] if sent.messages else sent.notices)


def is_settled(refused: ApiRefused) -> bool:
    """Whether an answer that cannot be acknowledged waits for nobody any more: withdrawn, or gone."""
    return refused.status in (404, 409)


def value_of(url: str, response: httpx.Response) -> Any:
    """What the office answered, or its refusal, raised. Every route answers JSON; who does not is no office."""
    try:
        value = response.json()
    except ValueError as error:
        if response.is_success:
            raise no_office(url, f"its answer ({response.status_code}) is not JSON") from error
        value = None
    if response.is_success:
        return value
    said: Mapping[str, Any] = value if isinstance(value, dict) else {}
    sentence = str(said.get("error") or f"The office answered {response.status_code}.")
    if response.status_code == 409 and said.get("messageId"):
        raise Duplicate(sentence, message=said["messageId"])
    if response.status_code == 410:
        raise LedgerPruned(sentence, first=said.get("firstSeq"))
    raise ApiRefused(sentence, status=response.status_code)


def _file(path: Path, home: Path | None) -> str | dict[str, str]:
    """Where it is, for an office that looks there itself and takes more than a request holds; else what is in it."""
    real = path.resolve(strict=True)
    # what only this process sees, such as a pipe, is nothing to the office; nor does it take what is its own by a path
    if home is not None and real.is_file() and real.parts[1] not in NO_FILES and not real.is_relative_to(home):
        return str(real)
    return {"name": path.name, "content": base64.b64encode(path.read_bytes()).decode()}
