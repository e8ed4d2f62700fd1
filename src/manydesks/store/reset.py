"""An agent begins anew: its sessions end, and their next generations take over what waits."""

from __future__ import annotations

from typing import Any

from manydesks.domain.errors import WrongState
from manydesks.store.agents import get_agent
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.places import session

ACTIVE = """
select id, conversation, thread, mode, generation from sessions where agent = ? and status = 'active' order by id
"""
RUNNING = "select 1 from messages where queue = ? and state = 1 limit 1"

#: what may still begin, each by the index that finds it: pending ones through their lane, held and dead ones, which may
#: be released and retried, through their agent. Positions stay, so the order does, and so do the marks of lanes
WAITING = (
    "update messages set session = ?1, lane = ?1 where lane = ?2 and state <= 1 and state = 0",
    "update messages indexed by messages_held set session = ?1, lane = ?1 where agent = ?3 and state = 2 and lane = ?2",
    "update messages indexed by messages_dead set session = ?1, lane = ?1 where agent = ?3 and state = 5 and lane = ?2",
)


def reset_agent(tx: OfficeTransaction, id: str, *, actor: str = "owner") -> list[dict[str, Any]]:
    """Close the agent's active sessions and open the next generation of each; one entry for each.

    Refused while it has a run: what the run would leave behind belongs to a session that is over.
    """
    get_agent(tx, id)
    if tx.one(RUNNING, (id,)) is not None:
        raise WrongState(
            f"The agent '{id}' is at work; reset it when its run has ended, or stop the run first: "
            f"`manydesks queue cancel --agent {id}`."
        )
    done = []
    for before, conversation, thread, mode, generation in tx.all(ACTIVE, (id,)):
        tx.run("update sessions set status = 'closed' where id = ?", (before,))
        tx.event("session_closed", session=before, agent=id, generation=generation, reason="reset", actor=actor)
        after = session(tx, id, conversation=conversation, thread=thread, mode=mode)
        moved = 0
        for sql in WAITING:
            tx.run(sql, (after, before, id) if "?3" in sql else (after, before))
            moved += tx.db.changes()
        tx.event("session_reset", session=after, agent=id, generation=generation + 1, before=before, moved=moved,
                 actor=actor)  # fmt: skip
        done.append({"session": after, "before": before, "generation": generation + 1, "moved": moved})
    return done
