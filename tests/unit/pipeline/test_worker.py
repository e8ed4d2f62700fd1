from __future__ import annotations

import subprocess
import sys

SETTLED = """
import gc
from manydesks.pipeline.sources.worker import settle
before = gc.get_freeze_count()
settle()
frozen = gc.get_freeze_count()
settle()
print(before == 0, frozen > 1000, gc.get_freeze_count() == frozen)
"""


def test_a_worker_leaves_what_it_has_imported_to_no_later_collection() -> None:
    # in a process of its own: what is frozen stays so
    said = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", "True", "True"]
