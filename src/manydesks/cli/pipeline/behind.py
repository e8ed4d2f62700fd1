"""How far the lake is behind the ledger, in words."""

from __future__ import annotations

from manydesks.cli.quantity import count


def behind_words(events: int) -> str:
    return f"{count(events, 'event')} behind the ledger" if events else "level with the ledger"
