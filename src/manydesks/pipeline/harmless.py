"""Whether a query only reads the lake: SQL can also start programs and call into Java, and neither is a query's to do.

Spark's own parser is asked, before anything is looked up or computed: some of it would be done while a query is only
being understood. What calls into Java is besides taken out of the session, so that no query finds it anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]

from manydesks.domain.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: functions that call any method of Java, or open a file that their options name, or an address that their text names
#: (a document's type, in XML)
CALLING = (
    *("java_method", "reflect", "try_reflect"),
    *("from_xml", "schema_of_xml", "xpath"),
    *(f"xpath_{kind}" for kind in ("boolean", "double", "float", "int", "long", "number", "short", "string")),
    *("from_avro", "from_protobuf", "to_protobuf"),
)
#: parts of a plan, and how they are written
STARTING = {"ScriptTransformation": "transform … using"}
#: a name that is computed could be any of these; `from identifier('events')` is not one, the parser has written it down
COMPUTED = ("ExpressionWithUnresolvedIdentifier", "PlanWithUnresolvedIdentifier")
#: none of these can be written without one of these words
WORDS = (*CALLING, "using", "identifier")


def require_harmless(spark: SparkSession, text: str) -> None:
    """Raises `PipelineError` for one that does more than to read, `ParseException` for one that is none."""
    _take_out(spark)
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    if not _has_words(text):
        return  # to look at each part takes a moment in a long query
    for kind, part in _parts(spark, plan):
        if kind in STARTING:
            raise _refused(STARTING[kind])
        if kind in COMPUTED:
            raise _refused("identifier(…)")
        if kind == "UnresolvedFunction" and (name := part.nameParts().last().lower()) in CALLING:
            raise _refused(name)


def _refused(words: str) -> PipelineError:
    return PipelineError(reason=f"a query only reads the lake: `{words}` could do more than that, and is not allowed.")


def _has_words(text: str) -> bool:
    """Spark compares in capitals in one place and without them in another: `ſ` is then an S, too."""
    plain = text.upper().lower()
    return any(word in plain for word in WORDS)


def _take_out(spark: SparkSession) -> None:
    """The session has the functions of `CALLING` no longer, whatever a query may look like."""
    assert spark._jvm is not None
    some = spark._jvm.scala.Some
    functions = spark._jsparkSession.sessionState().functionRegistry()
    for name in CALLING:
        functions.dropFunction(
            spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, some("builtin"), some("system"))
        )


def _parts(spark: SparkSession, plan: Any) -> Iterator[tuple[str, Any]]:
    """All that the plan is made of, and the name of its class.

    Its children and expressions alone would not be all: a named window is neither, nor is what `|> set` sets.
    """
    assert spark._jvm is not None
    classes = spark._jvm.java.lang.Class
    made = classes.forName("scala.Product")
    several = classes.forName("scala.collection.Iterable")
    fields: dict[str, int | None] = {}
    left = [plan]
    while left:
        part = left.pop()
        name = str(part.getClass().getName())
        yield name.rpartition(".")[2], part
        if name not in fields:
            fields[name] = None if several.isInstance(part) else part.productArity() if made.isInstance(part) else 0
        count = fields[name]
        found = _each(part.iterator()) if count is None else [part.productElement(at) for at in range(count)]
        # what py4j has a Python value for is no part of a plan
        left += [one for one in found if isinstance(one, JavaObject)]


def _each(found: Any) -> list[Any]:
    several = []
    while found.hasNext():
        several.append(found.next())
    return several
