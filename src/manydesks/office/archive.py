"""A backup's file: a zip whose members are the home's files, and whose last one, `manifest.json`, says what they are.

The manifest names every file with its size and hash, every folder, and every symbolic link of a workspace as mere text:
a member that it does not name, or names otherwise, makes the whole file no backup. Nothing is ever taken from a
member's own header but its bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from manydesks.domain.errors import BadBackup

FORMAT = 1
MANIFEST = "manifest.json"
PIECE = 1 << 20
#: a manifest is read as a whole: enough for half a million files
MANIFEST_BYTES = 256 << 20
#: the most that makes sense to pack harder: most bytes are texts, and a desk waits for none of them
LEVEL = 1

#: what may be in a backup, by the first name of its path: files and folders
FILES = ("office.db", "settings.toml", "secrets.toml", "api.token", "mounts.toml")
FOLDERS = ("sessions", "workspaces", "files", "plugins", "lake")
#: kept by themselves, for whoever has them can act as the owner
SECRET = ("secrets.toml", "api.token", "mounts.toml")


@dataclass(frozen=True, kw_only=True)
class Member:
    """One file."""

    bytes: int
    sha256: str
    #: the owner's permissions: whether it can be executed
    mode: int
    #: when it was last changed, nanoseconds UTC
    mtime: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a backup is of, and all that is in it."""

    format: int = FORMAT
    #: the version of ManyDesks
    made_by: str
    #: milliseconds UTC
    made_at: int
    #: the migrations of its store
    schema: tuple[str, ...]
    #: the last event of its ledger
    seq: int
    #: the lake is in it
    lake: bool
    #: the keys are in it
    secrets: bool
    members: Mapping[str, Member] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    #: path → where it leads
    links: Mapping[str, str] = field(default_factory=dict)
    #: path → why it is not in it
    left_out: Mapping[str, str] = field(default_factory=dict)


class Packer:
    """Writes a backup's file, front to back; what is in it is known at its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=LEVEL)
        self.members: dict[str, Member] = {}
        #: in the order in which they were found
        self.folders: dict[str, None] = {}
        self.links: dict[str, str] = {}
        self.left_out: dict[str, str] = {}

    def add(self, name: str, source: int) -> None:
        """Everything that an open file holds now; what is appended meanwhile is not waited for."""
        found = os.fstat(source)
        digest, at = hashlib.sha256(), 0
        with self._zip.open(name, "w", force_zip64=True) as target:
            while at < found.st_size and (piece := os.pread(source, min(PIECE, found.st_size - at), at)):
                at += len(piece)
                digest.update(piece)
                target.write(piece)
        self.members[name] = Member(
            bytes=at, sha256=digest.hexdigest(), mode=found.st_mode & 0o700, mtime=max(0, found.st_mtime_ns)
        )

    def add_file(self, name: str, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self.add(name, handle)
        finally:
            os.close(handle)

    def finish(self, manifest: Manifest) -> None:
        text = json.dumps(asdict(manifest), ensure_ascii=False, separators=(",", ":"))
        self._zip.writestr(MANIFEST, text)
        self._zip.close()

    def give_up(self) -> None:
        """It failed: nothing more is written, also not by the end of this object."""
        self._zip.fp = None


class Archive:
    """A backup's file, open for reading, its manifest checked. Raises `BadBackup` for everything that is wrong."""

    def __init__(self, path: Path, zipped: zipfile.ZipFile) -> None:
        self.path = path
        self._zip = zipped
        self._infos = {info.filename: info for info in zipped.infolist()}
        if len(self._infos) != len(zipped.infolist()):
            raise self.refuse("a name is in it twice")
        self.manifest = self._read_manifest()
        self._check_names()

    def refuse(self, reason: str) -> BadBackup:
        return BadBackup(path=self.path, reason=reason)

    def unpack(self, name: str, target: int) -> None:
        """Write a file's bytes to an open file, if they are those of the manifest."""
        member, digest, size = self.manifest.members[name], hashlib.sha256(), 0
        with self._readable(name), self._zip.open(self._infos[name]) as source:
            while piece := source.read(PIECE):
                size += len(piece)
                if size > member.bytes:
                    break
                digest.update(piece)
                view = memoryview(piece)
                while view:
                    view = view[os.write(target, view) :]
        if size != member.bytes or digest.hexdigest() != member.sha256:
            raise self.refuse(f"'{name}' in it is damaged")

    def _read_manifest(self) -> Manifest:
        info = self._infos.pop(MANIFEST, None)
        if info is None or info.file_size > MANIFEST_BYTES:
            raise self.refuse("it has no manifest, so it is no backup, or a part of one")
        with self._readable(MANIFEST):
            text = self._zip.read(info)
        try:
            return _manifest(json.loads(text))
        except _Newer as newer:
            raise self.refuse(f"it was made by a newer ManyDesks ({newer}); update ManyDesks") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self.refuse(f"its manifest is not one ({type(error).__name__})") from None

    def _check_names(self) -> None:
        manifest = self.manifest
        if self._infos.keys() != manifest.members.keys():
            odd = sorted(self._infos.keys() ^ manifest.members.keys())[0]
            raise self.refuse(f"its manifest and its files do not agree about {odd[:80]!r}")
        for name, info in self._infos.items():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG) or info.is_dir():
                raise self.refuse(f"{name[:80]!r} in it is not a regular file")
        for name in (*manifest.members, *manifest.folders, *manifest.links):
            if not _is_ours(name):
                raise self.refuse(f"{name[:80]!r} in it is no path of an office")
        for name, target in manifest.links.items():
            if not may_be_link(name) or "\0" in target or not target:
                raise self.refuse(f"{name[:80]!r} in it is a symbolic link")
        if "office.db" not in manifest.members:
            raise self.refuse("it has no store")

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise self.refuse(f"'{name}' in it is damaged ({error})") from None


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Raises `BadBackup` if it is no backup that this version can put back, `OSError` if it cannot be read."""
    with path.open("rb") as file:
        try:
            zipped = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:
            raise BadBackup(path=path, reason=f"it is no backup, or not all of one ({error})") from None
        with zipped:
            yield Archive(path, zipped)


def may_be_link(name: str) -> bool:
    """Agents and their programs make links, in their workspaces and in the folder that is a program's own."""
    parts = name.split("/")
    return (parts[0] == "workspaces" and len(parts) > 2) or (
        parts[0] == "sessions" and len(parts) > 4 and parts[3] == "state"
    )


def _is_ours(name: str) -> bool:
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        return False
    return parts[0] in FOLDERS if len(parts) > 1 else name in FILES or name in FOLDERS


class _Newer(Exception):
    pass


def _manifest(value: Any) -> Manifest:
    if value["format"] != FORMAT:
        raise _Newer(str(value.get("made_by"))[:40])
    members = {
        _text(name): Member(
            bytes=_whole(found["bytes"]),
            sha256=_text(found["sha256"]),
            mode=_whole(found["mode"]) & 0o700,
            mtime=_whole(found["mtime"]),
        )
        for name, found in value["members"].items()
    }
    return Manifest(
        made_by=_text(value["made_by"]),
        made_at=_whole(value["made_at"]),
        schema=tuple(_text(name) for name in value["schema"]),
        seq=_whole(value["seq"]),
        lake=bool(value["lake"]),
        secrets=bool(value["secrets"]),
        members=members,
        folders=tuple(_text(name) for name in value["folders"]),
        links={_text(name): _text(target) for name, target in value["links"].items()},
        left_out={_text(name): _text(why) for name, why in value["left_out"].items()},
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    value.encode()
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("not a whole number")
    return value
