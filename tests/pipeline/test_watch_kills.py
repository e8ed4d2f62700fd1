"""A watch that its office keeps, and that is killed: the next one goes on with what came meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.desk.sandboxes import tree
from manydesks.pipeline.session import SCRATCH
from manydesks.testing.office import OfficeProcess

pytestmark = [pytest.mark.kills, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

SECONDS = 600.0


def test_an_office_keeps_a_watch_alive(home: Path, kept_java: Mapping[str, str]) -> None:
    given = {"MANYDESKS_PIPELINE__AUTO": "watch", "MANYDESKS_PIPELINE__MASTER": "local[2]"}
    office = OfficeProcess(home, {**os.environ, **given})
    office.start()
    try:

        def archived(seq: int) -> None:
            office.until(lambda reader: reader.archived() >= seq, SECONDS)

        def child() -> dict[str, Any]:
            running: list[dict[str, Any]] = []

            def found(reader: object) -> bool:
                host = office.door.host()
                running[:] = [host["pipeline"]["running"]] if host and host["pipeline"]["running"] else []
                return bool(running)

            office.until(found, SECONDS)
            return running[0]

        def head() -> int:
            return office.until(lambda reader: reader.head())

        office.ask("hello")
        first = child()
        assert first["job"] == "watch"
        archived(head())
        members = tree.of_session(first["pid"])
        assert len(members) > 1  # its Java too
        os.kill(first["pid"], signal.SIGKILL)
        office.until(lambda reader: child()["pid"] != first["pid"], SECONDS)
        office.ask("hello again")
        archived(head())
        last = office.door.host()
        assert last is not None
        assert last["pipeline"]["last"]["reason"] == "it was ended by signal 9"
        again = child()
        log = home / "logs" / "pipeline.log"
        office.until(lambda reader: log.exists() and "up to event " in log.read_text(), SECONDS)
        assert office.stop(SECONDS) == 0
        assert not (tree.of_session(again["pid"]) | tree.of_session(first["pid"]))
        # what the killed one had beside the lake went when the next one began, and that of this one with it
        assert list((home / "run" / "spark" / SCRATCH).iterdir()) == []
        variables = {**os.environ, **given, "MANYDESKS_HOME": str(home), **kept_java}
        command = [sys.executable, "-m", "manydesks", "--json", "pipeline", "status", "--check"]
        said = json.loads(subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True).stdout)
        assert said["agrees"] is True
        # in what a real office tells, each span has what it followed from
        assert said["tables"]["quarantined_spans"] == 0
        assert said["tables"]["spans"] > 0
    finally:
        office.kill()
