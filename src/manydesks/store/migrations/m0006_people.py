"""Whom an agent may address beyond its team mates, and when a team was last changed."""

from __future__ import annotations

import apsw

SCHEMA = """
-- a JSON array of agents' ids
alter table agents add column reaches text not null default '[]';
alter table teams add column updated_at integer;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(SCHEMA)
