"""What an agent said becomes responses to people and hand-offs to mates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from manydesks.domain.attachment import Attachment
from manydesks.domain.envelope import line_of
from manydesks.domain.loopguard import Facts, Limits, Stopped, check
from manydesks.domain.routing import Directory, Target, route_answer
from manydesks.domain.states import ResponseState
from manydesks.store.accept import store_message
from manydesks.store.bodies import TEXT
from manydesks.store.lanes import Lanes
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.rooms import PREFIX, content, has_posted, post_all, room_id
from manydesks.store.waits import WAIT_MS, Stored, Wait, in_order

PARCEL_COLUMNS = (
    "message_id", "part", "channel", "instance", "platform_id", "thread_id", "sender", "agent", "operation", TEXT,
    "created_at", "renewed_at", "trace", "files", "metadata", "receipts", "progress",
)  # fmt: skip

#: where a response goes
ADDRESS = ("channel", "instance", "platform_id", "thread_id", "sender", "sender_id")

#: what an agent said, as opposed to what it did: its memory keeps it
SAYINGS = frozenset({"message", "card", "ask_question"})
#: what may be done again by a run that is tried again: it means the same, or is recognised
REPEATABLE = frozenset({"edit", "reaction", "ask_question"})

RESPONSES = Lanes("responses", columns=PARCEL_COLUMNS, scope="responses")

#: the part of a message's row that says where its answer goes, and where it stands in its trace
ORIGIN = (
    "message_id", "arrival", "trace", "hop", "chain", "session", "agent", "channel", "instance", "platform_id",
    "thread_id", "sender", "sender_id", "body", "priority", "state", "asker",
)  # fmt: skip
FIND_ORIGIN = f"select {', '.join(ORIGIN)} from messages where message_id = ?"


def origin(tx: OfficeTransaction, message_id: str) -> dict[str, Any]:
    row = tx.one(FIND_ORIGIN, (message_id,))
    if row is None:
        raise LookupError(f"no message {message_id}")
    return dict(zip(ORIGIN, row, strict=True))


def respond(
    tx: OfficeTransaction,
    message: Mapping[str, Any],
    text: str,
    *,
    run: str,
    outbound: str,
    people: Directory,
    limits: Limits,
    files: Sequence[Attachment] = (),
    notices: Sequence[str] = (),
    wait_ms: int = WAIT_MS,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Store the answer to a message as people should read it, and send on what it hands over.

    `wait_ms`: how long what it hands over waits for what stands before it. `metadata`: goes with the response.
    """
    routing = route_answer(text, people, sender=message["agent"])
    shown, notices = routing.shown, [*notices, *routing.notices]
    if notices:
        # what was not done is said where it was asked for, or nobody would know
        shown = "\n\n".join(filter(None, (shown, "\n".join(f"({notice})" for notice in notices))))
    store_response(tx, message, shown, run=run, outbound=outbound, files=files, metadata=metadata)
    posts = post_all(tx, routing.posts, trace=message["trace"], sender=message["sender"], message=message, run=run)

    def store(target: Target, wait: Wait | None) -> Stored:
        body = posts[str(target.team), target.text] if target.by == "room" else None
        return hand_off(tx, message, target, limits, run=run, wait=wait, body=body)

    in_order(tx, routing.targets, store, wait_ms=wait_ms)


def store_response(
    tx: OfficeTransaction,
    message: Mapping[str, Any],
    text: str,
    *,
    run: str | None,
    outbound: str | None = None,
    operation: str = "message",
    files: Sequence[Attachment] = (),
    metadata: Mapping[str, Any] | None = None,
    address: Mapping[str, Any] | None = None,
) -> int:
    """One response on its way to where the message came from, or to another `address`; its number."""
    parts = tx.one("select coalesce(max(part), 0) from responses where message_id = ?", (message["message_id"],))
    part = (parts[0] if parts else 0) + 1
    place_of = message if address is None else address
    lane = "to:" + "/".join(str(place_of[column]) for column in ADDRESS[:4])
    queue = line_of(place_of["channel"], place_of["instance"])
    body = tx.body(text)
    place = RESPONSES.entry(tx, lane)
    response = tx.insert(
        "responses",
        {
            "message_id": message["message_id"],
            "run": run,
            "outbound": outbound,
            "part": part,
            "trace": message["trace"],
            "session": message["session"],
            "lane": lane,
            "queue": queue,
            **{column: place_of[column] for column in ADDRESS},
            "agent": message["agent"],
            "operation": operation,
            "body": body,
            "files": _dumps([file.as_json() for file in files]) if files else None,
            "metadata": _dumps(metadata) if metadata else None,
            "original_body": message["body"],
            "created_at": tx.now,
            "updated_at": tx.now,
            **place,
        },
    )
    tx.count("responses", queue, None, ResponseState.PENDING)
    tx.event(
        "response_ready",
        trace=message["trace"],
        message=message["message_id"],
        run=run,
        session=message["session"],
        agent=message["agent"],
        body=body,
        response=response,
        channel=place_of["channel"],
        part=part,
        operation=operation,
        bytes=len(text.encode()),
        files=len(files) or None,
    )
    if operation in SAYINGS and message["agent"] is not None:
        tx.insert(
            "agent_messages",
            {
                "agent_id": message["agent"],
                "role": "assistant",
                "channel": message["channel"],
                "sender": message["sender"],
                "message_id": message["message_id"],
                "body": body,
                "created_at": tx.now,
            },
        )
    return response


