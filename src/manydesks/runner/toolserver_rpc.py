"""JSON-RPC as MCP speaks it: what came in, checked; what goes out, as values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: revisions of MCP whose handshake is spoken here, oldest first; whoever asks for another is offered the newest
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800
UNSUPPORTED_VERSION = -32022


class RpcError(Exception):
    """A request that gets an error: one sentence about what is wrong and what is allowed."""

    def __init__(self, code: int, message: str, *, id: str | int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.id = id
        self.data = data

    def as_json(self) -> dict[str, Any]:
        more = {} if self.data is None else {"data": self.data}
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": str(self), **more}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """One message of a client."""

    #: None: a notification, which gets no answer
    id: str | int | None
    #: empty: an answer to a request of ours; we make none
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


def read(body: bytes) -> Heard:
    """Raises `RpcError` for whatever is not one message of JSON-RPC 2.0."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, "The body is not JSON.") from None
    if isinstance(value, list):
        raise RpcError(INVALID_REQUEST, "Send one message at a time; batches are not taken.")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'A message is an object with "jsonrpc": "2.0".')
    id = value.get("id")
    if "id" in value and (isinstance(id, bool) or not isinstance(id, str | int)):
        raise RpcError(INVALID_REQUEST, "An id is a text or a whole number.")
    method = value.get("method")
    if method is None and ("result" in value or "error" in value):
        return Heard(id=None, method="")
    if not isinstance(method, str) or not method:
        raise RpcError(INVALID_REQUEST, "A message has a method.", id=id)
    params = value.get("params", {})
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "The params are an object.", id=id)
    return Heard(id=id, method=method, params=params)


def answer(id: str | int, result: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def negotiated(params: Mapping[str, Any]) -> str:
    """The revision that both sides speak from now on."""
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcError(INVALID_PARAMS, "initialize names a protocolVersion.")
    return wanted if wanted in VERSIONS else VERSIONS[-1]


def progress_token(params: Mapping[str, Any]) -> str | int | None:
    """By which the client wants to hear how a call goes; None: it does not."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None
