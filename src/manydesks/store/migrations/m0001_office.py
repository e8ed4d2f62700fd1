"""The office: who works here, what came in, what goes out, and the ledger of everything that happened."""

from __future__ import annotations

import apsw

#: rows that lanes and claims carry (store/lanes.py) share these columns
#:   queue     what a worker claims from: the agent of a message, the channel of a response
#:   lane      the ordering unit; at most one live claim each
#:   position  order inside the lane, given on entering `pending`
#:   ready     1: may be claimed now; 2: a timer (not_before) will make it ready; 0: something else must happen first
SCHEMA = """
create table marks (
  name text primary key,
  seq  integer not null
) strict;

create table ledger_head (
  only integer primary key check (only = 1),
  seq  integer not null
) strict;
insert into ledger_head (only, seq) values (1, 0);

create table bodies (
  id        integer primary key autoincrement,
  text      text not null,
  erased_at integer
) strict;

create table events (
  seq     integer primary key,
  at      integer not null,
  kind    text not null,
  trace   text,
  parent  text,
  message text,
  run     text,
  session text,
  agent   text,
  body    integer references bodies (id),
  data    text not null
) strict;
create index events_trace on events (trace, seq) where trace is not null;

create table agents (
  id          text primary key,
  name        text not null,
  provider    text not null,
  model       text,
  workspace   text not null,
  sandbox     text,
  concurrency integer not null default 1,
  budget      text,
  heartbeat   text,
  options     text not null default '{}',
  paused      integer not null default 0,
  created_at  integer not null,
  updated_at  integer not null,
  removed_at  integer
) strict;

create table teams (
  id         text primary key,
  name       text not null,
  leader     text not null references agents (id),
  created_at integer not null
) strict;

create table team_members (
  team  text not null references teams (id) on delete cascade,
  agent text not null references agents (id),
  primary key (team, agent)
) strict, without rowid;

create table conversations (
  id              text primary key,
  channel         text not null,
  instance        text not null,
  platform_id     text not null,
  kind            text not null check (kind in ('dm', 'group', 'room', 'agent', 'api', 'console')),
  name            text,
  default_agent   text,
  unknown_senders text,
  created_at      integer not null,
  unique (channel, instance, platform_id)
) strict;

create table sessions (
  id           text primary key,
  agent        text not null references agents (id),
  conversation text not null,
  thread       text not null,
  generation   integer not null,
  mode         text not null check (mode in ('agent', 'shared', 'per_thread')),
  provider     text,
  model        text,
  continuation text,
  host         text,
  status       text not null check (status in ('active', 'closed')),
  last_active  integer not null,
  created_at   integer not null,
  unique (agent, conversation, thread, generation)
) strict;
create unique index sessions_active on sessions (agent, conversation, thread) where status = 'active';

create table arrivals (
  source       text not null,
  key          text not null,
  trace        text not null,
  conversation text not null,
  thread       text not null,
  sender       text not null,
  sender_id    text not null,
  body         integer not null references bodies (id),
  at           integer not null,
  primary key (source, key)
) strict, without rowid;
create unique index arrivals_trace on arrivals (trace);

create table messages (
  id                  integer primary key autoincrement,
  message_id          text not null unique,
  arrival             text,
  trace               text not null,
  parent              text,
  hop                 integer not null default 0,
  chain               text not null default '',
  run                 text,
  session             text not null references sessions (id),
  lane                text,
  queue               text not null,
  position            integer,
  ready               integer not null default 0,
  kind                text not null default 'chat' check (kind in ('chat', 'task', 'webhook', 'system')),
  trigger             integer not null default 1,
  priority            integer not null default 0,
  state               integer not null check (state between 0 and 5),
  status              text generated always as (case state
                        when 0 then 'pending' when 1 then 'processing' when 2 then 'held'
                        when 3 then 'completed' when 4 then 'cancelled' when 5 then 'dead' end) virtual,
  not_before          integer,
  schedule            text,
  slot_at             integer,
  hold_reason         text,
  hold_ref            text,
  hold_until          integer,
  retry_count         integer not null default 0,
  fence               integer,
  last_error          text,
  channel             text not null,
  instance            text not null default '',
  platform_id         text not null,
  thread_id           text not null default '',
  platform_message_id text,
  sender              text not null,
  sender_id           text not null default '',
  agent               text not null,
  from_agent          text,
  from_run            text,
  body                integer not null references bodies (id),
  files               text,
  created_at          integer not null,
  updated_at          integer not null
) strict;
create index messages_trace on messages (trace);
create index messages_ready on messages (queue, priority desc, position) where ready = 1;
create index messages_timer on messages (not_before) where ready = 2;
create index messages_lane  on messages (lane, position) where state <= 1;
create index messages_claim on messages (fence) where state = 1;
create index messages_dead  on messages (agent, id) where state = 5;
create index messages_held  on messages (agent, id) where state = 2;
create index messages_pair  on messages (from_agent, agent, created_at) where from_agent is not null;

create table responses (
  id            integer primary key autoincrement,
  message_id    text,
  run           text,
  outbound      text,
  part          integer not null default 1,
  trace         text,
  session       text,
  lane          text,
  queue         text not null,
  position      integer,
  ready         integer not null default 0,
  trigger       integer not null default 1,
  priority      integer not null default 0,
  channel       text not null,
  instance      text not null default '',
  platform_id   text not null,
  thread_id     text not null default '',
  reply_to      text,
  sender        text not null,
  sender_id     text not null default '',
  agent         text,
  operation     text not null default 'message',
  body          integer not null references bodies (id),
  original_body integer references bodies (id),
  files         text,
  metadata      text,
  state         integer not null check (state between 0 and 7),
  status        text generated always as (case state
                  when 0 then 'pending' when 1 then 'sending' when 2 then 'held' when 3 then 'unsure'
                  when 4 then 'acked' when 5 then 'withdrawn' when 6 then 'dead' when 7 then 'expired' end) virtual,
  not_before    integer,
  schedule      text,
  slot_at       integer,
  retry_count   integer not null default 0,
  fence         integer,
  receipts      text,
  last_error    text,
  created_at    integer not null,
  updated_at    integer not null,
  acked_at      integer
) strict;
create index responses_message on responses (message_id) where message_id is not null;
create unique index responses_outbound on responses (run, outbound) where outbound is not null;
create index responses_trace on responses (trace) where trace is not null;
create index responses_ready on responses (queue, priority desc, position) where ready = 1;
create index responses_timer on responses (not_before) where ready = 2;
create index responses_lane  on responses (lane, position) where state <= 1;
create index responses_claim on responses (fence) where state = 1;

create table claims (
  fence  integer primary key,
  lane   text unique,
  worker text not null,
  until  integer not null,
  boot   text not null
) strict;
create index claims_worker on claims (worker);

create table runs (
  id                 text primary key,
  session            text not null references sessions (id),
  agent              text not null,
  attempt            integer not null,
  message            text not null,
  fence              integer not null,
  provider           text not null,
  model              text,
  started_at         integer not null,
  ended_at           integer,
  outcome            text,
  reason             text,
  input_tokens       integer,
  output_tokens      integer,
  cache_read_tokens  integer,
  cache_write_tokens integer,
  cost_usd           real
) strict;
create index runs_session on runs (session, fence);

create table run_messages (
  run     text not null references runs (id),
  message text not null,
  primary key (run, message)
) strict, without rowid;
create index run_messages_message on run_messages (message);

create table agent_messages (
  id         integer primary key autoincrement,
  agent_id   text not null,
  role       text not null check (role in ('user', 'assistant')),
  channel    text not null,
  sender     text not null,
  message_id text,
  body       integer not null references bodies (id),
  created_at integer not null
) strict;
create index agent_messages_agent on agent_messages (agent_id, id);

create table outbound_cursors (
  session text not null references sessions (id),
  epoch   text not null,
  seq     integer not null,
  primary key (session, epoch)
) strict, without rowid;

create table counters (
  scope text not null,
  agent text not null,
  state integer not null,
  n     integer not null,
  primary key (scope, agent, state)
) strict, without rowid;

create view messages_text as
  select m.*, b.text as text from messages m join bodies b on b.id = m.body;
create view responses_text as
  select r.*, b.text as text, o.text as original_text
  from responses r join bodies b on b.id = r.body left join bodies o on o.id = r.original_body;

-- version 1: what the pipeline reads, and nothing else
create view export_events as
  select seq, at, kind, trace, parent, message, run, session, agent, body, data from events;
create view export_bodies as
  select id, text, erased_at from bodies;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(SCHEMA)
