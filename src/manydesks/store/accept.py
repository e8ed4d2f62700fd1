"""T1: an arrival is stored, once, as the messages it was routed to. Only then may the platform be told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from manydesks.domain.attachment import MAX_FILES
from manydesks.domain.command import command_word
from manydesks.domain.envelope import Accepted, Incoming
from manydesks.domain.errors import BadInput, Duplicate
from manydesks.domain.ids import is_public_id
from manydesks.domain.loopguard import HOLD_REASON, Stopped
from manydesks.domain.routing import Default, Target, route_person
from manydesks.domain.states import MessageState, word
from manydesks.store.agents import directory
from manydesks.store.lanes import Lanes
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.places import conversation, session, set_default

#: what a run needs to know of each message, in the order of `Work`
WORK_COLUMNS = (
    "message_id", "trace", "hop", "kind", "body", "sender", "sender_id", "from_agent", "channel", "instance",
    "platform_id", "thread_id", "session", "created_at", "not_before", "content", "files",
)  # fmt: skip

MESSAGES = Lanes("messages", columns=WORK_COLUMNS, scope="messages")

#: the office's word that the sender may give the command that the text is
IS_COMMAND = json.dumps({"isCommand": True})

KNOWN_ARRIVAL = "select trace from arrivals where source = ? and key = ?"


def accept(tx: OfficeTransaction, incoming: Incoming, *, default_agent: str, message_bytes: int) -> Accepted:
    """Store what came in. Raises BadInput (empty, too long, unknown `to`) or Duplicate, and then changes nothing."""
    check(incoming, message_bytes)
    if tx.one(KNOWN_ARRIVAL, (incoming.source, incoming.key)) is not None:
        raise Duplicate(message=incoming.key)
    people = directory(tx)
    known = tx.one(
        "select default_agent from conversations where channel = ? and instance = ? and platform_id = ?",
        (incoming.channel, incoming.instance, incoming.platform_id),
    )
    default = (known[0] if known else None) or default_agent
    routing = route_person(incoming.text, people, default=default, to=incoming.to)
    if any(target.after for target in routing.targets):
        raise BadInput("Chains (->) and joins (=>) are not carried out yet; send the steps one after another.")
    if routing.posts:
        raise BadInput("Posts in a team's room are not carried out yet; address its members one by one.")
    if routing.unaddressed is not None:
        raise BadInput(
            f"Nobody would get this: the office's default agent '{default}' does not exist; address someone with "
            "'@name text', or add the agent."
        )
    place, before = conversation(tx, incoming)
    notices = list(routing.notices)
    if isinstance(routing.default, str):
        set_default(tx, place, before, routing.default, incoming.sender)
        notices.append(f"{routing.default} answers here from now on.")
    elif routing.default is Default.CLEAR:
        set_default(tx, place, before, None, incoming.sender)
        notices.append(f"{default_agent}, the office's default, answers here from now on.")
    trace = tx.fresh_id("trace", "arrivals", "trace")
    arrival_body = tx.body(incoming.text)
    tx.insert(
        "arrivals",
        {
            "source": incoming.source,
            "key": incoming.key,
            "trace": trace,
            "conversation": place,
            "thread": incoming.thread,
            "sender": incoming.sender,
            "sender_id": incoming.sender_id,
            "body": arrival_body,
            "at": tx.now,
        },
    )
    files = json.dumps([file.as_json() for file in incoming.files], ensure_ascii=False) if incoming.files else None
    # a key is unique at its source only: another source's message may have taken it for its id
    taken = tx.one("select 1 from messages where message_id = ?", (incoming.key,)) is not None
    stored = [
        store_message(
            tx,
            target,
            message_id=incoming.key
            if number == 0 and not taken
            else tx.fresh_id(incoming.source, "messages", "message_id"),
            body=arrival_body if target.text == incoming.text else tx.body(target.text),
            trace=trace,
            conversation=place,
            address={
                "arrival": incoming.key,
                "channel": incoming.channel,
                "instance": incoming.instance,
                "platform_id": incoming.platform_id,
                "thread_id": incoming.thread,
                "sender": incoming.sender,
                "sender_id": incoming.sender_id,
                "priority": incoming.priority,
                "files": files,
                # parsed here, once, from what this agent gets; agents' own hand-offs never come this way
                "content": IS_COMMAND if incoming.commands and command_word(target.text) else None,
            },
        )
        for number, target in enumerate(routing.targets)
    ]
    message_id = stored[0]["messageId"] if stored else incoming.key
    return Accepted(message_id=message_id, trace=trace, messages=tuple(stored), notices=tuple(notices))


def check(incoming: Incoming, message_bytes: int) -> None:
    if not is_public_id(incoming.key):
        raise BadInput("A message id is 1 to 128 letters, digits, '.', ':', '_' or '-'.")
    check_text(incoming.text, message_bytes)
    for name, value in dataclasses.asdict(incoming).items():
        _encodable(str(value), f"The message's {name}")
    names = [file.name for file in incoming.files]
    if len(names) > MAX_FILES:
        raise BadInput(f"{len(names)} files are too many; at most {MAX_FILES} go with one message.")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"Two files are called '{twice}'; the agent could not tell them apart, so rename one.")
    if not -100 <= incoming.priority <= 100:
        raise BadInput("A priority is a whole number from -100 to 100.")


def check_text(text: str, message_bytes: int) -> None:
    """What a person wrote, now or as an edit."""
    if not text.strip():
        raise BadInput("The message is empty; say something.")
    if (size := len(text.encode("utf-8", "surrogatepass"))) > message_bytes:
        raise BadInput(f"The message has {size} bytes; at most {message_bytes} are allowed (limits.message_bytes).")
    _encodable(text, "The message")


def _encodable(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        # half a surrogate pair: valid in JSON, but no text that could be stored
        raise BadInput(f"{what} is not valid Unicode text.") from None


def store_message(
    tx: OfficeTransaction,
    target: Target,
    *,
    message_id: str,
    body: int,
    trace: str,
    conversation: str,
    address: Mapping[str, Any],
    held: Stopped | None = None,
) -> dict[str, str]:
    """One message for one agent: into its lane, or held because the loop guard stopped it."""
    lane = session(tx, target.agent)
    if held is None:
        place: dict[str, Any] = MESSAGES.entry(tx, lane)
    else:
        place = {"state": int(MessageState.HELD), "hold_reason": HOLD_REASON, "last_error": held.reason}
    row = {
        "message_id": message_id,
        "trace": trace,
        "session": lane,
        "lane": lane,
        "queue": target.agent,
        "agent": target.agent,
        "body": body,
        "created_at": tx.now,
        "updated_at": tx.now,
        **address,
        **place,
    }
    tx.insert("messages", row)
    tx.count("messages", target.agent, None, place["state"])
    about: dict[str, Any] = {"trace": trace, "message": message_id, "session": lane, "agent": target.agent}
    tx.event(
        "message_enqueued",
        **about,
        parent=row.get("parent"),
        body=body,
        message_id=message_id,
        channel=row["channel"],
        conversation=conversation,
        sender=row["sender"],
        kind=row.get("kind", "chat"),
        hop=row.get("hop", 0),
        from_agent=row.get("from_agent"),
        priority=row.get("priority", 0),
    )
    tx.event("agent_routed", **about, by=target.by, team=target.team)
    if held is not None:
        tx.event("message_held", **about, reason=HOLD_REASON, detail=held.reason)
    tx.insert(
        "agent_messages",
        {
            "agent_id": target.agent,
            "role": "user",
            "channel": row["channel"],
            "sender": row.get("from_agent") or row["sender"],
            "message_id": message_id,
            "body": body,
            "created_at": tx.now,
        },
    )
    return {"messageId": message_id, "agent": target.agent, "status": word(MessageState(place["state"]))}
