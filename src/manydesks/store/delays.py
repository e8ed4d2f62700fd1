"""Messages for later: held until their moment, and then at the end of their lane, as if they had come just then."""

from __future__ import annotations

from typing import Any, NamedTuple

from manydesks.domain.states import MessageState
from manydesks.store.lanes import Lanes
from manydesks.store.ledger import OfficeTransaction

REASON = "delay"
#: how many moments one transaction looks after
SWEEP = 500

_DUE = """
select id, message_id, trace, session, agent from messages
where ready = 2 and not_before <= ? and state = 2 and hold_reason = 'delay' order by not_before limit ?
"""


class Delay(NamedTuple):
    #: ms UTC, as it was asked for
    until: int
    #: the same on the clock that nobody sets
    steady: int

    def place(self) -> dict[str, Any]:
        """Columns for a row that is about to be inserted."""
        return {
            "state": int(MessageState.HELD),
            "hold_reason": REASON,
            "hold_until": self.until,
            "not_before": self.steady,
            "ready": 2,
        }


def delay_of(tx: OfficeTransaction, not_before: int | None) -> Delay | None:
    """None: its moment has come."""
    if not_before is None or not_before <= tx.now:
        return None
    return Delay(not_before, tx.steady + not_before - tx.now)


def release_due(tx: OfficeTransaction, lanes: Lanes) -> None:
    """Those whose moment has come enter their lanes."""
    for row, message, trace, session, agent in tx.all(_DUE, (tx.steady, SWEEP)):
        tx.run("update messages set hold_reason = null, hold_until = null where id = ?", (row,))
        lanes.enter(tx, row)
        tx.event("message_released", trace=trace, message=message, session=session, agent=agent, reason=REASON)
