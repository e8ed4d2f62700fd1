"""What else follows when a message has ended: whoever waited for it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.store import mates, questions, release
from manydesks.store.ledger import OfficeTransaction

#: whether it was asked something for the message, and whether it waits for others or others wait for it: seldom either
FOLLOWS = """
select exists (select 1 from questions where message = ?1),
  exists (select 1 from joins where message = ?1) or exists (select 1 from join_parts where message = ?1)
"""


def message_ended(tx: OfficeTransaction, message: Mapping[str, Any], *, well: bool, reason: str = "") -> None:
    """`message` is its row (`ORIGIN`); it has its last state already. `well`: it was answered."""
    ((asked, waits),) = tx.all(FOLLOWS, (message["message_id"],))
    if asked:
        questions.message_ended(tx, message, well=well, reason=reason)
    mates.message_ended(tx, message, well=well, reason=reason)
    if waits:
        release.message_ended(tx, message, well=well, reason=reason)
