"""Questions of agents to people; messages that carry more than a text; answers that go back to the agent who asked."""

from __future__ import annotations

import apsw

CHANGES = """
create table questions (
  id          text primary key,
  -- what the desk calls it: the word `answer` names it so
  desk_id     text not null,
  session     text not null references sessions (id),
  agent       text not null,
  run         text not null,
  message     text not null,
  key         text not null,
  title       text not null,
  question    text not null,
  options     text not null,
  response    integer not null,
  state       integer not null check (state between 0 and 3),
  status      text generated always as (case state
                when 0 then 'asked' when 1 then 'answered' when 2 then 'expired' when 3 then 'withdrawn' end) virtual,
  answer      text,
  selected    text,
  answered_by text,
  -- 1: a tool at the desk waits for the answer
  waited      integer not null default 1,
  -- 1: the agent knows how it ended
  told        integer not null default 0,
  asked_at    integer not null,
  answered_at integer,
  expires_at  integer not null
) strict;
create index questions_open    on questions (expires_at) where state = 0;
create index questions_key     on questions (session, key);
create index questions_untold  on questions (session) where told = 0 and state > 0;
create index questions_message on questions (message);

-- what the desk gets instead of a text and its sender; JSON
alter table messages add column content text;
-- the agent that asked with `send_to_agent`, and is told the answer
alter table messages add column asker text;
-- the row of the desk that handed it over
alter table messages add column outbound text;

-- edits and reactions name a row of the desk
create index responses_files on responses (id) where files is not null;
create index messages_files  on messages (id) where files is not null;
create index responses_desk on responses (session, outbound) where outbound is not null;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(CHANGES)
