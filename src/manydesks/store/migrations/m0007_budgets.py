"""Budgets: what was spent and is reserved by scope and day, and what each run has to do with it."""

from __future__ import annotations

import apsw

SCHEMA = """
-- dollars are millionths; `subject` is the agent's id or the trace's, empty for the office; `day` is empty for a trace
create table spending (
  scope           text not null check (scope in ('agent', 'office', 'trace')),
  subject         text not null,
  day             text not null,
  spent_usd       integer not null default 0,
  spent_tokens    integer not null default 0,
  spent_runs      integer not null default 0,
  reserved_usd    integer not null default 0,
  reserved_tokens integer not null default 0,
  reserved_runs   integer not null default 0,
  -- how often the owner has allowed as much again, and was asked
  extra           integer not null default 0,
  asked           integer not null default 0,
  primary key (scope, subject, day)
) strict, without rowid;

-- to whose account a run goes; runs that ended before this know none
alter table runs add column day text;
alter table runs add column trace text;
-- when it began; with its end it is no longer reserved
alter table runs add column reserved_usd integer not null default 0;
alter table runs add column reserved_tokens integer not null default 0;
alter table runs add column reserved_runs integer not null default 0;
-- what went through the office's proxy, by its own count
alter table runs add column metered_usd integer;
alter table runs add column metered_tokens integer;
create index runs_agent on runs (agent, ended_at) where ended_at is not null;

-- `paused`: 1 a person did it, 2 the budget did, 3 both; the reason is the budget's, which looks again at that moment
alter table agents add column pause_reason text;
alter table agents add column pause_until integer;
create index agents_over_budget on agents (pause_until) where paused >= 2;

-- who asks: an agent, or the office itself about a budget; `about` is the scope, subject and day
alter table questions add column kind text not null default 'agent' check (kind in ('agent', 'budget'));
alter table questions add column about text;
create index questions_about on questions (about) where about is not null;
"""


def apply(db: apsw.Connection) -> None:
    db.execute(SCHEMA)
