"""What a real office has told its agents, and heard from people, is in the transcripts and in what is exported: also
what was edited, what waited for answers, and what a person said to a question."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow.parquet as pq

from manydesks.pipeline import tables
from manydesks.pipeline.bronze import BODIES
from manydesks.pipeline.gold import TERMS_DAILY
from manydesks.pipeline.jobs.export import Wanted, export
from manydesks.pipeline.jobs.whole import run
from manydesks.pipeline.silver import MESSAGES, TRANSCRIPTS
from manydesks.testing.office import OfficeProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from manydesks.pipeline.columns import TableSpec

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

JOIN = "[@assistant: !say the sparrow] [@bob: !say the magpie] => [@cy: which bird?]"
TOLD = "which bird?\n\n@assistant answered:\n\n> the sparrow\n\n@bob answered:\n\n> the magpie"


def quiet(step: str, done: int, total: int) -> None: ...


def rows(lake: Path, spec: TableSpec) -> list[dict[str, Any]]:
    return [row for path in tables.files(lake, spec) for row in pq.ParquetFile(path).read().to_pylist()]


def test_the_transcript_is_what_an_agent_was_told(home: Path, spark: SparkSession) -> None:
    db, lake = home / "office.db", home / "lake"

    def bring() -> None:
        run(db, lake, spark, quiet, patience=60)

    def turns(trace: str, agent: str) -> list[tuple[str, str]]:
        lines = export(lake, spark, Wanted(agents=[agent]), lambda text: text, quiet)
        [line] = [line for line in lines if line["trace"] == trace]
        return [(turn["role"], turn["content"]) for turn in line["messages"]]

    def texts(message: str) -> list[tuple[Any, ...]]:
        said = [row for row in rows(lake, TRANSCRIPTS) if row["message"] == message and row["response"] is None]
        return [(row["operation"], row["sender"], row["text"]) for row in sorted(said, key=itemgetter("seq"))]

    def own_text(message: str) -> str:
        [body] = [row["body"] for row in rows(lake, MESSAGES) if row["message_id"] == message]
        [text] = [row["text"] for row in rows(lake, BODIES) if row["id"] == body]
        return str(text)

    office = OfficeProcess(home)
    office.start()
    try:
        for agent in ("bob", "cy"):
            office.door.ask("agent_add", id=agent)
        joined = office.ask(JOIN)
        failed = office.ask("!fail permanent no ostrich today", to="bob")
        bring()  # before it is edited: the row of the message is replaced
        [dead] = [message["messageId"] for message in failed["messages"]]
        assert texts(dead) == [(None, "ada", "!fail permanent no ostrich today")]
        office.door.ask("retry", id=dead, text="a pelican then\n!say fine")
        office.trace(failed["traceId"])
        asked = office.door.ask(
            "send", text='!tool ask_user_question {"question": "Which one?"}\n!say done', to="assistant", sender="ada"
        )
        question = office.until(lambda reader: next(iter(reader.questions()), None))
        office.door.ask("answer", id=question["questionId"], answer="a flamingo", by="kim")
        office.trace(asked["traceId"])
        bring()
    finally:
        office.stop()

    [waited] = [message["messageId"] for message in joined["messages"] if message["agent"] == "cy"]
    assert texts(waited) == [(None, "ada", "which bird?"), ("told", None, TOLD)]
    assert own_text(waited) == TOLD
    first, answer = turns(joined["traceId"], "cy")
    assert first == ("user", TOLD)
    assert answer[0] == "assistant"

    edited = "a pelican then\n!say fine"
    assert texts(dead) == [(None, "ada", "!fail permanent no ostrich today"), ("edited", "owner", edited)]
    assert own_text(dead) == edited
    # that it could not be answered was said of the text before
    assert turns(failed["traceId"], "bob") == [("user", edited), ("assistant", "fine")]

    [message] = [message["messageId"] for message in asked["messages"]]
    assert texts(message)[1:] == [("answer", "kim", "a flamingo")]
    assert turns(asked["traceId"], "assistant")[1:] == [
        ("assistant", "Which one?"),
        ("user", "a flamingo"),
        ("assistant", "done"),
    ]

    terms = {(row["agent"], row["term"]): row["count"] for row in rows(lake, TERMS_DAILY)}
    assert (terms["bob", "pelican"], terms["assistant", "flamingo"], terms["cy", "bird"]) == (1, 1, 1)
    # what others had answered is nothing that anybody said to it
    assert ("cy", "magpie") not in terms
