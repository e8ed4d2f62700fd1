"""Events as transforms read them: those of some kinds, with the fields of their data that are asked for.

What a column holds is said in SQL: each word about a column that goes to Spark by itself is a call to another process,
and a few new events took thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

#: fields of `data` that are no text; whatever is not of its type is NULL
_WHOLE = (
    "hop priority attempt queue_ms duration_ms response part bytes files next_at input output cache_read cache_write"
)
_TYPES = {**dict.fromkeys(_WHOLE.split(), "long"), "ok": "boolean", "cost_usd": "double"}


def events_of(events: DataFrame, kinds: str, fields: str = "", *, plain: str = "") -> DataFrame:
    """The events of these kinds that have a trace; the fields of `data` are columns `d_<field>`, all of them NULL where
    a kind is `plain`: nobody asks for its fields, and finding them is a good part of all work."""
    found = events.where(f"trace is not null and {of_kinds(kinds)}")
    names = fields.split()
    if not names:
        return found
    shape = ", ".join(f"`{name}` {_TYPES.get(name, 'string')}" for name in names)
    data = f"case when not {of_kinds(plain)} then data end" if plain else "data"
    read = found.selectExpr("*", f"from_json({data}, '{shape}') as d")
    return read.selectExpr("*", *(f"d.`{name}` as d_{name}" for name in names))


def of_kinds(kinds: str) -> str:
    """Whether an event is of one of these kinds."""
    return f"kind in ({', '.join(map(quoted, kinds.split()))})"


def when(kinds: str, value: str) -> str:
    """The value, for events of these kinds; else NULL."""
    return f"case when {of_kinds(kinds)} then {value} end"


def number_of(kinds: str) -> str:
    """What adds up to how many events are of these kinds."""
    return f"case when {of_kinds(kinds)} then 1 else 0 end"


def by_kind(values: Mapping[str, str]) -> str:
    """A value for each of several kinds, all of them different ones; else NULL."""
    cases = " ".join(f"when {of_kinds(kinds)} then {value}" for kinds, value in values.items())
    return f"case {cases} end"


def micro(dollars: str) -> str:
    """Whole millionths of a dollar: their sum does not depend on its order. What is no such number is unknown."""
    return f"try_cast(round({dollars} * 1000000) as long)"


def quoted(word: str) -> str:
    """A word of our own as a text of SQL."""
    return f"'{word}'"
