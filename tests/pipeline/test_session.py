"""What a session does that lives for days."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from manydesks.pipeline.planning import ADAPTIVE, planned_for
from manydesks.pipeline.session import KEPT
from manydesks.pipeline.tables import FEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_few_of_the_queries_that_have_ended_are_remembered(spark: SparkSession) -> None:
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[union-attr]
    most = int(1.2 * int(KEPT))  # Spark lets a tenth more come together before it forgets them
    ended = 0
    while ended <= most:  # mostly other tests have had so many already
        spark.sql("select 1").collect()
        ended = store.executionsList().last().executionId()
    patience = time.monotonic() + 20
    while (kept := store.executionsCount()) > most and time.monotonic() < patience:
        time.sleep(0.05)  # in a thread of its own
    assert 0 < kept <= most


@pytest.mark.parametrize(("rows", "adaptive"), [(0, "false"), (FEW, "false"), (FEW + 1, "true")])
def test_queries_over_a_few_rows_are_planned_once(spark: SparkSession, rows: int, adaptive: str) -> None:
    assert spark.conf.get(ADAPTIVE) == "true"
    with planned_for(spark, rows):
        assert spark.conf.get(ADAPTIVE) == adaptive
    assert spark.conf.get(ADAPTIVE) == "true"
