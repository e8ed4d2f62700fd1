"""A number that is another one whenever agents or teams have changed in a way that matters to addresses.

Whoever knows what the number stood for need not read them again. It is drawn, not counted: a change that was rolled
back must not look like the next one.
"""

from __future__ import annotations

import apsw

#: what addresses are made of
_WATCHED = {"agents": ("name", "reaches", "removed_at"), "teams": ("name", "leader"), "team_members": ("team", "agent")}
_DRAW = "update people_version set value = random() where only = 1"


def apply(db: apsw.Connection) -> None:
    db.execute(
        "create table people_version (only integer primary key check (only = 1), value integer not null) strict;"
        "insert into people_version (only, value) values (1, random())"
    )
    for table, columns in _WATCHED.items():
        # an update that writes what was there already is no change
        differs = " or ".join(f"old.{column} is not new.{column}" for column in columns)
        acts = {"insert": "", "delete": "", "update": f"when {differs}"}
        for act, when in acts.items():
            db.execute(f"create trigger people_{table}_{act} after {act} on {table} {when} begin {_DRAW}; end")
