"""What every test shares."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

#: the tests that have the one Java which is kept: one of them at a time, whatever the number of workers
KEPT_JAVA = "kept-java"

#: starts Spark as a command does, and keeps its Java when the session has ended
KEEPER = """
import sys
from pathlib import Path
from manydesks.pipeline.session import SparkOptions, end, session
spark = session(SparkOptions(master="local[2]", folder=Path(sys.argv[1]), bulk=True))
parameters = spark.sparkContext._gateway.gateway_parameters
end(spark)
print(parameters.port, parameters.auth_token, flush=True)
sys.stdin.read()
"""

# The same examples in every run, so that a failure is a change of the code; `deep` looks for new ones. Examples drive
# real files, so their time says nothing.
settings.register_profile("default", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", parent=settings.get_profile("default"), derandomize=False, max_examples=2_000)
settings.load_profile("default")

# A run that a shell put into the background ignores Ctrl-C, and so would every command that a test starts and stops by
# it: ignored signals are inherited, handled ones are not.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _no_office_of_the_person() -> None:
    """Tests never see the settings or the home of whoever runs them."""
    for name in [name for name in os.environ if name.startswith("MANYDESKS_")]:
        del os.environ[name]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that does not exist yet, at a short path: a Unix socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="md-") as folder:
        yield Path(folder) / "home"


@pytest.fixture(scope="session")
def kept_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Variables with which a command has its Spark session in a Java that is there already: it starts in a second, and
    what Java has compiled for one command, the next one has; it lives long enough for both of Java's compilers. One
    command at a time, and one that ends by itself; the tests that share a session have it in the same Java, once all
    commands are done.

    For what a command does and says. How a Java is started, what becomes of what it says, and how it ends with its
    command is tried where commands start their own: the README, two runs at once, clusters, the watch, and kills.
    """
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")
    from manydesks.domain.errors import JavaMissing
    from manydesks.pipeline.java import find_java

    try:
        find_java(os.environ)
    except JavaMissing as missing:
        pytest.skip(str(missing))
    command = [sys.executable, "-c", KEEPER, str(tmp_path_factory.mktemp("java"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        port, secret = keeper.stdout.readline().split()
        yield {"PYSPARK_GATEWAY_PORT": port, "PYSPARK_GATEWAY_SECRET": secret}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A worker can only tell of what is UTF-8; the logs of some tests are not, on purpose."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # commands with a session of their own in the kept Java: it has one at a time, so they come before the shared one
    items.sort(key=lambda item: "kept_java" not in _fixtures(item) or "spark" in _fixtures(item))
    for item in items:
        if "kept_java" in _fixtures(item):
            item.add_marker(pytest.mark.xdist_group(KEPT_JAVA))
        if "spark" in item.keywords and item.get_closest_marker("timeout") is None:
            # a busy machine makes Spark wait longer than anything else
            item.add_marker(pytest.mark.timeout(600))
    if importlib.util.find_spec("pyspark") is None:
        missing = pytest.mark.skip(reason="pyspark is not installed: pip install 'manydesks[pipeline]'")
        for item in items:
            if "spark" in item.keywords:
                item.add_marker(missing)
