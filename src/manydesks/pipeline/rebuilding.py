"""A rebuild, from the commit that begins it until no table is left that was made before it.

Its beginning is a count in the log of `events`; each table of silver and gold has in its own log the count that it was
made under. So a rebuild that was killed is known to every later run, which makes anew what is left of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow.parquet as pq

from manydesks.domain.clock import Clock
from manydesks.pipeline import tables
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.damage import reading
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.lock import HeldLake
from manydesks.pipeline.place import Place
from manydesks.pipeline.publish import published, published_rebuild
from manydesks.pipeline.schemas import BRONZE, EVENTS
from manydesks.pipeline.silver import SILVER


@dataclass(frozen=True, kw_only=True)
class Unbuilt:
    """What the last rebuild has not made anew yet."""

    #: names of tables
    silver: tuple[str, ...]
    gold: tuple[str, ...]
    #: the file for those who have no Spark
    published: bool

    def __bool__(self) -> bool:
        return bool(self.silver or self.gold or self.published)


def begin_rebuild(held: HeldLake, clock: Clock) -> None:
    """From now on each table of silver and gold is to be made anew from all of bronze, by whoever refreshes it next.

    A lake without events has nothing that could be. Raises `FileDamaged`, before anything is written, if bronze lacks
    a file: as it is, such a lake goes on; a rebuild that cannot be finished would stop every later run.
    """
    upto = tables.covered(held.folder, EVENTS, EVENTS.name)
    if upto:
        _require_bronze(held.folder)
        count = {tables.REBUILD: tables.rebuilds(held.folder) + 1}
        tables.advance(held, EVENTS, tables.Mark(app=EVENTS.name, version=upto, also=count), clock)


def _require_bronze(lake: Place) -> None:
    for spec in BRONZE:
        for path in tables.files(lake, spec) if tables.exists(lake, spec) else ():
            with reading(path) as file:
                pq.ParquetFile(file)  # its end, where a file that was cut has none


def unbuilt(lake: Place) -> Unbuilt:
    """Read off the logs of the tables; nothing is left if no rebuild was ever begun."""
    count = tables.rebuilds(lake)
    return Unbuilt(
        silver=_before(lake, SILVER, count),
        gold=_before(lake, GOLD, count),
        published=count > 0 and published(lake) is not None and published_rebuild(lake) < count,
    )


def _before(lake: Place, layer: Iterable[TableSpec], count: int) -> tuple[str, ...]:
    """Of a table that has nothing yet it would be wrong to say that it is an old one."""
    return tuple(
        spec.name
        for spec in layer
        if count and tables.covered(lake, spec, tables.REBUILD) < count and tables.covered(lake, spec, spec.name)
    )
