"""Which desk an agent gets, and which sentence it gets instead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from manydesks.desk.base import Bells, Seat, Way
from manydesks.desk.confined import Confined
from manydesks.desk.furnish import Furnisher, checked_options, limits_of, programs_of, way_of
from manydesks.desk.inprocess import InProcessDesk
from manydesks.desk.process import ProcessDesk
from manydesks.desk.sandboxes.base import Descriptor as SandboxDescriptor
from manydesks.desk.sandboxes.base import Health as SandboxHealth
from manydesks.domain.errors import BadInput
from manydesks.runner.providers.base import Descriptor, Endpoint, Health
from manydesks.runner.providers.registry import Providers as Registry
from manydesks.runner.providers.rehearsal import Rehearsal
from manydesks.settings.home import Home
from manydesks.settings.model import SandboxSettings, Settings
from manydesks.testing.clock import ManualClock

BELLS = Bells(started=lambda s: None, output=lambda s: None, ended=lambda s, f: None)


def provider(name: str, **more: Any) -> Descriptor:
    given = {"in_process": False, "load": lambda station: Rehearsal(), "options": {"depth": "how deep"}}
    return Descriptor(name=name, **{**given, **more})


class Providers:
    """Three that there are not."""

    _all: Mapping[str, Descriptor] = {
        "inside": provider("inside", in_process=True),
        "program": provider("program"),
        "model": provider("model", in_process=True, endpoint="openai"),
        "sick": provider("sick", check=lambda options: Health(works=False, why="install it.")),
    }

    def names(self) -> list[str]:
        return sorted(self._all)

    def get(self, name: str) -> Descriptor:
        return self._all[name]


class Box:
    works = True

    async def check(self) -> SandboxHealth:
        return SandboxHealth(works=self.works, why="It was tried.", advice="Mend it.")


class Sandboxes:
    """A strict one that works or not, and none."""

    def __init__(self) -> None:
        self.strict = Box()

    def names(self) -> list[str]:
        return ["bubblewrap", "none"]

    def get(self, name: str) -> SandboxDescriptor:
        box: Any = self.strict if name == "bubblewrap" else Box()
        return SandboxDescriptor(name=name, isolates=name == "bubblewrap", load=lambda: box)


class Doors:
    fault: str | None = None

    async def open(self, session: str, way: Way) -> Endpoint:
        raise NotImplementedError

    async def close(self, session: str) -> None: ...

    def check(self, way: Way) -> str | None:
        return self.fault


class Room:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.home = Home(folder)
        self.home.prepare()
        self.clock = ManualClock()
        self.sandboxes = Sandboxes()
        self.doors = Doors()
        self.furnisher = Furnisher(
            self.home,
            Settings(**settings),
            self.clock,
            self.doors,
            secrets=dict,
            providers=Providers(),  # type: ignore[arg-type]
            sandboxes=self.sandboxes,  # type: ignore[arg-type]
        )

    async def desk(self, provider: str, **more: Any) -> Any:
        folder = self.home.session("amy", "session_12345678")
        seat = Seat(
            session="session_12345678",
            agent="amy",
            agent_name="Amy",
            provider=provider,
            model=None,
            folder=folder,
            workspace=self.home.workspace("amy"),
            **more,
        )
        return await self.furnisher.desk(seat, BELLS)


async def test_who_runs_nothing_sits_inside(tmp_path: Path) -> None:
    room = Room(tmp_path)
    assert isinstance(await room.desk("inside"), InProcessDesk)
    # unless the agent's card says otherwise
    desk = await room.desk("inside", sandbox="bubblewrap")
    assert isinstance(desk, ProcessDesk)
    assert desk.sandbox == "bubblewrap"


@pytest.mark.parametrize(
    ("kind", "own", "expected"),
    [
        ("auto", None, "bubblewrap"),
        ("bubblewrap", None, "bubblewrap"),
        ("none", None, "none"),
        ("none", "bubblewrap", "bubblewrap"),
        ("auto", "none", "none"),
    ],
)
async def test_who_runs_programs_sits_in_a_sandbox(tmp_path: Path, kind: Any, own: str | None, expected: str) -> None:
    room = Room(tmp_path, sandbox=SandboxSettings(kind=kind))
    desk = await room.desk("program", sandbox=own)
    assert desk.sandbox == expected


async def test_nothing_falls_back(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.sandboxes.strict.works = False
    with pytest.raises(BadInput) as refused:
        await room.desk("program")
    assert str(refused.value) == (
        "The agent 'amy' cannot work: it has to be held by the sandbox 'bubblewrap', which does not work "
        "here. It was tried. Mend it."
    )
    assert isinstance(await room.desk("inside"), InProcessDesk)
    # set by hand it is the owner's word
    assert (await room.desk("program", sandbox="none")).sandbox == "none"
    # mended, it is tried again after a while
    room.sandboxes.strict.works = True
    with pytest.raises(BadInput):
        await room.desk("program")
    room.clock.advance(60_000)
    assert (await room.desk("program")).sandbox == "bubblewrap"


async def test_what_is_missing_is_said(tmp_path: Path) -> None:
    room = Room(tmp_path)
    with pytest.raises(BadInput, match="The provider 'sick' cannot work: install it"):
        await room.desk("sick")
    room.doors.fault = "There is no key."
    with pytest.raises(BadInput, match="There is no key"):
        await room.desk("model")
    assert isinstance(await room.desk("inside"), InProcessDesk)


async def test_mounts_only_from_the_owners_list(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    room = Room(tmp_path / "home")
    with pytest.raises(BadInput, match=r"is not in .*mounts\.toml"):
        await room.desk("program", options={"mounts": [str(tmp_path / "docs")]})
    (room.home.path / "mounts.toml").write_text(f'[[allow]]\npath = "{tmp_path}/docs"\nwrite = true\n')
    (room.home.path / "mounts.toml").chmod(0o600)
    for asked, writable in ((f"{tmp_path}/docs", False), (f"{tmp_path}/docs:write", True)):
        desk = await room.desk("program", options={"mounts": [asked]})
        (mount,) = desk._with.mounts
        assert (mount.path, mount.writable) == (tmp_path / "docs", writable)
    with pytest.raises(BadInput, match="'mounts' is a list of paths"):
        await room.desk("program", options={"mounts": "~/docs"})


async def test_where_a_stranger_sat_the_host_begins_anew(tmp_path: Path) -> None:
    room = Room(tmp_path)
    desk = await room.desk("program")
    desk.mailbox.prepare()
    Confined(desk.mailbox.folder).mark("bubblewrap")
    (desk.mailbox.folder / "out" / "heartbeat").symlink_to("/etc/passwd")
    await room.desk("inside")
    assert not (desk.mailbox.folder / "out").exists()


def test_an_agents_options_go_over_the_settings() -> None:
    settings = Settings(providers={"program": {"depth": 1}})
    assert checked_options(provider("program"), {}, settings) == {"depth": 1}
    assert checked_options(provider("program"), {"depth": 2}, settings) == {"depth": 2}
    with pytest.raises(BadInput, match="has no option 'width'; it has depth, mounts"):
        checked_options(provider("program"), {"width": 2}, settings)


def test_values_that_are_not_allowed() -> None:
    known = Registry()
    for name, own, why in (
        ("rehearsal", {"recording": "/etc/passwd"}, "'recording' must be the path of a file in the agent's workspace"),
        ("claude", {"retries": 99}, "option 'retries' of claude must be a whole number from 0 to 10"),
        ("claude", {"upstream": 7}, "The option 'upstream' of 'claude' must be a text"),
        ("claude", {"mounts": "~/docs"}, "The option 'mounts' is a list of paths"),
        ("anthropic", {"max_tokens": 0}, "the option 'max_tokens' must be a whole number from 1"),
        ("openai", {"api": "telepathy"}, 'the option \'api\' must be "chat" or "responses"'),
    ):
        with pytest.raises(BadInput, match=why):
            checked_options(known.get(name), own, Settings())
        with pytest.raises(BadInput, match=why):
            checked_options(known.get(name), {}, Settings(providers={name: own}))
    # that a program is not there is no fault of its options
    assert checked_options(known.get("claude"), {"program": "/nowhere"}, Settings()) == {"program": "/nowhere"}


def test_the_way_to_a_model_is_taken_out_of_the_options() -> None:
    assert way_of(provider("x"), {"depth": 1}) is None
    with_model = provider("x", endpoint="openai")
    options: dict[str, Any] = {"depth": 1, "upstream": "lm", "base_url": "https://x", "key": "k"}
    assert way_of(with_model, options) == Way(kind="openai", upstream="lm", base_url="https://x", key="k")
    assert options == {"depth": 1}
    assert way_of(with_model, {}) == Way(kind="openai", upstream="openai")
    with pytest.raises(BadInput, match="'key' of 'x' must be a text"):
        way_of(with_model, {"key": 7})


def test_the_limits_of_the_settings() -> None:
    limits = limits_of(SandboxSettings(memory_mib=100, tasks=20, tmp_mib=1, open_files=64, file_mib=2))
    assert (limits.memory_bytes, limits.tasks, limits.tmp_bytes, limits.open_files, limits.file_bytes) == (
        100 << 20, 20, 1 << 20, 64, 2 << 20,
    )  # fmt: skip


def test_the_program_of_a_provider(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    (tmp_path / "link").symlink_to(program)
    assert programs_of(provider("x"), {}) == ()
    with_program = provider("x", program="no-such-program-here")
    assert programs_of(with_program, {}) == ()
    assert programs_of(with_program, {"program": str(tmp_path / "link")}) == (program,)
