"""A file that was open when a process was forked off is refused there: SQLite's locks do not survive a fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from manydesks.queue import Queue

CHILD = """
import os, sys
from manydesks.domain.errors import StoreError
from manydesks.queue import Queue

q = Queue(sys.argv[1], "q")
q.send("before")
if sys.argv[2] == "closed":
    q.close()
child = os.fork()
if child == 0:
    code = 9
    try:
        with Queue(sys.argv[1], "q") as mine:
            mine.send("child")
            code = 0
    except StoreError as error:
        code = 3 if "was open when this process was forked off" in str(error) else 4
    finally:
        os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if sys.argv[2] == "open":
    q.send("after")
    q.close()
"""


@pytest.mark.parametrize(
    ("state", "code", "bodies"), [("open", 3, ["before", "after"]), ("closed", 0, ["before", "child"])]
)
def test_a_forked_process(tmp_path: Path, state: str, code: int, bodies: list[str]) -> None:
    path = tmp_path / "jobs.db"
    done = subprocess.run([sys.executable, "-c", CHILD, str(path), state], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(code)
    with Queue(path, "q") as q:
        assert [job.body for job in q.list()] == bodies


POOL = """
import multiprocessing, sys
from manydesks.queue import Queue

def work(path):
    with Queue(path, "q") as q:
        while (m := q.receive()) is not None:
            assert q.complete(m)

if __name__ == "__main__":
    path, way = sys.argv[1:]
    with Queue(path, "q") as q:
        q.send_batch(range(60))
        workers = [multiprocessing.get_context(way).Process(target=work, args=(path,)) for _ in range(3)]
        for worker in workers:
            worker.start()
        if way == "fork":
            for worker in workers:
                worker.join()
    for worker in workers:
        worker.join()
    print([worker.exitcode for worker in workers])
"""


@pytest.mark.parametrize(("way", "codes", "completed"), [("spawn", "[0, 0, 0]", 60), ("fork", "[1, 1, 1]", 0)])
def test_workers_of_multiprocessing(tmp_path: Path, way: str, codes: str, completed: int) -> None:
    script, path = tmp_path / "pool.py", tmp_path / "jobs.db"
    script.write_text(POOL)
    done = subprocess.run([sys.executable, str(script), str(path), way], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == codes
    with Queue(path, "q") as q:
        assert q.stats()["completed"] == completed
        assert q.stats()["ready"] == 60 - completed
