"""An office that was put back from a backup: what it cannot know any more, and how it goes on.

The ledger goes on from where the backup ends, under a new lineage: whoever has read events after that moment has read
another history, which this office does not know. Desks' files were copied before the store, so what a desk has written
up to its copy is in the store or will be taken; the numbers that it gives from there on are given for a second time,
and the cursors are set back to where the copies end, or the rows would be taken for those of the other history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manydesks.domain.states import ResponseState
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.respond import RESPONSES
from manydesks.store.transaction import WRITE_MARK

#: its name among the marks: a number that every putting back draws anew; none: the office was never put back
LINEAGE = "lineage"

MAYBE_SENT = "the office was put back from a backup, and it may have been sent since then"

#: not under way, and not ended: those under way are the recovery's
WAITING = """
select id, queue, trace, message_id, agent, session, retry_count from responses where state in (0, 2) order by id
"""
SET_BACK = "update outbound_cursors set seq = min(seq, ?) where session = ? and epoch = ?"


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What putting it back has changed."""

    #: the event that the backup ends with
    backup_seq: int
    #: responses that are unsure now
    unsure: int
    #: and those that were given up
    withdrawn: int
    #: messages that wait, and are worked on when the office opens
    waiting: int


def restored(
    tx: OfficeTransaction,
    *,
    lineage: int,
    made_at: int,
    made_by: str,
    desks: Mapping[str, tuple[str, int] | None],
    rule_of: Mapping[str, str],
    lake: bool,
) -> Restored:
    """Once, before the office opens. `desks`: by session, the epoch and the last number of its copied file; None: it is
    not known, and is read from its start. `rule_of`: by a channel's line, what it does with what may have been sent.
    `lake`: the backup has it.
    """
    ((head,),) = tx.all("select seq from ledger_head")
    before = tx.one("select seq from marks where name = ?", (LINEAGE,))
    tx.run(WRITE_MARK, (LINEAGE, lineage))
    for session, found in desks.items():
        if found is None:
            tx.run("delete from outbound_cursors where session = ?", (session,))
        else:
            epoch, last = found
            tx.run(SET_BACK, (last, session, epoch))
    if not lake:
        # nothing may be pruned because a lake has it that is not here
        tx.run("delete from marks where name = 'archived'")
    gone = {ResponseState.UNSURE: 0, ResponseState.WITHDRAWN: 0}
    for id, line, trace, message, agent, session, retries in tx.all(WAITING):
        rule = rule_of.get(line, "ask")
        if rule == "resend":
            continue
        state = ResponseState.WITHDRAWN if rule == "drop" else ResponseState.UNSURE
        gone[state] += 1
        about: dict[str, Any] = {"trace": trace, "message": message, "agent": agent, "session": session, "response": id}
        RESPONSES.remove(tx, id, state)
        tx.run("update responses set hold_reason = null, last_error = ? where id = ?", (MAYBE_SENT, id))
        if state is ResponseState.UNSURE:
            tx.event("response_unsure", **about, attempt=retries, reason=MAYBE_SENT)
        else:
            tx.event("response_withdrawn", **about, reason=MAYBE_SENT)
    tx.event("office_restored", backup_seq=head, made_at=made_at, made_by=made_by, lineage=f"{lineage:x}",
             before=f"{before[0]:x}" if before else None)  # fmt: skip
    ((waiting,),) = tx.all("select coalesce(sum(n), 0) from counters where scope = 'messages' and state in (0, 1)")
    return Restored(
        backup_seq=head,
        unsure=gone[ResponseState.UNSURE],
        withdrawn=gone[ResponseState.WITHDRAWN],
        waiting=waiting,
    )