def hand_off(
    tx: OfficeTransaction,
    message: Mapping[str, Any],
    target: Target,
    limits: Limits,
    *,
    run: str,
    asker: str | None = None,
    outbound: str | None = None,
    wait: Wait | None = None,
    body: int | None = None,
) -> Stored:
    """A message from agent to agent, in the same trace; held with a reason if it looks like a loop.

    `asker`: the agent that is told the answer. `wait`: what it waits for. `body`: its text, if that is stored already.
    """
    in_room = target.by == "room" and target.team is not None
    hop = message["hop"] + 1 if wait is None else wait.hop
    chain = f"{message['chain']} {message['agent']}".strip() if wait is None else wait.chain
    pair = "select count(*) from messages where from_agent = ? and agent = ? and created_at > ?"
    verdict = check(
        Facts(
            sender=message["agent"],
            target=target.agent,
            hop=hop,
            in_trace=_count(tx, "select count(*) from messages where trace = ?", message["trace"]),
            in_pair_minute=_count(tx, pair, message["agent"], target.agent, tx.now - 60_000)
            + _count(tx, pair, target.agent, message["agent"], tx.now - 60_000),
        ),
        limits,
    )
    message_id = tx.fresh_id(PREFIX if in_room else "internal", "messages", "message_id")
    about: dict[str, Any] = {
        "trace": message["trace"],
        "parent": message["message_id"],
        "message": message_id,
        "agent": target.agent,
    }
    tx.event("chain_handoff", **about, run=run, **{"from": message["agent"], "to": target.agent},
             message_id=message_id, hop=hop)  # fmt: skip
    store_message(
        tx,
        target,
        message_id=message_id,
        body=tx.body(target.text) if body is None else body,
        trace=message["trace"],
        conversation=room_id(str(target.team)) if in_room else "",
        address={
            **{column: message[column] for column in ("arrival", "channel", "instance", "platform_id", "thread_id")},
            "sender": message["sender"],
            "sender_id": message["sender_id"],
            "priority": message["priority"],
            "parent": message["message_id"],
            "hop": hop,
            "chain": chain,
            "from_agent": message["agent"],
            "from_run": run,
            "asker": asker,
            "outbound": outbound,
            "content": content(str(target.team)) if in_room else None,
        },
        held=verdict if isinstance(verdict, Stopped) else None,
        wait=wait,
    )
    return Stored(message_id=message_id, agent=target.agent, hop=hop, chain=chain)


def has_handed_off(tx: OfficeTransaction, message: Mapping[str, Any], run: str) -> bool:
    """Whether the run has given work for this message to a mate, or said something in a room."""
    sql = "select 1 from messages where trace = ? and parent = ? and from_run = ? limit 1"
    given = tx.one(sql, (message["trace"], message["message_id"], run)) is not None
    return given or has_posted(tx, message["message_id"], run)


def withdraw(tx: OfficeTransaction, message_id: str, run: str, reason: str) -> bool:
    """Take back what a failed attempt wrote and nobody has seen. True: some of it is out already."""
    # of one that waits for its next attempt a piece may be out, and a client may have fetched it
    seen = "receipts is not null or given_at is not null"
    sql = f"select id, state, trace, agent, operation, {seen} from responses where message_id = ? and run = ?"
    out = False
    for id, state, trace, agent, operation, is_seen in tx.all(sql, (message_id, run)):
        if operation in REPEATABLE:
            # a question stays open for the next attempt, which asks it again
            continue
        if state in (ResponseState.PENDING, ResponseState.HELD) and not is_seen:
            RESPONSES.remove(tx, id, ResponseState.WITHDRAWN)
            tx.event("response_withdrawn", trace=trace, message=message_id, run=run, agent=agent, response=id,
                     reason=reason)  # fmt: skip
        elif is_seen or state in (ResponseState.SENDING, ResponseState.UNSURE, ResponseState.ACKED):
            out = True
    return out


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _count(tx: OfficeTransaction, sql: str, *values: Any) -> int:
    row = tx.one(sql, values)
    return int(row[0]) if row else 0
