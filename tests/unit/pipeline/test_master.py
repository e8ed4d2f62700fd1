from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.master import addresses, is_local, is_local_cluster, require_master


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


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("spark://10.0.0.5:7077", [("10.0.0.5", 7077)]),
        ("spark://one:7077,two:7078", [("one", 7077), ("two", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        # what Spark itself refuses, and says why
        ("spark://one", []),
        ("spark://one:7077,two", []),
        ("spark://one:70770", []),
        ("local[2]", []),
        ("local-cluster[2,1,1024]", []),
        ("yarn", []),
        ("k8s://https://one:6443", []),
    ],
)
def test_where_masters_listen(master: str, found: list[tuple[str, int]]) -> None:
    assert addresses(master) == found


@pytest.fixture
def silent() -> Iterator[int]:
    """A port at which nobody listens, and that nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def answering() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_one_that_answers_is_enough(silent: int, answering: int) -> None:
    require_master(f"spark://127.0.0.1:{answering}")
    require_master(f"spark://127.0.0.1:{silent},127.0.0.1:{answering}")
    for other in ("local[*]", "yarn", "k8s://https://127.0.0.1:1", "spark://nonsense"):
        require_master(other)


START = """
import sys
from pathlib import Path

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.session import SparkOptions, session

try:
    session(SparkOptions(master=sys.argv[1], folder=Path(sys.argv[2])))
except PipelineError as error:
    print(error)
"""


def test_that_nobody_answers_is_said_before_spark_is_started(silent: int, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")
    master = f"spark://127.0.0.1:{silent},127.0.0.1:{silent}"
    # in a process of its own: this one may have a session already, which would be given back
    words = [sys.executable, "-c", START, master, str(tmp_path / "spark")]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    assert f"nobody answers at the Spark master {master} (127.0.0.1:{silent}, Connection refused; 127" in said
    assert said.endswith("; start it, or name another with --master or in the setting pipeline.master.")
    assert not (tmp_path / "spark").exists()


def test_a_machine_that_is_not_there_is_named() -> None:
    for host in ("no-such-machine.invalid", "a" * 64 + ".invalid"):
        with pytest.raises(
            PipelineError, match=rf"nobody answers at the Spark master spark://{host}:7077 \({host[:60]}"
        ):
            require_master(f"spark://{host}:7077", seconds=1)
