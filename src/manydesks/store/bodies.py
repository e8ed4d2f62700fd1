"""Texts as they are shown to people."""

from __future__ import annotations

FORGOTTEN = "(forgotten)"


def shown(bodies: str) -> str:
    """The expression for the text of this table of texts, by its alias; the views `…_text` have the same."""
    return f"case when {bodies}.erased_at is null then {bodies}.text else '{FORGOTTEN}' end"
