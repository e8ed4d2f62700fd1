"""A trace as spans of time: what waited, what ran, which tools were called, what was delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def spans(trace: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those of each message, the message first. A run over several messages is shown once, with its first."""
    found: list[dict[str, Any]] = []
    runs: set[str] = set()
    for message in trace["messages"]:
        found += _message(message, runs)
    return [*found, *_tools(tools, runs)]


def _message(message: Mapping[str, Any], runs: set[str]) -> list[dict[str, Any]]:
    id, agent, start = message["messageId"], message["agent"], message["createdAt"]
    parts: list[dict[str, Any]] = []
    if message["queueMs"] is not None:
        parts.append(
            _span(f"{id}/queue", id, "queue", "waited", start, start + message["queueMs"], agent=agent, status="done")
        )
    for run in message["runs"]:
        if run["id"] in runs:
            continue
        runs.add(run["id"])
        end = None if run["durationMs"] is None else run["startedAt"] + run["durationMs"]
        name = f"run {run['attempt']}"
        outcome = run["outcome"] or ("running" if end is None else None)
        part = _span(run["id"], id, "run", name, run["startedAt"], end, agent=agent, status=outcome)
        more = {key: run[key] for key in ("inputTokens", "outputTokens", "costUsd")}
        parts.append({**part, **more, "detail": run["reason"], "messageId": id})
    for response in message["responses"]:
        name, end = f"to {response['channel']}", response["ackedAt"]
        part = _span(
            f"{id}/response/{response['id']}", id, "delivery", name, response["createdAt"], end, agent=agent,
            status=response["status"],
        )  # fmt: skip
        parts.append({**part, "detail": response["lastError"], "messageId": id})
    ended = message["status"] in ("completed", "dead", "cancelled")
    ends = [part["end"] for part in parts if part["end"] is not None and part["kind"] != "delivery"]
    whole = _span(
        id,
        message["parent"],
        "message",
        message["fromAgent"] or message["sender"] or "",
        start,
        max(ends, default=start) if ended else None,
        agent=agent,
        status=message["status"],
    )
    return [
        {**whole, "messageId": id, "fromAgent": message["fromAgent"], "detail": message["lastError"]},
        *parts,
    ]


def _tools(events: Sequence[Mapping[str, Any]], runs: set[str]) -> list[dict[str, Any]]:
    open_calls: dict[tuple[str, str], dict[str, Any]] = {}
    found: list[dict[str, Any]] = []
    for event in events:
        run, call = event["run"], str(event["data"].get("call"))
        if run not in runs:
            continue
        tool = str(event["data"].get("tool"))
        if event["kind"] == "tool_called":
            part = _span(
                f"{run}/tool/{call}", run, "tool", tool, event["at"], None, agent=event["agent"], status="running"
            )
            found.append({**part, "messageId": event["message"]})
            open_calls[run, call] = found[-1]
        elif (known := open_calls.pop((run, call), None)) is not None:
            known |= {"end": event["at"], "status": "ok" if event["data"].get("ok") else "failed"}
    return found


def _span(
    id: str, parent: str | None, kind: str, name: str, start: int, end: int | None, **more: Any
) -> dict[str, Any]:
    return {"id": id, "parent": parent, "kind": kind, "name": name, "start": start, "end": end, **more}
