"""A number that is another one whenever agents or teams have changed in a way that matters to addresses.

Whoever knows what the number stood for need not read them again. It is drawn, not counted: a change that was rolled
back must not look like the next one.
"""

from __future__ import annotations

import apsw

#: what addresses are made of
_WATCHED = {
    "agents": ("insert", "delete", "update of name, reaches, removed_at"),
    "teams": ("insert", "delete", "update"),
    "team_members": ("insert", "delete", "update"),
}
_DRAW = "update people_version set value = random() where only = 1"


def apply(db: apsw.Connection) -> None:
    db.execute(
        "create table people_version (only integer primary key check (only = 1), value integer not null) strict;"
        "insert into people_version (only, value) values (1, random())"
    )
    for table, acts in _WATCHED.items():
        for act in acts:
            name = f"people_{table}_{act.split()[0]}"
            db.execute(f"create trigger {name} after {act} on {table} begin {_DRAW}; end")
