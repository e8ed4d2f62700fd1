"""Delivery piece by piece: what holds a response, how much of it is out, since when its age
counts, and when a client first fetched it."""

from __future__ import annotations

import apsw

SCHEMA = """
alter table responses add column hold_reason text;
alter table responses add column progress text;
alter table responses add column renewed_at integer;
alter table responses add column given_at integer;
create index responses_held    on responses (queue, position) where state = 2;
create index responses_unsure  on responses (id) where state = 3;
create index responses_dead    on responses (id) where state = 6;
create index responses_expired on responses (id) where state = 7;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(SCHEMA)
