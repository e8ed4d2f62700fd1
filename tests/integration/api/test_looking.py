"""Looks at what is there: from the oldest event that is kept, at a lake that lies elsewhere, by an id like a number."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from manydesks.domain.insight import FILE, VERSION
from manydesks.testing.api import ServedOffice


def test_events_begin_at_the_oldest_that_is_kept(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served()
    office.stop()
    db = apsw.Connection(str(home / "office.db"))
    with db:  # as retention does it, thirty days later
        db.execute("delete from events where seq <= 2")
        db.execute("insert or replace into marks (name, seq) values ('pruned', 2)")
    db.close()
    office.start()
    with office.caller() as api:
        first, second = api.get("/api/events", params={"limit": 2}).json()["events"]
        assert (first["seq"], second["seq"]) == (3, 4)
        assert api.get("/api/events", params={"after": 0}).status_code == 410


def test_figures_of_a_lake_elsewhere_are_in_the_home(make_served: Callable[..., ServedOffice], home: Path) -> None:
    office = make_served(pipeline__lake="s3://bucket/lake")
    (home / "lake").mkdir(exist_ok=True)
    with closing(sqlite3.connect(home / "lake" / FILE)) as db:
        db.execute("create table meta (name text primary key, value text)")
        rows = {"version": VERSION, "to_seq": 1, "built_at": 9}
        db.executemany("insert into meta values (?, ?)", [(name, str(value)) for name, value in rows.items()])
        db.execute("create table slo (day text, agent text, ratio real)")
        db.execute("insert into slo values ('2026-01-01', 'ada', 0.5)")
        db.commit()
    with office.caller() as api:
        found = api.get("/api/insights/slo").json()
    assert found["rows"] == [{"day": "2026-01-01", "agent": "ada", "ratio": 0.5}]


def test_an_id_that_looks_like_a_number_is_an_id_first(make_served: Callable[..., ServedOffice]) -> None:
    office = make_served(retry__max_attempts=1)
    with office.caller() as api:

        def send(text: str, id: str) -> int:
            api.post("/api/message", json={"message": text, "messageId": id, "agent": "assistant"})
            assert api.get(f"/api/message/{id}", params={"wait": 20}).json()["status"] in ("dead", "completed")
            listed = api.get("/api/queue/messages", params={"limit": 1000}).json()
            return next(int(row["id"]) for row in listed if row["messageId"] == id)

        number = send("!fail permanent", "first")
        send("!fail permanent", str(number))
        # the number of one, and the id of the other
        assert api.delete(f"/api/queue/dead/{number}").status_code == 200
        assert [row["data"]["messageId"] for row in api.get("/api/queue/dead").json()] == ["first"]
        # whose id it is has another state: the other one is not taken in its place
        assert api.delete(f"/api/queue/dead/{number}").status_code == 409
        assert api.delete("/api/queue/dead/first").status_code == 200
        alone = send("!fail permanent", "third")
        assert api.delete(f"/api/queue/dead/{alone}").status_code == 200
