"""What is asked of the office and what its answers mean, for both clients; nothing here waits for anything."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from manydesks.client.values import Event, Sent
from manydesks.domain.errors import ApiRefused, Duplicate, LedgerPruned, OfficeError
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

#: no answer came: the office may or may not have done it
NO_ANSWER = (httpx.TransportError,)


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
    agent: str | None,
    sender: str | None,
    sender_id: str | None,
    channel: str | None,
    message_id: str | None,
    priority: int,
    not_before: int | None,
    files: Iterable[str | Path],
) -> Call:
    """With an id from the beginning: asked again after a lost connection, it is stored once all the same."""
    body: dict[str, Any] = {"message": message, "messageId": message_id or new_id("api")}
    given = {"agent": agent, "sender": sender, "senderId": sender_id, "channel": channel, "notBefore": not_before}
    body |= {name: value for name, value in given.items() if value is not None}
    if priority:
        body["priority"] = priority
    if attached := [_file(Path(file)) for file in files]:
        body["files"] = attached
    return Call(method="POST", path="/api/message", body=body)


def message(id: str, wait: float = 0) -> Call:
    params = {"wait": wait} if wait else {}
    return Call(method="GET", path=f"/api/message/{quoted(id)}", params=params, seconds=TIMEOUT_SECONDS + wait)


def dead(agent: str | None, after: int, limit: int) -> Call:
    params = {"after": after, "limit": limit} | ({"agent": agent} if agent is not None else {})
    return Call(method="GET", path="/api/queue/dead", params=params)


def retry(id: int | str, text: str | None) -> Call:
    body = {} if text is None else {"message": text}
    return Call(method="POST", path=f"/api/queue/dead/{quoted(id)}/retry", body=body)


def drop(id: int | str) -> Call:
    return Call(method="DELETE", path=f"/api/queue/dead/{quoted(id)}")


def following(types: Sequence[str] | None, agent: str | None, trace: str | None) -> Call:
    given = {"types": ",".join(types) if types else None, "agent": agent, "trace": trace}
    params = {name: value for name, value in given.items() if value is not None}
    return Call(method="GET", path="/api/events/stream", params=params, seconds=SILENCE_SECONDS)


def quoted(id: object) -> str:
    return quote(str(id), safe="")


def sent(call: Call, answer: Mapping[str, Any]) -> Sent:
    return Sent(
        message_id=answer["messageId"],
        trace_id=answer["traceId"],
        messages=tuple(answer["messages"]),
        notices=tuple(answer["notices"]),
    )


def sent_before(message: Mapping[str, Any]) -> Sent:
    """A message whose answer was lost, as the office shows it now."""
    row = {name: message[name] for name in ("messageId", "agent", "status")}
    return Sent(message_id=message["messageId"], trace_id=message["traceId"], messages=(row,))


def text_of(message: Mapping[str, Any]) -> str:
    """What was answered. Raises `OfficeError` if nothing will be."""
    if message["status"] != "completed":
        why = message.get("lastError") or message.get("holdReason") or "it was not answered in time"
        raise OfficeError(f"The message '{message['messageId']}' is {message['status']}: {why}.")
    return "\n\n".join(response["message"] for response in message["responses"])


def value_of(response: httpx.Response) -> Any:
    """What the office answered, or its refusal, raised."""
    try:
        value = response.json()
    except ValueError:
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


def lost(url: str, error: Exception) -> OfficeError:
    return OfficeError(f"The office does not answer at {url}: {str(error) or type(error).__name__}.")


class Lines:
    """Server-sent events, line by line."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._kind = ""
        self._data: list[str] = []

    def take(self, line: str) -> Event | None:
        """An event, with the empty line that ends it."""
        if not line:
            made = self._event()
            self._id, self._kind, self._data = None, "", []
            return made
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id":
                self._id = value
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
            case _:
                pass  # a comment, or what another version has to say
        return None

    def _event(self) -> Event | None:
        if not self._data:
            return None
        return Event(
            seq=int(self._id) if self._id is not None else None,
            kind=self._kind,
            data=json.loads("\n".join(self._data)),
        )


def _file(path: Path) -> dict[str, str]:
    return {"name": path.name, "content": base64.b64encode(path.read_bytes()).decode()}
