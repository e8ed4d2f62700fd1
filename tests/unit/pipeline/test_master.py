from __future__ import annotations

import pytest

from manydesks.pipeline.master import is_local, is_local_cluster


@pytest.mark.parametrize(
    ("master", "local", "played"),
    [
        ("local", True, False),
        ("local[*]", True, False),
        ("local[2]", True, False),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://localhost:7077", False, False),
        ("localhost", False, False),
        ("yarn", False, False),
    ],
)
def test_where_the_executors_are(master: str, local: bool, played: bool) -> None:
    assert (is_local(master), is_local_cluster(master)) == (local, played)
