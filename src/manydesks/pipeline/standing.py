"""How a lake stands: how far each of its layers reaches, who works on it, and whether a run was broken off.

All of it is read off the tables' logs, the locks and one event of the store; no Spark, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manydesks.pipeline import tables
from manydesks.pipeline.beginning import begins
from manydesks.pipeline.bronze import BODIES, EVENTS
from manydesks.pipeline.columns import TableSpec
from manydesks.pipeline.gold import GOLD
from manydesks.pipeline.jobs.erase import MARK as ERASURES
from manydesks.pipeline.jobs.erase import waiting
from manydesks.pipeline.jobs.runs import latest
from manydesks.pipeline.lock import watcher, worker
from manydesks.pipeline.place import Place
from manydesks.pipeline.publish import published, published_damage
from manydesks.pipeline.quality import lacks_texts, why_refused
from manydesks.pipeline.rebuilding import Unbuilt, unbuilt
from manydesks.pipeline.silver import SILVER
from manydesks.pipeline.sources.ledger import heads


@dataclass(frozen=True, kw_only=True)
class Standing:
    """At one moment, or nearly so: a run beside it may go on between two looks."""

    #: where the ledger ends
    head: int
    #: each layer holds what follows from the events up to this one; of a layer, the table that reaches least far
    bronze: int
    silver: int
    gold: int
    #: of the file without Spark; None: there is none yet, or it is damaged
    published: int | None
    #: which file that is, and what is wrong with it; None: nothing
    damage: str | None
    #: the first event that the lake was ever to hold; above 1: it lacks those before
    begins: int
    #: what was forgotten up to this event is emptied in bronze
    erased: int
    #: events of bronze name texts that bronze has not: the table of texts, or its log, is gone
    lacks_texts: bool
    #: texts that were forgotten since then, and are emptied by the next run
    forgotten: int
    #: tables whose rows are made otherwise by now, and are made anew by the next run
    outdated: tuple[str, ...]
    #: what a rebuild was to make anew, and has not yet
    unbuilt: Unbuilt
    #: the process that writes the lake just now, and that of a `watch`
    worker: str | None
    watcher: str | None
    #: the run that ended last, a row of `pipeline_runs`
    last: dict[str, Any] | None
    #: why the pipeline does not go on with this lake; None: nothing is in the way
    refusal: str | None

    @property
    def behind(self) -> int:
        """Events that the ledger has, and bronze has not."""
        return max(self.head - self.bronze, 0)

    @property
    def ahead(self) -> int:
        """Events that bronze has, and the ledger has not reached."""
        return max(self.bronze - self.head, 0)

    @property
    def lost(self) -> bool:
        """Bronze has less than was made of it: its log, or its folder, is gone."""
        return self.bronze < max(self.silver, self.gold)

    @property
    def level(self) -> bool:
        """All that is made of bronze reaches as far as bronze does."""
        return self._tables_level and (self.published or 0) >= self.bronze

    @property
    def left_undone(self) -> bool:
        """There is more that an earlier run did not come to than to make a damaged file anew."""
        return not (self.level if self.damage is None else self._tables_level)

    @property
    def broken_off(self) -> bool:
        """Bronze has more than any run that came to its end has told of, and nobody goes on with it. That a run was
        killed before its first commit, nobody knows."""
        told = 0 if self.last is None else self.last["to_seq"] or 0
        return self.left_undone and self.bronze > told and self.worker is None and self.watcher is None

    @property
    def _tables_level(self) -> bool:
        least = min(self.silver, self.gold, self.erased)
        return least >= self.bronze and not self.outdated and not self.unbuilt


def standing(lake: Place, db: Path) -> Standing:
    """Raises as `heads` does."""
    # first: a run that ends meanwhile is not taken for one that was broken off
    at_work, watching = worker(lake), watcher(lake)
    last = latest(lake)
    # from the end to the beginning: what a run beside it adds meanwhile makes no layer seem to be ahead of its source
    damage = published_damage(lake)
    shown = published(lake) if damage is None else None
    gold, silver = _least(lake, GOLD), _least(lake, SILVER)
    bronze = tables.covered(lake, EVENTS, EVENTS.name)
    head = heads(db).events
    return Standing(
        head=head,
        bronze=bronze,
        silver=silver,
        gold=gold,
        published=shown,
        damage=damage,
        begins=begins(lake),
        erased=tables.covered(lake, BODIES, ERASURES),
        lacks_texts=lacks_texts(lake),
        forgotten=waiting(lake, db),
        outdated=tuple(spec.name for spec in (*SILVER, *GOLD) if tables.outdated(lake, spec)),
        unbuilt=unbuilt(lake),
        worker=at_work,
        watcher=watching,
        last=last,
        refusal=why_refused(lake, db),
    )


def _least(lake: Place, layer: Iterable[TableSpec]) -> int:
    return min(tables.covered(lake, spec, spec.name) for spec in layer)
