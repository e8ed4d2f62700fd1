"""What the lake has of the ledger, in words."""

from __future__ import annotations

from manydesks.cli.quantity import count


def behind_words(events: int) -> str:
    """`events`: that it lacks; below 0: that it has, and the ledger has not."""
    if events < 0:
        return f"{count(-events, 'event')} ahead of the ledger"
    return f"{count(events, 'event')} behind the ledger" if events else "level with the ledger"


def begins_words(first: int) -> str:
    """Of a lake that does not begin with the first event of all."""
    return f"The lake begins with event {first:,}: what happened before is in none of its tables."
