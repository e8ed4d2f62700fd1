"""Answers to what clients ask besides answers of the model: harmless ones, so that nobody stops at the door."""

from __future__ import annotations

from dataclasses import replace

from manydesks.testing.model.plan import Plan, document

#: merged from what both companies say of a model
MODEL = {
    "id": "scripted-model",
    "type": "model",
    "object": "model",
    "display_name": "Scripted model",
    "created": 1_700_000_000,
    "created_at": "2023-11-14T22:13:20Z",
    "owned_by": "manydesks",
}


def other(method: str, path: str, body_size: int) -> Plan:
    """What a path gets that no dialect serves."""
    plan = _found(method, path, body_size)
    return replace(plan, pieces=()) if method == "HEAD" else plan


def _found(method: str, path: str, body_size: int) -> Plan:
    place = path.rstrip("/") or "/"
    if method == "POST" and place == "/v1/messages/count_tokens":
        return document({"input_tokens": max(1, body_size // 4)})
    if place == "/v1/models":
        return document(
            {"object": "list", "data": [MODEL], "has_more": False, "first_id": MODEL["id"], "last_id": MODEL["id"]}
        )
    if place.startswith("/v1/models/"):
        return document({**MODEL, "id": place.removeprefix("/v1/models/")})
    # claude says hello and counts events under /api.
    if place == "/" or place.startswith("/api/"):
        return document({})
    error = {"type": "not_found_error", "message": f"There is nothing at {path}.", "param": None, "code": None}
    return document({"type": "error", "error": error}, 404)
