"""What else follows when a message has ended: whoever waited for it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.store import mates, questions, release
from manydesks.store.ledger import OfficeTransaction


def message_ended(tx: OfficeTransaction, message: Mapping[str, Any], *, well: bool, reason: str = "") -> None:
    """`message` is its row (`ORIGIN`); it has its last state already. `well`: it was answered."""
    questions.message_ended(tx, message, well=well, reason=reason)
    mates.message_ended(tx, message, well=well, reason=reason)
    release.message_ended(tx, message, well=well, reason=reason)
