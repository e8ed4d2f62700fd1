"""Messages that wait for others (chains, joins), and what was posted in the rooms of teams."""

from __future__ import annotations

import apsw

SCHEMA = """
create table joins (
  id         text primary key,
  -- the message that waits; held until all has come that it waits for
  message    text not null unique,
  -- chain: it needs every answer; join: it runs whatever became of the others
  kind       text not null check (kind in ('chain', 'join')),
  state      integer not null check (state between 0 and 3),
  status     text generated always as (case state
               when 0 then 'open' when 1 then 'complete' when 2 then 'timed_out' when 3 then 'broken' end) virtual,
  -- how long it waits, in milliseconds, and until when: a moment of the file's steady time
  wait_ms    integer not null,
  deadline   integer not null,
  -- the message's own text, before the answers are added to it
  body       integer not null references bodies (id),
  -- 1: they were
  told       integer not null default 0,
  created_at integer not null,
  ended_at   integer
) strict;
-- null: it has ended, and no deadline counts any more
create index joins_deadline on joins (deadline) where ended_at is null;
create index joins_body on joins (body);

create table join_parts (
  join_id text not null references joins (id) on delete cascade,
  -- in which order the answers are told
  place   integer not null,
  message text not null,
  state   integer not null default 0 check (state between 0 and 3),
  status  text generated always as (case state
            when 0 then 'open' when 1 then 'answered' when 2 then 'dead' when 3 then 'lost' end) virtual,
  reason  text,
  primary key (join_id, place)
) strict, without rowid;
create unique index join_parts_message on join_parts (message, join_id);

create table chat_messages (
  id         integer primary key autoincrement,
  team_id    text not null,
  -- null: a person, who is named by sender
  from_agent text,
  sender     text not null,
  -- the message that was being answered, and in which run; null for a person's post
  message    text,
  run        text,
  trace      text not null,
  body       integer not null references bodies (id),
  created_at integer not null
) strict;
create index chat_messages_team on chat_messages (team_id, id);
create index chat_messages_body on chat_messages (body);
create index chat_messages_run  on chat_messages (run, message) where run is not null;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(SCHEMA)
