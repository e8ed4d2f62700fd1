"""Retention: who refers to a text, which arrivals are old, and which of them have been pruned of their messages.

SQLite looks through every table that refers to `bodies` before it lets a body go: without these indexes it would read
all of them. They only ever grow at their end, and no move of a row from state to state touches them.
"""

from __future__ import annotations

import apsw

CHANGES = """
create index arrivals_body       on arrivals (body);
create index messages_body       on messages (body);
create index responses_body      on responses (body);
create index responses_original  on responses (original_body) where original_body is not null;
create index events_body         on events (body) where body is not null;
create index agent_messages_body on agent_messages (body);

create index arrivals_at on arrivals (at);
-- when the messages that followed from it were pruned: the arrival stays, so that a repetition is recognised
alter table arrivals add column pruned_at integer;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(CHANGES)
