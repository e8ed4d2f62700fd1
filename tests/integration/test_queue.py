"""`manydesks queue` with a real office: what waits can be seen, moved, paused and, when it is old, pruned."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable

import pytest

from manydesks.domain.errors import Duplicate
from manydesks.office.pipeline.reach import COMMITS, EVENTS, TEXTS
from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

open_and_closed = pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])


def sent(shell: Shell, text: str, *more: str) -> str:
    return str(json.loads(shell.run("send", text, *more, "--json").stdout)["messageId"])


def counters_are_right(office: OfficeProcess) -> bool:
    with contextlib.closing(sqlite3.connect(f"{office.home.office_db.as_uri()}?mode=ro", uri=True)) as db:
        counted = db.execute("select scope, agent, state, n from counters where n <> 0 order by 1, 2, 3").fetchall()
        real = db.execute(
            "select 'messages', queue, state, count(*) from messages group by queue, state "
            "union all select 'responses', queue, state, count(*) from responses group by queue, state order by 1, 2, 3"
        ).fetchall()
    return bool(counted == real)


@pytest.fixture
def maybe_office(is_open: bool, make_office: Callable[..., OfficeProcess]) -> OfficeProcess:
    office = make_office()
    office.start()
    if not is_open:
        office.stop()
    return office


@open_and_closed
def test_what_waits_behind_a_paused_agent_can_be_seen_and_cancelled(shell: Shell, maybe_office: OfficeProcess) -> None:
    assert shell.said("queue", "pause", "assistant").startswith("assistant is paused; its messages wait")
    ids = [sent(shell, f"!say {n}") for n in range(3)]
    assert [row["messageId"] for row in shell.value("queue", "list", "--state", "pending")] == ids
    page = shell.value("queue", "list", "--limit", "2")
    assert [row["messageId"] for row in shell.value("queue", "list", "--after", str(page[-1]["id"]))] == ids[2:]
    shown = shell.said("queue", "show", ids[2])
    assert f"behind 2 messages: {ids[0]} (pending), {ids[1]} (pending)" in shown
    assert shown.endswith("\n!say 2\n")
    done = {"id": ids[0], "agent": None, "cancelled": 1, "stopped": 0, "left": 0}
    assert shell.value("queue", "cancel", ids[0]) == done
    assert "behind 1 message:" in shell.said("queue", "show", ids[2])
    # once is as good as twice
    assert shell.value("queue", "cancel", ids[0]) == {**done, "cancelled": 0}
    status = shell.value("queue", "status")
    assert (status["pending"], status["cancelled"], status["paused"]) == (2, 1, ["assistant"])
    assert counters_are_right(maybe_office)
    assert shell.refusal("queue", "show", "console_nothere") == "manydesks: There is no message 'console_nothere'."
    assert shell.refusal("queue", "pause", "asistant").startswith("manydesks: There is no agent 'asistant' (did you")


def test_a_resumed_agent_takes_up_its_work_and_others_never_stopped(shell: Shell, office: OfficeProcess) -> None:
    shell.said("agent", "add", "ben")
    shell.said("queue", "pause", "assistant")
    waiting = sent(shell, "!say at last", "--to", "assistant")
    assert shell.said("send", "!say at once", "--to", "ben", "--wait") == "at once\n"
    assert shell.value("queue", "show", waiting)["agentPaused"] is True
    assert "paused  assistant" in shell.said("status")
    assert shell.said("queue", "resume", "assistant") == "assistant works again.\n"
    (message,) = office.trace(waiting_trace := shell.value("queue", "show", waiting)["traceId"])["messages"]
    assert (message["status"], message["responses"][0]["text"]) == ("completed", "at last")
    assert waiting_trace == message["traceId"]
    kinds = [event["kind"] for event in shell.value("events", "--type", "agent_paused", "--type", "agent_resumed")]
    assert kinds == ["agent_paused", "agent_resumed"]


def older(office: OfficeProcess, days: float) -> None:
    """Everything that is in the store happened so many days earlier. The office is closed."""
    with contextlib.closing(sqlite3.connect(office.home.office_db)) as db:
        db.execute("update events set at = at - ?", (round(days * 86_400_000),))
        db.execute("update arrivals set at = at - ?", (round(days * 86_400_000),))
        db.commit()


def test_pruning_waits_for_the_lake_and_says_so(shell: Shell, make_office: Callable[..., OfficeProcess]) -> None:
    office = make_office()
    office.start()
    done, dead = office.ask("!say hello"), office.ask("!fail permanent no key")
    office.stop()
    older(office, 31)
    office.start()
    lines = shell.said("queue", "prune").splitlines()
    assert lines[-3:] == [
        "The ledger begins at event 1.",
        "The lake covers the ledger up to event 0; what is old and not in it waits for `manydesks pipeline run`.",
        "1 dead letter keeps its trace; `manydesks queue drop` lets go of one.",
    ]
    reader = office.door.reader()
    head = reader.head()
    reader.close()
    office.door.ask("mark_archived", seq=head)
    # the mark alone is not believed: a lake that was removed leaves it behind; nor one that has lost its texts
    for table in (EVENTS, TEXTS):
        assert shell.value("queue", "prune")["messages"] == 0
        commit = office.home.lake / COMMITS.format(table) / f"{1:020}.json"
        commit.parent.mkdir(parents=True)
        commit.write_text(json.dumps({"txn": {"appId": table, "version": head}}), encoding="utf-8")
    pruned = shell.value("queue", "prune")
    assert (pruned["messages"], pruned["responses"], pruned["runs"], pruned["arrivals"]) == (1, 1, 1, 0)
    assert pruned["waitsForArchive"] is False
    first = pruned["first"]
    assert 1 < first <= head
    assert counters_are_right(office)

    (message,) = done["messages"]
    assert shell.refusal("queue", "show", message["messageId"]) == (
        f"manydesks: There is no message '{message['messageId']}'."
    )
    assert shell.refusal("trace", message["messageId"]).startswith("manydesks: There is no trace or message")
    assert len(shell.value("trace", dead["traceId"])["messages"]) == 1
    assert next(event["seq"] for event in shell.value("events")) == first
    assert shell.refusal("events", "--after", "0").startswith(f"manydesks: The ledger begins at event {first}:")
    # it is recognised all the same
    with pytest.raises(Duplicate):
        office.door.ask("send", text="again", message_id=message["messageId"])


def test_an_office_without_a_pipeline_prunes_by_age_alone(
    shell: Shell, make_office: Callable[..., OfficeProcess]
) -> None:
    office = make_office()
    office.start()
    office.ask("!say hello")
    office.stop()
    older(office, 2)
    lax = Shell(shell.home, {**shell.environ, "MANYDESKS_RETENTION__DAYS": "1"})
    assert lax.value("queue", "prune")["events"] == 0
    lax.environ["MANYDESKS_RETENTION__REQUIRE_ARCHIVE"] = "false"
    pruned = lax.value("queue", "prune")
    assert (pruned["messages"], pruned["waitsForArchive"]) == (1, False)
    assert shell.value("queue", "list") == []
    lax.environ["MANYDESKS_RETENTION__DAYS"] = "0.5"
    assert "retention.days is 0.5, but must be a number from 1" in lax.refusal("queue", "prune")
