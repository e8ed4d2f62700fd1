"""`manydesks queue show`: one message in full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from manydesks.cli import complete
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Output
from manydesks.cli.quantity import count, duration, moment
from manydesks.cli.queue import jobs
from manydesks.cli.queue.file import file_options, refuse_queue_alone
from manydesks.cli.response import shown
from manydesks.cli.text import harmless, one_line
from manydesks.domain.errors import UnknownMessage
from manydesks.domain.reading import size


@click.command(cls=Command)
@click.argument("message", shell_complete=complete.messages)
@file_options
@pass_invocation
def show(invocation: Invocation, message: str, file: Path | None, queue: str | None) -> None:
    """Show one message in full: its text, its state, what it waits for, its runs and its answers."""
    refuse_queue_alone(file, queue)
    if file is not None:
        jobs.show(invocation, file, queue, message)
        return
    found, out = invocation.reader.letter(message), invocation.out
    if found is None:
        raise UnknownMessage(message=message)
    if out.json:
        out.value(found)
        return
    for name, words in _lines(found, out):
        out.line(f"{name:<9}{words}".rstrip())
    out.line()
    out.line("(erased)" if found["text"] is None else harmless(found["text"]))
    for response in found["responses"]:
        out.line()
        out.line(f"answer {response['id']} to {one_line(response['channel'])}: {out.status(response['status'])}")
        out.line(harmless(shown(response, invocation.home.path)))
    if (other := found.get("answeredWith")) is not None:
        response = other["response"]
        out.line()
        out.line(f"answered together with {one_line(other['messageId'])}, by answer {response['id']}:")
        out.line(harmless(shown(response, invocation.home.path)))


def _lines(found: dict[str, Any], out: Output) -> Iterator[tuple[str, str]]:
    yield "message", one_line(found["messageId"])
    yield "trace", one_line(found["traceId"])
    yield "to", one_line(found["agent"]) + (" (paused)" if found["agentPaused"] else "")
    yield "from", one_line(found["fromAgent"] or found["sender"])
    yield "state", out.status(found["status"]) + f"  since {moment(found['updatedAt'])}"
    yield "stored", moment(found["createdAt"])
    if found["holdReason"]:
        yield "held for", one_line(found["holdReason"])
    if (wait := found.get("wait")) is not None:
        parts = (f"{one_line(part['messageId'])} to {one_line(part['agent'] or '-')}" for part in wait["parts"])
        until = "" if wait["until"] is None else f", until {moment(wait['until'])}"
        yield "after", f"{', '.join(parts)} ({wait['status'].replace('_', ' ')}{until})"
    if found["lastError"]:
        yield "error", one_line(found["lastError"])
    for file in found.get("files") or ():
        yield "file", one_line(f"{file['name']} ({size(file['bytes'])}): {file['path']}")
    if found["status"] == "pending":
        yield "lane", _lane(found)
    if found["notBefore"] is not None:
        yield "waits", f"until {moment(found['notBefore'])}"
    for run in found["runs"]:
        took = "" if run["durationMs"] is None else f"  {duration(run['durationMs'])}"
        reason = f"  {one_line(run['reason'])}" if run["reason"] else ""
        others = run.get("messages", 1) - 1
        shared = f"  together with {count(others, 'other message')}" if others else ""
        yield f"run {run['attempt']}", out.status(run["outcome"] or "running") + took + shared + reason


def _lane(found: dict[str, Any]) -> str:
    if not found["before"]:
        return "next in its lane"
    names = [f"{one_line(row['messageId'])} ({row['status']})" for row in found["waitsFor"]]
    more = found["before"] - len(names)
    rest = f" and {more:,} more" if more else ""
    return f"behind {count(found['before'], 'message')}: {', '.join(names)}{rest}"
