"""An agent asks for figures of the past, in a real office."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from manydesks.domain.insight import FILE, VERSION
from manydesks.testing.office import OfficeProcess

ASK = '!tool query_history {"table": "cost_daily", "agent": "ada"}'


def test_an_agent_gets_figures_at_once(office: OfficeProcess) -> None:
    lake = office.home.lake
    lake.mkdir(exist_ok=True)
    with closing(sqlite3.connect(lake / FILE)) as db:
        db.execute("create table meta (name text primary key, value text)")
        rows = {"version": VERSION, "to_seq": 1, "built_at": 9}
        db.executemany("insert into meta values (?, ?)", [(name, str(value)) for name, value in rows.items()])
        db.execute("create table cost_daily (day text, agent text, cost_usd real)")
        db.execute("insert into cost_daily values ('2026-01-01', 'ada', 0.25), ('2026-01-01', 'bob', 1.0)")
        db.commit()
    trace = office.ask(ASK, to="assistant")
    [message] = trace["messages"]
    said = message["responses"][0]["text"]
    told = json.loads(said.partition("query_history gave: ")[2])
    assert told["rows"] == [{"day": "2026-01-01", "agent": "ada", "cost_usd": 0.25}]
    assert told["behind"] > 0
    reader = office.door.reader()
    try:
        assert not [event for event in reader.events(0, 1000) if event["kind"] == "output_discarded"]
    finally:
        reader.close()


def test_without_a_pipeline_it_is_told_so(office: OfficeProcess) -> None:
    trace = office.ask(ASK, to="assistant")
    assert "`manydesks pipeline run` makes them" in trace["messages"][0]["responses"][0]["text"]
