"""Whether a query only reads the lake: SQL can also start programs and call into Java, and neither is a query's to do.

Spark's own parser is asked, before anything is looked up or computed: some of it would be done while a query is only
being understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from manydesks.domain.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: functions that call any method of Java
CALLING = ("java_method", "reflect", "try_reflect")
#: parts of a plan, and how they are written
STARTING = {"ScriptTransformation": "transform … using"}
#: a name that is computed could be any of these
COMPUTED = ("ExpressionWithUnresolvedIdentifier", "PlanWithUnresolvedIdentifier")


def require_harmless(spark: SparkSession, text: str) -> None:
    """Raises `PipelineError` for one that does more than to read, `ParseException` for one that is none."""
    for part in _parts(spark, spark._jsparkSession.sessionState().sqlParser().parsePlan(text)):
        kind = part.getClass().getSimpleName()
        if kind in STARTING:
            raise _refused(STARTING[kind])
        if kind in COMPUTED:
            raise _refused("identifier(…)")
        if kind == "UnresolvedFunction" and (name := part.nameParts().last().lower()) in CALLING:
            raise _refused(name)


def _refused(words: str) -> PipelineError:
    return PipelineError(reason=f"a query only reads the lake: `{words}` could do anything, and is not allowed.")


def _parts(spark: SparkSession, plan: Any) -> Iterator[Any]:
    """The plan's parts, the expressions in them, and the plans in those."""
    assert spark._jvm is not None
    plans = spark._jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.plans.QueryPlan")
    left = [plan]
    while left:
        part = left.pop()
        yield part
        left += [*_each(part.children()), *_each(part.innerChildren())]
        if plans.isInstance(part):
            left += _each(part.expressions())


def _each(found: Any) -> list[Any]:
    return [found.apply(number) for number in range(found.size())]
