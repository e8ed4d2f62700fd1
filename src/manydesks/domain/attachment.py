"""Files that go with a message: what they may be called, how large they may be, and where they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: of one response
MAX_FILES = 10
#: of one file: more is refused by many platforms, and a desk could fill the disk with it
MAX_FILE_BYTES = 25 << 20
#: a file's name must fit into a folder of any file system
MAX_NAME_BYTES = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """A file that the office has taken: its copy is written, synced, and named by what is in it."""

    #: as its author called it
    name: str
    bytes: int
    sha256: str
    #: relative to the office's home
    path: str

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "bytes": self.bytes, "sha256": self.sha256, "path": self.path}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Attachment:
        return cls(name=value["name"], bytes=value["bytes"], sha256=value["sha256"], path=value["path"])


@dataclass(frozen=True, kw_only=True, slots=True)
class NotTaken:
    """A file that a desk named and the office did not take."""

    name: str
    #: the end of a sentence for people
    reason: str


#: the files of one row of the desk, in its order
Taken = tuple[Attachment | NotTaken, ...]


def is_file_name(name: object) -> bool:
    """Whether a file may be called so: one plain name, that no folder and no terminal misunderstands."""
    if not isinstance(name, str) or not name or name in (".", "..") or "/" in name or "\\" in name:
        return False
    return name.isprintable() and name == name.strip() and len(name.encode()) <= MAX_NAME_BYTES
