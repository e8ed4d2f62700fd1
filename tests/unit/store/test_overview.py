"""What a person should know at a glance, and what was said before."""

from __future__ import annotations

from typing import Any


async def test_nothing_waits_in_an_empty_office(office: Any, reader: Any) -> None:
    assert reader.overview() == {"holds": {}, "responses": {}, "questions": 0}
    assert reader.history(None, channel="console", limit=10) == []
    assert reader.history(["ada"], channel="console", limit=10) == []
    assert (reader.sessions("ada"), reader.recent(10)) == ([], [])


async def test_a_chain_that_broke_waits_for_a_person(office: Any, reader: Any) -> None:
    first, _second = (await office.send("[@ada: draft] -> [@bob: review]")).messages
    assert reader.overview()["holds"] == {"chain": 1}
    (claimed,) = await office.claim()
    await office.desk(claimed).fail(first["messageId"], "permanent", "bad key").take()
    assert reader.overview()["holds"] == {"broken chain": 1}


async def test_what_was_said(office: Any, reader: Any) -> None:
    for agent, words in (("ada", "one"), ("bob", "two"), ("ada", "three")):
        id = await office.sent(words, to=agent)
        (claimed,) = await office.claim()
        await office.desk(claimed).say(f"answer to {words}", to=id).ack(id).take()
    (channel,) = reader.channels()

    def said(agents: list[str] | None, limit: int = 10) -> list[tuple[str, str, str]]:
        rows = reader.history(agents, channel=channel, limit=limit)
        return [(row["agent"], row["role"], row["text"]) for row in rows]

    ada = [
        ("ada", "user", "one"),
        ("ada", "assistant", "answer to one"),
        ("ada", "user", "three"),
        ("ada", "assistant", "answer to three"),
    ]
    assert said(["ada"]) == ada
    assert said(["ada"], 2) == ada[2:]
    assert [text for _, _, text in said(None)] == [text for _, _, text in said(["ada", "bob"])]
    assert len(said(None)) == 6
    assert reader.history(["ada"], channel="elsewhere", limit=10) == []
    assert len(reader.sessions("ada")) == 1
    assert reader.recent(2) == [row["messageId"] for row in reversed(reader.messages())][:2]
    assert reader.overview()["responses"] == {"pending": 3}
