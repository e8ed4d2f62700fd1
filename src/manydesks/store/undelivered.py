"""An answer that could not be delivered: the agent that wrote it is told, once, and never about what follows from that.

The note is a message of kind `system` in the trace of the answer. What the agent says to it goes to the same place, and
may not arrive either; of that, and of whatever follows from it, nobody is told again. The caps of the loop guard bind
as well.
"""

from __future__ import annotations

from manydesks.domain.loopguard import Limits
from manydesks.store.ledger import OfficeTransaction
from manydesks.store.notices import tell
from manydesks.store.respond import SAYINGS, origin

ACTION = "delivery"

DEAD = "select message_id, operation, channel, sender from responses where id = ? and agent is not null"
#: the message that was answered, and those that it follows from
FOLLOWS_FROM_NOTE = """
with recursive line (message_id, parent, kind, content, depth) as (
  select message_id, parent, kind, content, 0 from messages where message_id = ?1
  union all
  select m.message_id, m.parent, m.kind, m.content, line.depth + 1
  from line join messages m on m.message_id = line.parent where line.depth < ?2
)
select 1 from line where kind = 'system' and json_extract(content, '$.action') = ?3 limit 1
"""
TOLD = """
select 1 from messages where trace = ? and parent = ? and kind = 'system' and json_extract(content, '$.action') = ?
"""


def tell_agent(tx: OfficeTransaction, response: int, reason: str, limits: Limits) -> None:
    """Once for each message that was answered, whatever number of parts the answer had."""
    row = tx.one(DEAD, (response,))
    if row is None or row[0] is None or row[1] not in SAYINGS:
        return  # the office's own words: no agent wrote them
    message_id, _, channel, sender = row
    if tx.one("select 1 from messages where message_id = ?", (message_id,)) is None:
        return
    message = origin(tx, message_id)
    (stored,) = tx.one("select count(*) from messages where trace = ?", (message["trace"],)) or (0,)
    if message["hop"] >= limits.hops or stored >= limits.per_trace:
        return
    if tx.one(FOLLOWS_FROM_NOTE, (message_id, limits.hops + 1, ACTION)) is not None:
        return
    if tx.one(TOLD, (message["trace"], message_id, ACTION)) is not None:
        return
    result = (
        f"Your answer did not reach {sender} on {channel}: {reason}. It is kept as response {response}, and its owner "
        "can send it again. What you say to this goes to the same place; say nothing if that would not help."
    )
    content = {"action": ACTION, "status": "failed", "response": response, "result": result}
    tell(tx, message, message["agent"], content, hop=message["hop"] + 1)
