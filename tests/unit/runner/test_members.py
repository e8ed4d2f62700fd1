from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput
from manydesks.runner import members
from manydesks.runner.providers.base import Descriptor, Station
from manydesks.runner.providers.registry import GROUP, Providers
from manydesks.runner.providers.rehearsal import Rehearsal

_STRANGER = """
from manydesks.runner.providers.base import Descriptor
one = Descriptor(name="parrot", in_process=False, load=lambda: None)
taken = Descriptor(name="rehearsal", in_process=False, load=lambda: None)
"""


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that announces a provider, a name that is taken, something else, and something broken."""
    (tmp_path / "stranger_of_manydesks.py").write_text(_STRANGER)
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    points = {"a": "one", "b": "taken", "c": "__name__", "d": "missing"}
    lines = [f"{name} = stranger_of_manydesks:{attribute}" for name, attribute in points.items()]
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_the_built_in_is_there_and_loads(tmp_path: Path) -> None:
    found = Providers().get("rehearsal")
    assert found.in_process
    station = Station(agent="ada", name="Ada", workspace=tmp_path, state=tmp_path)
    assert isinstance(found.load(station), Rehearsal)


def test_an_unknown_provider_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"no provider 'gpt'; there are .*rehearsal"):
        Providers().get("gpt")


@pytest.mark.usefixtures("stranger")
def test_a_stranger_comes_through_the_same_door_but_takes_no_name() -> None:
    providers = Providers()
    assert "parrot" in providers.names()
    assert providers.get("parrot").in_process is False
    assert providers.get("rehearsal").in_process is True
    assert [name for name in providers.names() if name == "rehearsal"] == ["rehearsal"]


@pytest.mark.usefixtures("stranger")
def test_a_broken_stranger_is_left_out_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = members.strangers(GROUP, Descriptor)
    assert [descriptor.name for descriptor in found] == ["parrot", "rehearsal"]
    assert "stranger_of_manydesks:missing" in caplog.text
    assert "is not a Descriptor" in caplog.text


def test_looking_at_providers_imports_nothing_heavy() -> None:
    script = (
        "import sys; from manydesks.runner.providers.registry import Providers; Providers().get('rehearsal'); "
        "print([m for m in ('apsw', 'pydantic', 'httpx', 'pyspark', 'click') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
