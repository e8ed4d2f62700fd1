"""What the pipeline publishes for those who have no Spark: the names that a writer, a reader and an asker agree on."""

from __future__ import annotations

#: the file in the lake's folder
FILE = "gold.db"
#: of the file; it changes when a table or a column is renamed or means something else
VERSION = 1

#: the tables of gold that are published, in the order in which people look at them
TABLES = (
    "agent_daily",
    "channel_daily",
    "handoff_matrix",
    "trace_summary",
    "cost_daily",
    "dead_letters",
    "busy_hours",
    "topics_daily",
    "slo",
)

#: columns of these tables that are true or false; SQLite has only 1 and 0 for that
FLAGS = frozenset({"still_dead"})

#: rows that one question gets at most
MOST_ROWS = 1_000

#: `query_history`: what the desk writes, and what the host takes
ACTION = "query_history"
#: rows that an agent gets at most; each costs it tokens
MOST_FOR_AGENT = 200
