"""An event as clients get it: the same object in a list and on the stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manydesks.office.surface import Live

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
#: valid in JSON, and the end of a line to many a reader
_BREAKS = {ord(one): f"\\u{ord(one):04x}" for one in "\x85\u2028\u2029"}

#: as clients name the columns of the ledger
NAMES = {
    "seq": "seq",
    "kind": "kind",
    "at": "at",
    "traceId": "trace",
    "parent": "parent",
    "messageId": "message",
    "runId": "run",
    "sessionId": "session",
    "agent": "agent",
    "data": "data",
}
#: as clients that were written for TinyAGI name them, who have no `data`: only what an event has of them is there
FLAT = {"channel": "channel", "sender": "sender", "from": "fromAgent", "to": "toAgent", "team": "teamId"}
#: what a run is saying has no place in the ledger, and so no number to resume from
PROGRESS = "progress"


@dataclass(frozen=True, slots=True)
class Rendered:
    """One event, ready to be sent, with what readers choose by."""

    seq: int
    kind: str
    agent: str | None
    trace: str | None
    data: bytes


def shown(event: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the ledger as clients have it."""
    made = {name: event[column] for name, column in NAMES.items()}
    made |= {"type": event["kind"], "timestamp": event["at"], "agentId": event["agent"]}
    data = event["data"]
    return made | {name: data[field] for field, name in FLAT.items() if field in data}


def _dumps(value: Any) -> str:
    """JSON on one line, whoever reads it: a line break inside it would end the field."""
    made = _encode(value)
    return made if made.isascii() else made.translate(_BREAKS)


def rendered(event: Mapping[str, Any]) -> Rendered:
    kind, seq = event["kind"], event["seq"]
    data = f"id: {seq}\nevent: {kind}\ndata: {_dumps(shown(event))}\n\n".encode()
    return Rendered(seq, kind, event["agent"], event["trace"], data)


def rendered_live(live: Live, tool: str | None) -> bytes:
    """The text so far, and the tool in use."""
    said = {
        "type": PROGRESS,
        "agent": live.agent,
        "agentId": live.agent,
        "sessionId": live.session,
        "runId": live.run,
        "messageId": live.message,
        "traceId": live.trace,
        "text": live.text,
        "tool": tool,
    }
    return f"event: {PROGRESS}\ndata: {_dumps(said)}\n\n".encode()
