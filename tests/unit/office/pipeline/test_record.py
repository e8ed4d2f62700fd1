"""What the archivist remembers, and what it costs to forget."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.office.pipeline import record
from manydesks.office.pipeline.record import Last, Record
from manydesks.settings.home import Home


@pytest.fixture
def office(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.prepare()
    return home


def test_what_was_written_is_read(office: Home) -> None:
    last = Last(job="run", started_at=1, ended_at=2, ok=False, reason="The pipeline failed: so.")
    for remembered in (Record(level_at=7), Record(level_at=8, last=last)):
        record.write(office, remembered)
        assert record.read(office) == remembered
    assert (office.run / record.NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"level_at": 1}', '{"level_at": 1, "last": {"job": "run"}}'])
def test_a_damaged_file_is_no_memory(office: Home, text: str) -> None:
    (office.run / record.NAME).write_text(text)
    assert record.read(office) is None


def test_a_disk_that_refuses_is_said(office: Home, caplog: pytest.LogCaptureFixture) -> None:
    (office.run / f"{record.NAME}.new").mkdir()
    record.write(office, Record(level_at=1))
    assert "pipeline.json cannot be written" in caplog.text
