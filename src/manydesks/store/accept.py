"""T1: an arrival is stored, once, as the messages it was routed to. Only then may the platform be told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from manydesks.domain.attachment import MAX_FILES
from manydesks.domain.command import command_word
from manydesks.domain.envelope import Accepted, Incoming
from manydesks.domain.errors import BadInput, Duplicate
from manydesks.domain.ids import is_public_id, new_id
from manydesks.domain.loopguard import HOLD_REASON, Stopped
from manydesks.domain.routing import Default, Target, route_person
from manydesks.domain.states import MessageState, word
from manydesks.store import delays
from manydesks.store.bodies import TEXT
from manydesks.store.delays import Delay
from manydesks.store.directory import directory
from manydesks.store.lanes import Lanes
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.places import open_conversation, session, set_default
from manydesks.store.rooms import PREFIX, post_all, room_id
from manydesks.store.spending import paused_by_budget
from manydesks.store.waits import WAIT_MS, Stored, Wait, begin, in_order

#: what a run needs to know of each message, in the order of `Work`
WORK_COLUMNS = (
    "message_id", "trace", "hop", "kind", TEXT, "sender", "sender_id", "from_agent", "channel", "instance",
    "platform_id", "thread_id", "session", "created_at", "updated_at", "not_before", "content", "files",
)  # fmt: skip

MESSAGES = Lanes("messages", columns=WORK_COLUMNS, scope="messages")

#: of a source and a key: whether it came before, whether a message has the key for its id; whether a trace is known;
#: whether a budget keeps some agent from working; who is here, by the number of what was read of them; and the
#: conversation of a place, with its default agent. Asked at once: each message asks for all of it
FACTS = """
select exists (select 1 from arrivals where source = ?1 and key = ?2),
  exists (select 1 from messages where message_id = ?2), exists (select 1 from arrivals where trace = ?3),
  exists (select 1 from agents where paused >= 2), p.value, c.id, c.default_agent
