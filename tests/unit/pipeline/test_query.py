from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.query import require_query


@pytest.mark.parametrize(
    "sql", ["", ";", "drop view events", "insert into events values (1)", "create table x (a int)"]
)
def test_what_does_not_begin_as_a_query_is_refused(sql: str) -> None:
    with pytest.raises(PipelineError, match="only queries can be run"):
        require_query(sql)


def test_a_query_loses_only_its_end() -> None:
    assert require_query("  SELECT ';' from events ; \n") == "SELECT ';' from events"
