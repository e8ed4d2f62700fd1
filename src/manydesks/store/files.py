"""Which files the store names: what is in the home's `files/` and not among them is nobody's."""

from __future__ import annotations

import json
from collections.abc import Sequence

from manydesks.store.ledger import OfficeTransaction

NAMED = (
    "select files from responses where files is not null union all select files from messages where files is not null"
)
#: by the unique index, however many messages there are
THERE = "select message_id from messages where message_id in (select value from json_each(?))"


def named(tx: OfficeTransaction) -> set[str]:
    """Paths, relative to the home."""
    return {file["path"] for (files,) in tx.all(NAMED) for file in json.loads(files)}


def messages(tx: OfficeTransaction, ids: Sequence[str]) -> set[str]:
    """Which of these messages are there still."""
    return {id for (id,) in tx.all(THERE, (json.dumps(list(ids)),))}
