"""Logs of an office that runs for months: small, and without a line for every call."""

from __future__ import annotations

from manydesks.office.hostlog import FILE_BYTES
from manydesks.testing.office import OfficeProcess


def test_the_log_of_an_office_that_has_grown_is_renamed(office: OfficeProcess) -> None:
    log = office.home.logs / "host.log"
    office.ask("!say before")
    with log.open("ab") as file:
        file.truncate(FILE_BYTES + 1)
    office.until(lambda _: (office.home.logs / "host.log.1").exists())
    office.ask("!say after")
    assert office.stop() == 0
    assert log.stat().st_size < 100_000
    assert "The office is closed" in office.log()
