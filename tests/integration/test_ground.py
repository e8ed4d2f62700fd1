"""Somebody deletes parts of the home under a running office."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell


def answers(office: OfficeProcess, text: str) -> list[str]:
    trace = office.ask(text)
    return [response["text"] for message in trace["messages"] for response in message["responses"]]


def test_sessions_may_vanish_while_nobody_works(office: OfficeProcess) -> None:
    assert answers(office, "!say one") == ["one"]
    shutil.rmtree(office.home.sessions)
    assert answers(office, "!say two") == ["two"]
    assert office.stop() == 0


@pytest.mark.parametrize("part", ["run", "office.db"])
def test_an_office_that_lost_its_ground_closes_and_says_why(
    make_office: Callable[..., OfficeProcess], part: str
) -> None:
    office = make_office()
    office.start()
    victim = office.home.path / part
    if victim.is_dir():
        shutil.rmtree(victim)
    else:
        victim.unlink()
    assert office.wait(30) == 1
    assert "was deleted or replaced under the office" in office.log()


def test_the_next_office_keeps_its_socket_when_the_one_before_it_leaves(
    make_office: Callable[..., OfficeProcess], shell: Shell
) -> None:
    first, second = make_office(), make_office()
    first.start()
    shutil.rmtree(first.home.run)
    second.start()
    assert first.wait(30) == 1
    assert answers(second, "!say still here") == ["still here"]
    assert second.stop() == 0
