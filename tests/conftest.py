"""What every test shares."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

#: the tests with a Spark session, those among them that have none or start Javas of their own, those among these that
#: do have it, and those elsewhere whose commands have theirs in the kept Java
SPARK = "tests/pipeline/"
WITHOUT_A_SESSION = (
    "/test_command.py::test_a_",
    "/test_command.py::test_no_",
    "/test_command.py::test_what_",
    "/test_compact.py::",
    "/test_compact_kills.py::",
    "/test_disk.py::",
    "/test_lake_commands.py::",
    "/test_ledger_source.py::",
    "/test_much.py::",
    "/test_publish.py::",
    "/test_report.py::",
    "/test_sessions.py::",
    "/test_standing.py::",
    "::test_a_killed_attempt_goes_with_a_vacuum_that_is_younger",
    "::test_a_store_that_refuses_is_one_sentence[",
    "::test_of_two_who_commit_at_the_same_moment_one_is_refused",
    "::test_rows_are_added_and_found_and_merged",
    "::test_the_command_ends_well_when_it_is_asked_to[",
    "::test_two_runs_at_once_commit_everything_once",
)
WITH_A_SESSION = (
    "/test_compact.py::test_what_was_forgotten_is_in_no_file_after_a_vacuum",
    "/test_ledger_source.py::test_an_empty_range_is_an_empty_frame",
    "/test_ledger_source.py::test_spark_",
    "/test_sessions.py::test_two_thousand_files_some_in_use_some_broken",
)
SPARK_ELSEWHERE = ("::test_the_blocks_of_a_page_run_with_spark[", "::test_ten_kills_lose_nothing_and_double_nothing")

#: starts Spark as a command does, and keeps its Java when the session has ended
KEEPER = """
import sys
from pathlib import Path
from manydesks.pipeline.session import SparkOptions, end, session
spark = session(SparkOptions(master="local[2]", folder=Path(sys.argv[1])))
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


@pytest.fixture
def mount(home: Path) -> Iterator[Callable[..., None]]:
    """Put a file system of its own, in memory, under the home or a part of it; again, with "remount", changes it."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")

    mounted: list[Path] = []

    def mount(*options: str, at: Path = home) -> None:
        at.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(at)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(at)

    yield mount
    for at in reversed(dict.fromkeys(mounted)):
        subprocess.run(["umount", "--lazy", str(at)], check=False, capture_output=True)


@pytest.fixture(scope="session")
def kept_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Variables with which a command has its Spark session in a Java that is there already: it starts in a second, and
    what Java has compiled for one command, the next one has. One command at a time, and one that ends by itself; the
    tests that share a session have it in the same Java, once all commands are done.

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One session is enough, and the tests of the pipeline share it: whatever the number of workers, they all run in
    the same one. By their names, since a worker cannot tell of the marks that its tests have."""
    from xdist.scheduler import LoadScopeScheduling

    class OneForSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SPARK if _is_kept_together(nodeid) else nodeid

    return OneForSpark(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A worker can only tell of what is UTF-8; the logs of some tests are not, on purpose."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


def _is_kept_together(nodeid: str) -> bool:
    apart = any(name in nodeid for name in WITHOUT_A_SESSION) and not any(name in nodeid for name in WITH_A_SESSION)
    return (nodeid.startswith(SPARK) and not apart) or any(name in nodeid for name in SPARK_ELSEWHERE)


def _has_a_session_of_its_own(item: pytest.Item) -> bool:
    """Whether its commands have theirs in the kept Java, which has one at a time: not beside the one that is shared."""
    names = getattr(item, "fixturenames", ())
    return ("kept_java" in names and "spark" not in names) or any(name in item.nodeid for name in SPARK_ELSEWHERE)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep = config.getoption("--hypothesis-profile", None) == "deep"
    for item in items:
        # schemathesis gives each route a name, but pytest 9.2 makes ids of something else
        if (route := getattr(item, "operation_label", None)) and route not in item.nodeid:
            item._id = item.id.with_params(route)
    if twice := [id for id, times in Counter(item.nodeid for item in items).items() if times > 1]:
        raise pytest.UsageError(f"{twice[0]} is the id of several tests: only one of them would run in a worker.")
    items.sort(key=lambda item: not _has_a_session_of_its_own(item))
    for item in items:
        apart = item.nodeid.startswith(SPARK) and not _is_kept_together(item.nodeid)
        if apart and {"spark", "kept_java"} & set(getattr(item, "fixturenames", ())):
            raise pytest.UsageError(f"{item.nodeid} has the shared Java: it must not be named in WITHOUT_A_SESSION.")
        if (deep or "spark" in item.keywords) and item.get_closest_marker("timeout") is None:
            # a busy machine makes Spark wait longer than anything else, and thousands of examples take their time
            item.add_marker(pytest.mark.timeout(600))
    if importlib.util.find_spec("pyspark") is None:
        missing = pytest.mark.skip(reason="pyspark is not installed: pip install 'manydesks[pipeline]'")
        for item in items:
            if "spark" in item.keywords:
                item.add_marker(missing)
