"""Texts: as an expression over a row that names one by its `body`."""

from __future__ import annotations

FORGOTTEN = "(forgotten)"
#: of the row it is asked with, as it is stored
TEXT = "(select b.text from bodies b where b.id = body)"


def shown(bodies: str) -> str:
    """The expression for the text of this table of texts, by its alias; the views `…_text` have the same."""
    return f"case when {bodies}.erased_at is null then {bodies}.text else '{FORGOTTEN}' end"
