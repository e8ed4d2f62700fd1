"""An office that was put back from a backup."""

from __future__ import annotations

from typing import Any

from manydesks.store.copy import copy_store
from manydesks.store.store import Store

RULES = {"console": "resend", "mail": "ask", "pager": "drop"}


async def put_back(office: Any, desks: dict[str, tuple[str, int] | None] | None = None, **more: Any) -> Any:
    given: dict[str, Any] = {"lineage": 0xAB, "made_at": 5, "made_by": "0.1.0", "rule_of": RULES, "lake": True, **more}
    return await office.store.restored(desks=desks or {}, **given)


async def test_the_ledger_goes_on_under_a_new_lineage(office: Any) -> None:
    assert await office.store.lineage() is None
    head = office.head()
    await put_back(office)
    assert await office.store.lineage() == "ab"
    ((kind, data),) = office.rows("select kind, data from events where seq > ?", head)
    assert kind == "office_restored"
    assert f'"backup_seq":{head}' in data
    await put_back(office, lineage=0xCD)
    assert '"before":"ab"' in office.one("select data from events order by seq desc limit 1")


async def test_cursors_end_where_the_copies_do(office: Any) -> None:
    for agent in ("ada", "bob", "cyd"):
        message = await office.sent(to=agent)
        _, desk = await office.begin()
        await desk.say("one").say("two").ack(message).take()
    sessions = [session for (session,) in office.rows("select session from outbound_cursors order by session")]
    (epoch,) = office.row("select distinct epoch from outbound_cursors")
    await put_back(office, {sessions[0]: (epoch, 3), sessions[1]: (epoch, 99), sessions[2]: None})
    assert office.rows("select session, seq from outbound_cursors order by session") == [
        (sessions[0], 3),
        (sessions[1], 5),
    ]


async def test_what_may_have_been_sent_waits_for_its_channels_rule(office: Any) -> None:
    for channel in ("console", "mail", "pager", "stranger"):
        message = await office.sent(to="ada", channel=channel)
        _, desk = await office.begin()
        await desk.say(f"to {channel}", to=message).ack(message).take()
    assert (await put_back(office)).unsure == 2
    assert office.rows("select channel, status from responses order by id") == [
        ("console", "pending"), ("mail", "unsure"), ("pager", "withdrawn"), ("stranger", "unsure"),
    ]  # fmt: skip
    assert "put back from a backup" in office.one("select last_error from responses where channel = 'mail'")
    assert len(await office.store.claim_parcels(["console", "mail", "pager", "stranger"], most=10)) == 1


async def test_a_lake_that_is_not_there_covers_nothing(office: Any) -> None:
    await office.sent()
    await office.store.mark_archived(2)
    await put_back(office, lake=True)
    assert office.rows("select seq from marks where name = 'archived'") == [(2,)]
    await put_back(office, lake=False)
    assert office.rows("select seq from marks where name = 'archived'") == []


async def test_a_copy_is_of_one_moment(office: Any, tmp_path: Any) -> None:
    await office.sent("in the copy")
    copied = copy_store(office.path, tmp_path / "copy.db")
    await office.sent("not in the copy")
    assert copied.head == office.head() - 2
    assert (copied.pruned, copied.lineage) == (0, 0)
    store = Store(tmp_path / "copy.db", clock=office.clock)
    try:
        assert [run.messages[0].text for run in await store.claim(batch=1, most=9)] == ["in the copy"]
    finally:
        store.close()
