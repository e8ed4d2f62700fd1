"""Exchanges as JSON, one a line, and back."""

from __future__ import annotations

import json
from typing import Any

from manydesks.runner.providers.http_api.shape import packed, parsed
from manydesks.runner.providers.http_api.talk import Call, Entry, Exchange, File, Opaque, Part, Result, Words

#: of a line; one with another number is skipped
VERSION = 1


class Damaged(ValueError):
    """A line that is no exchange. Inner to the history, which skips it."""


def encode(exchange: Exchange) -> bytes:
    """One line with its end."""
    entries = [{"role": entry.role, "parts": [_packed(part) for part in entry.parts]} for entry in exchange.entries]
    value = {"v": VERSION, "density": exchange.density, "entries": entries}
    # halves of characters, as broken encoders make them, become question marks
    return packed(value).encode(errors="replace") + b"\n"


def decode(line: bytes) -> Exchange:
    """Raises `Damaged`."""
    try:
        value = parsed(line.decode())
    except UnicodeDecodeError:
        raise Damaged("no UTF-8") from None
    if not isinstance(value, dict) or value.get("v") != VERSION:
        raise Damaged("not of this version")
    try:
        density = value["density"]
        if density is not None and not (isinstance(density, int | float) and density > 0):
            raise Damaged("density")
        return Exchange(entries=tuple(_entry(entry) for entry in value["entries"]), density=density)
    except (KeyError, TypeError) as error:
        raise Damaged(str(error)) from None


def _packed(part: Part) -> dict[str, Any]:
    match part:
        case Words():
            return {"type": "text", "text": part.text}
        case File():
            return {"type": "file", "digest": part.digest, "name": part.name, "mime": part.mime, "bytes": part.bytes}
        case Call():
            return {"type": "call", "id": part.id, "name": part.name, "arguments": part.arguments}
        case Result():
            return {"type": "result", "id": part.id, "ok": part.ok, "text": part.text}
        case Opaque():
            return {"type": "opaque", "wire": part.wire, "data": part.data}


def _entry(value: Any) -> Entry:
    role = value["role"]
    if role not in ("user", "model", "tools"):
        raise Damaged(f"role {role!r}")
    return Entry(role=role, parts=tuple(_part(part) for part in value["parts"]))


def _part(value: Any) -> Part:
    match value:
        case {"type": "text", "text": str(words)}:
            return Words(text=words)
        case {"type": "file", "digest": str(digest), "name": str(name), "mime": str(mime), "bytes": int(size)}:
            return File(digest=digest, name=name, mime=mime, bytes=size)
        case {"type": "call", "id": str(id), "name": str(name), "arguments": arguments}:
            return Call(id=id, name=name, arguments=arguments)
        case {"type": "result", "id": str(id), "ok": bool(ok), "text": str(words)}:
            return Result(id=id, ok=ok, text=words)
        case {"type": "opaque", "wire": str(wire), "data": dict(data)}:
            return Opaque(wire=wire, data=data)
        case _:
            raise Damaged(f"part {json.dumps(value)[:60]}")
