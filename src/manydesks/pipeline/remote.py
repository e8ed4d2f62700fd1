"""A place in an object store, or in a file system of others, that a URI names.

It knows as much of what a `Path` knows as a lake needs, through the object store that delta-rs itself uses: the same
credentials, from the same variables of the environment, which nothing here reads or shows. There are no folders: one is
there while something lies in it, and nothing has to be made, synced or given a mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalake.fs import DeltaStorageHandler

#: what delta-rs calls a scheme, where Spark calls it otherwise
FOR_SPARK: Mapping[str, str] = {"s3": "s3a"}

#: a store that does not answer is asked again this often, and not for longer: by default delta-rs takes three minutes
OPTIONS: Mapping[str, str] = {"max_retries": "6", "retry_timeout": "60s"}

_URI = re.compile(r"(s3a?|gs|abfss?|hdfs)://([^/]+)/*(.*?)/*")


class Store:
    """What lies below a URI; opened once it is asked for something."""

    def __init__(self, root: str) -> None:
        self.root = root

    @cached_property
    def files(self) -> DeltaStorageHandler:
        from deltalake.fs import DeltaStorageHandler

        return DeltaStorageHandler(self.root, dict(OPTIONS))

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        """Spark's workers open it themselves."""
        return Store, (self.root,)


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A place below a URI; `at` makes the first one, `/` the others."""

    store: Store = field(compare=False, repr=False)
    #: the URI of the lake, as delta-rs writes it
    root: str
    #: a folder of this machine for what cannot lie there: locks, and what is published
    beside: Path
    #: from the lake on; empty: the lake itself
    below: str = ""
    #: as a list of the store had them
    bytes: int | None = field(default=None, compare=False)
    changed: int | None = field(default=None, compare=False)

    @classmethod
    def at(cls, uri: str, beside: Path) -> Remote:
        """`uri`: as a setting has it, checked."""
        found = _URI.fullmatch(uri)
        assert found is not None, "settings let nothing else pass"
        scheme = "s3" if found[1] == "s3a" else found[1]
        root = f"{scheme}://{found[2]}/{found[3]}".rstrip("/")
        return cls(store=Store(root), root=root, beside=beside)

    def __str__(self) -> str:
        return f"{self.root}/{self.below}".rstrip("/")

    def __truediv__(self, name: str) -> Remote:
        return replace(self, below=f"{self.below}/{name}".strip("/"), bytes=None, changed=None)

    def __lt__(self, other: Remote) -> bool:
        return self.below < other.below

    @property
    def name(self) -> str:
        return PurePosixPath(self.below).name

    def absolute(self) -> Remote:
        return self

    def as_uri(self) -> str:
        return str(self)

    def for_spark(self) -> str:
        scheme, rest = str(self).split("://", 1)
        return f"{FOR_SPARK.get(scheme, scheme)}://{rest}"

    def relative_to(self, other: Remote) -> PurePosixPath:
        return PurePosixPath(self.below).relative_to(other.below or ".")

    def iterdir(self) -> Iterator[Remote]:
        yield from self._listed(recursive=False)

    def glob(self, pattern: str) -> Iterator[Remote]:
        """Only by the last name."""
        yield from (found for found in self._listed(recursive=False) if fnmatchcase(found.name, pattern))

    def rglob(self, pattern: str) -> Iterator[Remote]:
        """Objects alone: nothing that is there only as a part of a name."""
        for found in self._listed(recursive=True):
            if found.bytes is not None and fnmatchcase(found.name, pattern):
                yield found

    def read_text(self, encoding: str = "utf-8") -> str:
        return bytes(self.open().read()).decode(encoding)

    def open(self) -> Any:
        """A file of pyarrow, to read anywhere in it. Raises `FileNotFoundError`."""
        return self.store.files.open_input_file(self.below)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A file of pyarrow, for what writes Parquet; it is there once the block ends, and never a part of it."""
        file = self.store.files.open_output_stream(self.below)
        yield file
        file.close()

    def unlink(self) -> None:
        """One that is gone already is fine."""
        self.store.files.delete_file(self.below)

    def remove_tree(self) -> None:
        """All that lies below it."""
        assert self.below, "never the whole lake"
        self.store.files.delete_dir(self.below)

    def _listed(self, *, recursive: bool) -> Iterator[Remote]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self.below, allow_not_found=True, recursive=recursive)
        for found in self.store.files.get_file_info_selector(selector):
            is_file = found.type == FileType.File
            changed = round(found.mtime.timestamp() * 1000) if is_file and found.mtime is not None else None
            yield replace(self, below=found.path, bytes=found.size if is_file else None, changed=changed)
