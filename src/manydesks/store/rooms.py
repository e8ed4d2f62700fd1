"""The chat rooms of teams: each post is stored once, and delivered to every other member as a message of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from manydesks.domain.routing import Post
from manydesks.store.ledger import OfficeTransaction

#: how the ids of deliveries begin
PREFIX = "chatroom"
#: the channel of rooms: nothing leaves the office through it
CHANNEL = "room"


def room_id(team: str) -> str:
    """The conversation of a team's room."""
    return f"room:{team}"


def content(team: str) -> str:
    """What the desk is told besides the text and who wrote it."""
    return json.dumps({"room": team})


def post_all(
    tx: OfficeTransaction,
    posts: Sequence[Post],
    *,
    trace: str,
    sender: str,
    message: Mapping[str, Any] | None = None,
    run: str | None = None,
) -> dict[tuple[str, str], int]:
    """Store what is posted; by team and text the body, which the deliveries share.

    `message`: the one that an agent was answering; None: `sender`, a person, posts.
    """
    bodies: dict[tuple[str, str], int] = {}
    for post in posts:
        key = (post.team, post.text)
        if key not in bodies:
            bodies[key] = tx.body(post.text)
        _open(tx, post.team)
        agent = message["agent"] if message is not None else None
        row = tx.insert(
            "chat_messages",
            {
                "team_id": post.team,
                "from_agent": agent,
                "sender": agent or sender,
                "message": message["message_id"] if message is not None else None,
                "run": run,
                "trace": trace,
                "body": bodies[key],
                "created_at": tx.now,
            },
        )
        tx.event(
            "chatroom_posted",
            trace=trace,
            parent=message["message_id"] if message is not None else None,
            run=run,
            agent=agent,
            body=bodies[key],
            **{"from": agent or sender},
            team=post.team,
            post=row,
        )
    return bodies


def has_posted(tx: OfficeTransaction, message_id: str, run: str) -> bool:
    """Whether the run has posted something in a room for this message."""
    return tx.one("select 1 from chat_messages where run = ? and message = ? limit 1", (run, message_id)) is not None


def _open(tx: OfficeTransaction, team: str) -> None:
    """The room is a place like others, made when somebody first says something there."""
    if tx.one("select 1 from conversations where id = ?", (room_id(team),)) is not None:
        return
    row = {
        "id": room_id(team),
        "channel": CHANNEL,
        "instance": "",
        "platform_id": team,
        "kind": "room",
        "created_at": tx.now,
    }
    tx.insert("conversations", row)
    tx.event("conversation_added", after=row)
