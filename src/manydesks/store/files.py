"""Which files the store names: what is in the home's `files/` and not among them is nobody's."""

from __future__ import annotations

import json

from manydesks.store.ledger import OfficeTransaction

NAMED = (
    "select files from responses where files is not null union all select files from messages where files is not null"
)


def named(tx: OfficeTransaction) -> set[str]:
    """Paths, relative to the home."""
    return {file["path"] for (files,) in tx.all(NAMED) for file in json.loads(files)}