from people_version p left join conversations c on c.channel = ?4 and c.instance = ?5 and c.platform_id = ?6
where p.only = 1
"""


def accept(tx: OfficeTransaction, incoming: Incoming, *, default_agent: str, wait_ms: int = WAIT_MS) -> Accepted:
    """Store what came in and has passed `check`. Raises BadInput (unknown `to`, for nobody) or Duplicate, and then
    changes nothing.

    `wait_ms`: how long a step of a chain, or a join, waits for what stands before it.
    """
    trace = new_id("trace")
    ((known, taken, clash, paused, people, place, before),) = tx.all(
        FACTS,
        (incoming.source, incoming.key, trace, incoming.channel, incoming.instance, incoming.platform_id),
    )
    if known:
        raise Duplicate(message=incoming.key)
    default = before or default_agent
    routing = route_person(incoming.text, directory(tx, people), default=default, to=incoming.to)
    if routing.unaddressed is not None:
        raise BadInput(
            f"Nobody would get this: the office's default agent '{default}' does not exist; address someone with "
            "'@name text', or add the agent."
        )
    if not routing.targets and not routing.posts and routing.default is Default.KEEP:
        raise BadInput(" ".join(routing.notices) or "Nobody would get this; address someone with '@name text'.")
    if place is None:
        place = open_conversation(tx, incoming)
    notices = list(routing.notices)
    if isinstance(routing.default, str):
        set_default(tx, place, before, routing.default, incoming.sender)
        notices.append(f"{routing.default} answers here from now on.")
    elif routing.default is Default.CLEAR:
        set_default(tx, place, before, None, incoming.sender)
        notices.append(f"{default_agent}, the office's default, answers here from now on.")
    if clash:
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
    posts = post_all(tx, routing.posts, trace=trace, sender=incoming.sender)
    stored: list[dict[str, str]] = []
    address = {
        "arrival": incoming.key,
        "channel": incoming.channel,
        "instance": incoming.instance,
        "platform_id": incoming.platform_id,
        "thread_id": incoming.thread,
        "sender": incoming.sender,
        "sender_id": incoming.sender_id,
        "priority": incoming.priority,
        "files": files,
    }
    delay = delays.delay_of(tx, incoming.not_before)

    def store(target: Target, wait: Wait | None) -> Stored:
        in_room = target.by == "room" and target.team is not None
        # a key is unique at its source only: another source's message may have taken it for its id
        if not stored and not taken and not in_room:
            message_id = incoming.key
        else:
            message_id = tx.fresh_id(PREFIX if in_room else incoming.source, "messages", "message_id")
        if in_room:
            body, besides = posts[str(target.team), target.text], _besides(incoming, {"room": target.team})
        else:
            body = arrival_body if target.text == incoming.text else tx.body(target.text)
            # parsed here, once, from what this agent gets; agents' own hand-offs never come this way
            is_command = incoming.commands and wait is None and command_word(target.text)
            # the office's word that the sender may give the command that the text is
            besides = _besides(incoming, {"isCommand": True} if is_command else {})
        chain = wait.chain if wait else ""
        stored.append(
            store_message(
                tx,
                target,
                message_id=message_id,
                body=body,
                trace=trace,
                conversation=room_id(str(target.team)) if in_room else place,
                address={**address, "chain": chain, "content": besides},
                wait=wait,
                delay=delay if wait is None else None,
            )
        )
        return Stored(message_id=message_id, agent=target.agent, hop=0, chain=chain)

    in_order(tx, routing.targets, store, wait_ms=wait_ms)
    waits = paused_by_budget(tx) if paused else {}
    addressed = {row["agent"] for row in stored}
    notices += [f"{agent} is paused, so this waits: {why}" for agent, why in waits.items() if agent in addressed]
    message_id = stored[0]["messageId"] if stored else incoming.key
    return Accepted(message_id=message_id, trace=trace, messages=tuple(stored), notices=tuple(notices))


def _besides(incoming: Incoming, said: dict[str, Any]) -> str | None:
    """What the desk is told besides the text and who wrote it."""
    if incoming.metadata:
        said = {**said, "metadata": dict(incoming.metadata)}
    return json.dumps(said, ensure_ascii=False) if said else None


def check(incoming: Incoming, message_bytes: int) -> None:
    """Raises BadInput for what is never stored, whatever else there is: empty, too long, not text."""
    if not is_public_id(incoming.key):
        raise BadInput("A message id is 1 to 128 letters, digits, '.', ':', '_' or '-'.")
    check_text(incoming.text, message_bytes)
    for name, value in vars(incoming).items():
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
    wait: Wait | None = None,
    delay: Delay | None = None,
) -> dict[str, str]:
    """One message for one agent: into its lane, or held because the loop guard stopped it, or it waits for others.

    One that waits and was stopped as well is the loop guard's first.
    """
    lane = session(tx, target.agent)
    if held is not None:
        place: dict[str, Any] = {
            "state": int(MessageState.HELD),
            "hold_reason": HOLD_REASON,
            "last_error": held.reason,
        }
    elif wait is not None:
        place = {
            "state": int(MessageState.HELD),
            "hold_reason": wait.kind,
            "hold_ref": wait.id,
            "hold_until": wait.until,
        }
    elif delay is not None:
        place = delay.place()
    else:
        place = MESSAGES.entry(tx, lane)
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
    later: dict[str, Any] = {"not_before": delay.until} if delay is not None else {}
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
        **later,
    )
    tx.event("agent_routed", **about, by=target.by, team=target.team)
    if held is not None:
        tx.event("message_held", **about, reason=HOLD_REASON, detail=held.reason)
    elif wait is not None:
        tx.event("message_held", **about, reason=wait.kind, ref=wait.id, until=wait.until)
    elif delay is not None:
        tx.event("message_held", **about, reason=delays.REASON, until=delay.until)
    if wait is not None:
        # what it is told is known when it goes on
        begin(tx, wait, message_id, body)
    else:
        sender = row.get("from_agent") or row["sender"]
        remember(tx, target.agent, body, channel=row["channel"], sender=sender, message_id=message_id)
    return {"messageId": message_id, "agent": target.agent, "status": word(MessageState(place["state"]))}


def remember(tx: OfficeTransaction, agent: str, body: int, *, channel: str, sender: str, message_id: str) -> None:
    """What was said to an agent is part of its memory."""
    tx.insert(
        "agent_messages",
        {
            "agent_id": agent,
            "role": "user",
            "channel": channel,
            "sender": sender,
            "message_id": message_id,
            "body": body,
            "created_at": tx.now,
        },
    )
