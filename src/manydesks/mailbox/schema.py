"""The tables of both files. Sessions live for months, so each file says which schema it has.

A file of an older schema is upgraded by the side that owns it (`UPGRADES_IN`, `UPGRADES_OUT`: schema number → the
statements that lead to the next one); the host reads every outbound schema that `OUTBOUND` still lists.
"""

from __future__ import annotations

INBOUND_SCHEMA = 1
OUTBOUND_SCHEMA = 1

INBOUND = (
    """CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  schema INTEGER NOT NULL,
  session TEXT NOT NULL,
  agent TEXT NOT NULL,
  last_seq INTEGER NOT NULL
) STRICT""",
    # status: pending; withdrawn (back in the lane); settled (the host has read its ack: the desk need not look again)
    """CREATE TABLE messages_in (
  seq INTEGER PRIMARY KEY CHECK (seq % 2 = 0),
  id TEXT NOT NULL UNIQUE,
  run TEXT NOT NULL,
  fence INTEGER NOT NULL,
  kind TEXT NOT NULL,
  at INTEGER NOT NULL,
  status TEXT NOT NULL,
  status_changed INTEGER NOT NULL,
  not_before INTEGER,
  tries INTEGER NOT NULL,
  "trigger" INTEGER NOT NULL,
  reply_to TEXT,
  content TEXT NOT NULL
) STRICT""",
    "CREATE INDEX messages_in_pending ON messages_in (seq) WHERE status = 'pending'",
    "CREATE INDEX messages_in_fence ON messages_in (fence)",
    """CREATE TABLE delivered (
  out_id TEXT PRIMARY KEY,
  receipt TEXT,
  status TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE destinations (
  name TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  label TEXT NOT NULL
) STRICT""",
    """CREATE TABLE control (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  verb TEXT NOT NULL,
  data TEXT NOT NULL
) STRICT""",
)

# One odd counter (`meta.last_seq`) numbers messages_out, acks and steps, so one cursor covers all three.
OUTBOUND_1 = (
    """CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  schema INTEGER NOT NULL,
  epoch TEXT NOT NULL,
  last_seq INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE messages_out (
  seq INTEGER PRIMARY KEY CHECK (seq % 2 = 1),
  id TEXT NOT NULL UNIQUE,
  run TEXT NOT NULL,
  fence INTEGER NOT NULL,
  in_reply_to TEXT,
  at INTEGER NOT NULL,
  deliver_after INTEGER,
  kind TEXT NOT NULL,
  destination TEXT,
  content TEXT NOT NULL
) STRICT""",
    """CREATE TABLE acks (
  seq INTEGER PRIMARY KEY CHECK (seq % 2 = 1),
  message TEXT NOT NULL,
  run TEXT NOT NULL,
  fence INTEGER NOT NULL,
  status TEXT NOT NULL,
  class TEXT,
  reason TEXT,
  retry_after REAL,
  at INTEGER NOT NULL,
  UNIQUE (fence, message)
) STRICT""",
    """CREATE TABLE steps (
  seq INTEGER PRIMARY KEY CHECK (seq % 2 = 1),
  run TEXT NOT NULL,
  at INTEGER NOT NULL,
  type TEXT NOT NULL,
  data TEXT NOT NULL
) STRICT""",
    """CREATE TABLE state (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT""",
)

#: every outbound schema that the host reads
OUTBOUND: dict[int, tuple[str, ...]] = {1: OUTBOUND_1}

UPGRADES_IN: dict[int, tuple[str, ...]] = {}
UPGRADES_OUT: dict[int, tuple[str, ...]] = {}
