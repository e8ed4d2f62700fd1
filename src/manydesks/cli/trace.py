"""`manydesks trace`: all that followed from one message."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from manydesks.cli import complete
from manydesks.cli.command import Command, pass_invocation
from manydesks.cli.invocation import Invocation
from manydesks.cli.output import Output
from manydesks.cli.quantity import cost, count, duration, moment
from manydesks.cli.response import shown
from manydesks.cli.text import cut, one_line, width
from manydesks.cli.tree import Node, render
from manydesks.domain.errors import UnknownTrace
from manydesks.domain.reading import size

#: of a text, what a line of the tree shows; `--json` has it all
EXCERPT = 100


@click.command(cls=Command)
@click.argument("id", shell_complete=complete.messages)
@pass_invocation
def trace(invocation: Invocation, id: str) -> None:
    """Show all that followed from one message, as a tree.

    ID is a trace's or any of its messages'. Each message shows how long it waited in the queue and for whom, its runs
    with their tools, tokens and cost, and how long it took until it was tried again, its answers and how their delivery
    went, and below them the messages it led to.
    """
    found = invocation.reader.trace(id)
    if found is None:
        raise UnknownTrace(trace=id)
    out = invocation.out
    if out.json:
        out.value(found)
        return
    for branches, node in render(tree_of(found, invocation.home.path)):
        out.line(_line(branches, node, out))


def _line(branches: str, node: Node, out: Output) -> str:
    lead = branches + node.label
    if not out.terminal:
        return lead + node.state + node.rest
    # Cut first and painted after: half an escape sequence would paint the rest of the screen.
    if width(lead + node.state) > out.columns:
        return cut(lead, out.columns)
    return lead + out.status(node.state) + cut(node.rest, out.columns - width(lead + node.state))


def tree_of(trace: Mapping[str, Any], home: Path = Path()) -> Node:
    """The tree of a trace; a message whose parent is not in it, or only through itself, stands at the top.

    Paths of files are shown below `home`.
    """
    messages = trace["messages"]
    nodes = {message["messageId"]: _message(message, home) for message in messages}
    parents = {message["messageId"]: message["parent"] for message in messages}
    root, grounded = Node(label=_summary(trace)), set[str]()
    for message_id, parent in parents.items():
        hangs = parent in nodes and _is_grounded(message_id, parents, grounded)
        (nodes[parent] if hangs else root).children.append(nodes[message_id])
    return root


def _is_grounded(start: str, parents: Mapping[str, str | None], grounded: set[str]) -> bool:
    """Whether the way up from here ends; `grounded` remembers the ways that did, so a long chain is walked once."""
    way: set[str] = set()
    at: str | None = start
    while at is not None and at in parents and at not in grounded:
        if at in way:
            return False
        way.add(at)
        at = parents[at]
    grounded |= way
    return True


def _summary(trace: Mapping[str, Any]) -> str:
    messages = trace["messages"]
    # a run over several messages is one run, and costs once: where its first message is
    runs = [run for m in messages for run in m["runs"] if run.get("message", m["messageId"]) == m["messageId"]]
    agents = {message["agent"] for message in messages}
    tokens = sum((run["inputTokens"] or 0) + (run["outputTokens"] or 0) for run in runs)
    known = [run["costUsd"] for run in runs if run["costUsd"] is not None]
    parts = [count(len(messages), "message"), count(len(agents), "agent"), count(len(runs), "run")]
    if tokens:
        parts.append(count(tokens, "token"))
    if known:
        parts.append(cost(sum(known)) + (" or more" if len(known) < len(runs) else ""))
    return f"{one_line(trace['traceId'])}: {', '.join(parts)}"


def _message(message: Mapping[str, Any], home: Path) -> Node:
    source = message["fromAgent"] or message["sender"] or "-"
    held = f" ({one_line(message['holdReason'])})" if message.get("holdReason") else ""
    node = Node(
        label=f"{one_line(source)} → {one_line(message['agent'])}  ",
        state=one_line(message["status"]),
        rest=f"{held}  {one_line(message['messageId'])}  {moment(message['createdAt'])}  {_quote(message['text'])}",
    )
    if message["queueMs"] is not None:
        node.children.append(Node(label=f"waited {duration(message['queueMs'])}"))
    node.children.extend(
        Node(label=_short(f"file {file['name']} ({size(file['bytes'])})")) for file in message.get("files") or ()
    )
    if message.get("wait") is not None:
        node.children.append(_wait(message["wait"]))
    before: Mapping[str, Any] | None = None
    for run in message["runs"]:
        if before is not None and before["durationMs"] is not None:
            gap = max(0, run["startedAt"] - before["startedAt"] - before["durationMs"])
            node.children.append(Node(label=f"tried again after {duration(gap)}"))
        node.children.append(_run(run, message["messageId"]))
        before = run
    if message["lastError"] and message["status"] != "completed":
        node.children.append(Node(label=f"last error: {_short(message['lastError'])}"))
    node.children.extend(_answer(response, home) for response in message["responses"])
    if (other := message.get("answeredWith")) is not None:
        node.children.append(
            Node(
                label=f"answered together with {one_line(other['messageId'])}  ",
                state=one_line(other["response"]["status"]),
                rest=f"  {_said(other['response'], home)}",
            )
        )
    return node


def _wait(wait: Mapping[str, Any]) -> Node:
    """What a chain or a join waits for, or has waited for: each of them a line."""
    word = {"chain": "after", "join": "joins"}.get(wait["kind"], wait["kind"])
    parts = [
        Node(
            label=f"{one_line(part['agent'] or '-')}  ",
            state=one_line(part["status"]),
            rest=f"  {one_line(part['messageId'])}" + (f"  {_short(part['reason'])}" if part.get("reason") else ""),
        )
        for part in wait["parts"]
    ]
    return Node(
        label=f"{one_line(word)} {count(len(parts), 'answer')}  ", state=one_line(wait["status"]), children=parts
    )


def _answer(response: Mapping[str, Any], home: Path) -> Node:
    """A delivery: how it stands, how long it took, why it has not arrived."""
    took = ""
    if response.get("ackedAt") is not None and response.get("createdAt") is not None:
        took = f"  {duration(max(0, response['ackedAt'] - response['createdAt']))}"
    elif response.get("lastError") and response["status"] != "acked":
        took = f"  ({_short(response['lastError'])})"
    return Node(
        label=f"answer to {one_line(response['channel'] or '-')}  ",
        state=one_line(response["status"]),
        rest=f"{took}  {_said(response, home)}",
    )


def _said(response: Mapping[str, Any], home: Path) -> str:
    """A response in one line: of files and questions what a person needs is kept, the text before it is cut."""
    first, *more = shown({**response, "files": (), "questionId": None}, home).strip().splitlines() or [""]
    told = [_quote(first) + (" …" if more else "")] if response["text"] != "" else []
    if response.get("questionId"):
        told.append(f"(to answer: manydesks answer {one_line(response['questionId'])} …)")
    files = response.get("files") or ()
    told += [one_line(f"[file] {file['name']} ({size(file['bytes'])}): {home / file['path']}") for file in files]
    return "  ".join(told)


def _run(run: Mapping[str, Any], message_id: str) -> Node:
    primary = run.get("message") or message_id
    others = run.get("messages", 1) - 1
    parts = []
    if run["durationMs"] is not None:
        parts.append(duration(run["durationMs"]))
    if primary != message_id:
        parts.append(f"together with {one_line(primary)}, which shows what it used")
    elif others:
        parts.append(f"for {count(others, 'other message')} too")
    if primary == message_id and (run["inputTokens"] is not None or run["outputTokens"] is not None):
        parts.append(f"{_tokens(run['inputTokens'])} in, {_tokens(run['outputTokens'])} out")
    if primary == message_id and run["costUsd"] is not None:
        parts.append(cost(run["costUsd"]))
    if run["reason"]:
        parts.append(_short(run["reason"]))
    return Node(
        label=f"run {run['attempt']}  ",
        state=one_line(run["outcome"] or "running"),
        rest="".join(f"  {part}" for part in parts),
        children=[_tool(tool) for tool in run["tools"]],
    )


def _tool(tool: Mapping[str, Any]) -> Node:
    took = f"  {duration(tool['durationMs'])}" if tool["durationMs"] is not None else ""
    outcome = {True: "ok", False: "failed", None: "running"}[None if tool["ok"] is None else bool(tool["ok"])]
    return Node(label=f"{one_line(tool['tool'])}  ", state=outcome, rest=took)


def _tokens(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _quote(text: str | None) -> str:
    """The first line of a text that has something in it."""
    if text is None:
        return "(erased)"
    lines = text.strip().splitlines() or [""]
    more = " …" if len(lines) > 1 else ""
    return f"“{_short(lines[0])}”{more}"


def _short(text: str) -> str:
    return cut(one_line(text), EXCERPT)
