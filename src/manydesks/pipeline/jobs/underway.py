"""How many rows Spark has gone through for each table that is being made, while it is being made.

Spark counts for its own pages, also where these are off; what a thread asks of it goes by the name of its table. The
numbers are those of its queries: those of its stages do not move within a task where driver and executor are one Java.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from manydesks.pipeline.failure import SPARK_FAILURES
from manydesks.pipeline.jobs.step import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: parts of a plan, by the beginning of their name, and what each calls its rows: those of a file, those that were moved
FILE, READ = "Scan ", "number of output rows"
MOVED, TAKEN_UP = "Exchange", "records read"


class Underway:
    """One for a run. It changes nothing about it: a Spark that does not answer leaves the numbers as they were."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._steps: set[str] = set()
        #: by queries: their step, and what is known of them
        self._queries: dict[int, tuple[str, Rows]] = {}
        #: the queries up to this one have ended
        self._ended = -1
        #: by queries: what their plan was, and the counts in it of rows read and of rows taken up
        self._plans: dict[int, tuple[int, set[int], set[int]]] = {}

    def tell(self, step: str, done: int, total: int) -> None:
        """A job's `Progress`, told in the thread that does the work: what it asks of Spark from now on is this step's,
        or nobody's once the step is done."""
        self._steps.add(step)
        with suppress(*SPARK_FAILURES):
            context = self._spark.sparkContext
            context.setJobDescription(step if done < total else None)  # type: ignore[arg-type]  # Java takes it

    def rows(self) -> dict[str, Rows]:
        """By steps, from their beginning on; a step that Spark has done nothing for is left out."""
        with suppress(*SPARK_FAILURES):
            self._look()
        found: dict[str, Rows] = {}
        for step, rows in self._queries.values():
            before = found.get(step, Rows(0, 0))
            found[step] = Rows(before.read + rows.read, before.passed + rows.passed)
        return found

    def _look(self) -> None:
        store: Any = self._spark._jsparkSession.sharedState().statusStore()
        known = store.executionsList()
        # from the newest on: Spark forgets the oldest by and by
        newer = []
        for at in reversed(range(known.size())):
            query = known.apply(at)
            if query.executionId() <= self._ended:
                break
            newer.append(query)
        all_over = True
        for query in reversed(newer):
            all_over = all_over and query.completionTime().isDefined()
            if (step := query.description()) in self._steps:
                self._queries[query.executionId()] = (step, self._counted(store, query))
            if all_over:
                self._ended = query.executionId()

    def _counted(self, store: Any, query: Any) -> Rows:
        number = query.executionId()
        # Spark plans anew while it works
        plan = query.metrics().hashCode()
        if self._plans.get(number, (None,))[0] != plan:
            nodes = _each(store.planGraph(number).allNodes())
            self._plans[number] = (plan, _counts(nodes, FILE, READ), _counts(nodes, MOVED, TAKEN_UP))
        _, read, taken_up = self._plans[number]
        values = store.executionMetrics(number)
        rows = sum(_value(values, count) for count in read)
        return Rows(rows, rows + sum(_value(values, count) for count in taken_up))


def _counts(nodes: list[Any], kind: str, name: str) -> set[int]:
    wanted = [node for node in nodes if node.name().startswith(kind)]
    return {one.accumulatorId() for node in wanted for one in _each(node.metrics()) if one.name() == name}


def _value(values: Any, count: int) -> int:
    """Spark has it as text, `1,048,576`; nothing before the first task has told."""
    said = values.get(count)
    digits = said.get().replace(",", "") if said.isDefined() else ""
    return int(digits) if digits.isdecimal() else 0


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
