from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.desk.sandboxes.base import Plan
from manydesks.desk.sandboxes.bubblewrap import Bubblewrap
from manydesks.domain.errors import SandboxError

REFUSALS = {
    "bwrap: setting up uid map: Permission denied": "AppArmor",
    "bwrap: No permissions to create new namespace": "max_user_namespaces",
    "bwrap: Can't mount proc on /newroot/proc: Operation not permitted": "unmasked /proc",
    "bwrap: Creating new namespace failed: Operation not permitted": "in a container",
    "bwrap: something new": "--sandbox none",
}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    folder = tmp_path.resolve()
    return Plan(argv=("/bin/true",), mark="m", workspace=folder, inbox=folder, outbox=folder, state=folder)


async def test_a_machine_without_bwrap_is_told_what_to_install(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    health = await Bubblewrap().check()
    assert not health.works
    assert "apt-get install bubblewrap" in health.advice
    assert "--sandbox none" in health.advice
    with pytest.raises(SandboxError, match="install the package bubblewrap"):
        await Bubblewrap().start(plan)


@pytest.mark.parametrize("said", REFUSALS)
async def test_a_bwrap_that_cannot_work_is_quoted_and_explained(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    # a program in bwrap's place that fails as it does on such machines
    (tmp_path / "bwrap").write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin")
    health = await Bubblewrap().check()
    assert not health.works
    assert said in health.why
    assert REFUSALS[said] in health.advice
    with pytest.raises(SandboxError, match="bwrap did not begin"):
        await Bubblewrap().start(plan)
