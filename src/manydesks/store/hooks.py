"""What hooks have to know of messages, and how far their listeners were told of the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from manydesks.store.ledger import OfficeTransaction

#: of the run that is under way: what belongs to another is about to be discarded
ANSWERED = """
select m.message_id, m.trace, m.channel, m.instance, m.platform_id, m.thread_id, m.sender, m.sender_id, m.content
from runs r join messages m on m.message_id = coalesce(?3, r.message)
where r.id = ?1 and r.session = ?2 and r.ended_at is null
"""
MARK = "hook:"
READ = "select seq from marks where name = ?"
#: never back: two hosts follow one another, and the later one knows more
MOVE = """
insert into marks (name, seq) values (?, ?)
on conflict (name) do update set seq = max(seq, excluded.seq)
"""


def answered(
    tx: OfficeTransaction, session: str, rows: Sequence[tuple[str, str, str | None]]
) -> dict[str, dict[str, Any]]:
    """For rows of a desk (id, run, what it answers) that belong to a run under way: what they answer, by id."""
    names = ("message", "trace", "channel", "instance", "platform_id", "thread", "sender", "sender_id")
    found = {}
    for id, run, in_reply_to in rows:
        row = tx.one(ANSWERED, (run, session, in_reply_to))
        if row is not None:
            content = json.loads(row[-1] or "{}")
            asked = content.get("metadata") if isinstance(content, dict) else None
            found[id] = {
                **dict(zip(names, (value or "" for value in row[:-1]), strict=True)),
                "asked": asked if isinstance(asked, dict) else {},
            }
    return found


def listener_mark(tx: OfficeTransaction, plugin: str) -> int:
    """How far this plugin was told; one that is new begins at the ledger's head, from now on."""
    known = tx.one(READ, (MARK + plugin,))
    if known is not None:
        return int(known[0])
    (head,) = tx.one("select seq from ledger_head") or (0,)
    move_listener(tx, plugin, int(head))
    return int(head)


def move_listener(tx: OfficeTransaction, plugin: str, seq: int) -> None:
    tx.run(MOVE, (MARK + plugin, seq))
