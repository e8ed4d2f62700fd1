"""What is no whole backup, or would do harm, is refused before anything is unpacked."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.errors import BadBackup
from manydesks.office.archive import MANIFEST, Manifest, Packer, opened

STORE = b"a store"


def member(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), "mode": 0o600, "mtime": 1}


def manifest(**changes: Any) -> dict[str, Any]:
    value: dict[str, Any] = {
        "format": 1, "made_by": "0.1.0", "made_at": 1, "schema": [], "seq": 0, "lake": False, "secrets": False,
        "members": {"office.db": member(STORE)}, "folders": [], "links": {}, "left_out": {},
    }  # fmt: skip
    return {**value, **changes}


def write(path: Path, value: object, files: dict[str, bytes] | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as zipped:
        for name, content in ({"office.db": STORE} if files is None else files).items():
            zipped.writestr(name, content)
        zipped.writestr(MANIFEST, json.dumps(value))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(BadBackup) as refused, opened(path):
        pass
    return str(refused.value)


def test_a_sound_one_is_read(tmp_path: Path) -> None:
    with opened(write(tmp_path / "b", manifest())) as archive:
        assert archive.manifest.members["office.db"].bytes == len(STORE)


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/passwd", "workspaces/../../evil", "workspaces//x", "workspaces/a\\..\\b", "run/host.lock",
     "logs/host.log", "office.db-wal", "sessions/./x", "unknown/x", "office.db/x"],
)  # fmt: skip
def test_paths_that_are_no_office(tmp_path: Path, name: str) -> None:
    files = {"office.db": STORE, name: b"x"}
    members = {each: member(content) for each, content in files.items()}
    assert "no path of an office" in refusal(write(tmp_path / "b", manifest(members=members), files))
    assert "no path of an office" in refusal(write(tmp_path / "c", manifest(folders=[name])))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFDIR])
def test_members_that_are_no_files(tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipInfo("workspaces/amy/x")
    info.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "b", "w") as zipped:
        zipped.writestr("office.db", STORE)
        zipped.writestr(info, b"/etc/passwd")
        members = {"office.db": member(STORE), info.filename: member(b"/etc/passwd")}
        zipped.writestr(MANIFEST, json.dumps(manifest(members=members)))
    assert "not a regular file" in refusal(tmp_path / "b")


@pytest.mark.parametrize(
    "name", ["workspaces/amy", "workspaces", "sessions/a/s/out", "sessions/a/s/out/outbound.db", "office.db", "files/x"]
)
def test_links_that_nobody_made(tmp_path: Path, name: str) -> None:
    assert "symbolic link" in refusal(write(tmp_path / "b", manifest(links={name: "/etc"})))


def test_links_of_agents(tmp_path: Path) -> None:
    links = {"workspaces/amy/x": "/etc/passwd", "sessions/a/s/state/latest": "./x"}
    with opened(write(tmp_path / "b", manifest(links=links))) as archive:
        assert archive.manifest.links == links


def test_manifest_and_files_must_agree(tmp_path: Path) -> None:
    more = {"office.db": STORE, "files/x": b"x"}
    assert "do not agree" in refusal(write(tmp_path / "b", manifest(), more))
    assert "do not agree" in refusal(
        write(tmp_path / "c", manifest(members={"office.db": member(STORE), "f": member(b"")}))
    )
    assert "no store" in refusal(write(tmp_path / "d", manifest(members={}), {}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b", "w") as zipped:
        zipped.writestr("office.db", STORE)
        zipped.writestr("office.db", b"another")
        zipped.writestr(MANIFEST, json.dumps(manifest()))
    assert "twice" in refusal(tmp_path / "b")


def test_other_bytes_than_the_manifest_says(tmp_path: Path) -> None:
    path = write(tmp_path / "b", manifest(), {"office.db": b"a stone"})
    with opened(path) as archive, (tmp_path / "out").open("wb") as out, pytest.raises(BadBackup, match="damaged"):
        archive.unpack("office.db", out.fileno())


def test_more_bytes_than_the_manifest_says_are_not_written(tmp_path: Path) -> None:
    path = write(tmp_path / "b", manifest(), {"office.db": STORE + b"0" * (8 << 20)})
    with opened(path) as archive, (tmp_path / "out").open("wb") as out, pytest.raises(BadBackup, match="damaged"):
        archive.unpack("office.db", out.fileno())
    assert (tmp_path / "out").stat().st_size == 0


@pytest.mark.parametrize(
    "value",
    [[], {}, 7, manifest(members=[]), manifest(seq=-1), manifest(seq="1"), manifest(made_by=1), manifest(schema=7),
     manifest(members={"office.db": {}}), manifest(links={"workspaces/a/b": 1}), manifest(folders=[1])],
)  # fmt: skip
def test_manifests_that_are_none(tmp_path: Path, value: object) -> None:
    assert "its manifest is not one" in refusal(write(tmp_path / "b", value))


def test_a_newer_one(tmp_path: Path) -> None:
    assert "update ManyDesks" in refusal(write(tmp_path / "b", manifest(format=2, made_by="9.0")))


@pytest.mark.parametrize("end", [0, 10, 100, -10, -1])
def test_a_part_of_one(tmp_path: Path, end: int) -> None:
    whole = write(tmp_path / "b", manifest()).read_bytes()
    (tmp_path / "part").write_bytes(whole[:end])
    assert "cannot be put back" in refusal(tmp_path / "part")


def test_any_other_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b", "w") as zipped:
        zipped.writestr("x", b"x")
    assert "no manifest" in refusal(tmp_path / "b")


def test_what_is_packed_can_be_unpacked(tmp_path: Path) -> None:
    path, packed = tmp_path / "file", io.BytesIO()
    path.write_bytes(b"x" * 100)
    packer = Packer(packed)
    handle = os.open(path, os.O_RDONLY)
    size = os.fstat(handle)
    try:
        packer.add("office.db", handle)
    finally:
        os.close(handle)
    packer.finish(Manifest(made_by="1", made_at=1, schema=(), seq=0, lake=False, secrets=False, members=packer.members))
    assert packer.members["office.db"].bytes == size.st_size
    (tmp_path / "b").write_bytes(packed.getvalue())
    with opened(tmp_path / "b") as archive, (tmp_path / "out").open("wb") as out:
        archive.unpack("office.db", out.fileno())
    assert (tmp_path / "out").read_bytes() == b"x" * 100
