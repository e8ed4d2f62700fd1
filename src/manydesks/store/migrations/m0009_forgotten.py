"""Whoever reads a text that was forgotten is told so."""

from __future__ import annotations

import apsw

#: `m.*` and `r.*` are every column that the tables have by now, and get later
SCHEMA = """
drop view messages_text;
drop view responses_text;
create view messages_text as
  select m.*, case when b.erased_at is null then b.text else '(forgotten)' end as text
  from messages m join bodies b on b.id = m.body;
create view responses_text as
  select r.*, case when b.erased_at is null then b.text else '(forgotten)' end as text,
    case when o.erased_at is null then o.text else '(forgotten)' end as original_text
  from responses r join bodies b on b.id = r.body left join bodies o on o.id = r.original_body;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(SCHEMA)
