"""The gap check, on files as Spark leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

import pyarrow as pa
import pyarrow.parquet as pq

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.quality import check_no_gap


def write(folder: Path, *parts: list[int]) -> list[Path]:
    paths = [folder / f"part-{at}.parquet" for at in range(len(parts))]
    for path, seqs in zip(paths, parts, strict=True):
        pq.write_table(pa.table({"seq": pa.array(seqs, pa.int64())}), path)
    return paths


@pytest.mark.parametrize("parts", [([1, 2, 3],), ([3], [1, 2]), ([2, 3], [], [1])])
def test_whole_ranges_pass(tmp_path: Path, parts: tuple[list[int], ...]) -> None:
    check_no_gap(write(tmp_path, *parts), after=0, upto=3)


def test_an_empty_range_passes(tmp_path: Path) -> None:
    check_no_gap(write(tmp_path, []), after=7, upto=7)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (([12, 13, 14],), "event 11 is missing"),
        (([11, 13, 14],), "event 12 is missing"),
        (([11], [14]), "events 12 to 13 are missing"),
        (([11, 12, 13],), "event 14 is missing"),
        (([],), "events 11 to 14 are missing"),
        ((), "events 11 to 14 are missing"),
        (([11, 12, 12, 13, 14],), "event 12 twice"),
        (([11, 12], [12, 13, 14]), "event 12 twice"),
        (([11, 12, 13, 14, 15],), "event 15 is above"),
        (([11, 12, 12, 14],), "event 12 twice"),
    ],
)
def test_anything_else_is_named(tmp_path: Path, parts: tuple[list[int], ...], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        check_no_gap(write(tmp_path, *parts), after=10, upto=14)
