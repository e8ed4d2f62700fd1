"""A jobs file: named queues of jobs, their claims, and the ledger of what happened to them."""

from __future__ import annotations

import apsw

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

create table events (
  seq   integer primary key,
  at    integer not null,
  kind  text not null,
  queue text not null,
  job   integer,
  data  text
) strict;

create table queues (
  name         text primary key,
  paused       integer not null default 0,
  max_attempts integer not null
) strict, without rowid;

-- position, ready, trigger, fence and the rest of the lane columns: store/lanes.py
create table jobs (
  id          integer primary key,
  queue       text not null,
  lane        text,
  key         text,
  position    integer,
  ready       integer not null,
  trigger     integer not null default 1,
  priority    integer not null,
  state       integer not null check (state between 0 and 5),
  status      text generated always as (case state
                when 0 then 'ready' when 1 then 'claimed' when 2 then 'delayed'
                when 3 then 'completed' when 4 then 'cancelled' when 5 then 'dead' end) virtual,
  not_before  integer,
  retry_count integer not null default 0,
  fence       integer,
  last_error  text,
  body        text not null,
  created_at  integer not null,
  updated_at  integer not null
) strict;
create index jobs_ready on jobs (queue, priority desc, position) where ready = 1;
create index jobs_timer on jobs (not_before) where ready = 2;
create index jobs_lane  on jobs (lane, position) where state <= 1 and lane is not null;
create index jobs_claim on jobs (fence) where state = 1;
create index jobs_wait  on jobs (queue, not_before) where state = 0 and not_before is not null;
create index jobs_dead  on jobs (queue, id) where state = 5;
create unique index jobs_key on jobs (queue, key) where key is not null and state <= 2;

create table claims (
  fence  integer primary key,
  lane   text,
  worker text not null,
  until  integer not null,
  boot   text not null,
  size   integer not null
) strict;
create unique index claims_lane on claims (lane) where lane is not null;
create index claims_until on claims (until);

create table counters (
  scope text not null,
  agent text not null,
  state integer not null,
  n     integer not null,
  primary key (scope, agent, state)
) strict, without rowid;

create view export_events as select seq, at, kind, queue, job, data from events;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(SCHEMA)
