"""How many rows a claim began with: while all of them are under way, no other row can ever have been one of them."""

from __future__ import annotations

import apsw

SCHEMA = """
alter table claims add column size integer not null default 1;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(SCHEMA)
