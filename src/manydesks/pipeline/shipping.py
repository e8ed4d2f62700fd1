"""The package for the executors of a cluster, which have it from nowhere else."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import manydesks

#: the oldest date that a zip can hold: the same code gives the same file
_DATE = (1980, 1, 1, 0, 0, 0)


def write_package(folder: Path) -> Path:
    """Writes `<folder>/manydesks.zip`: the code of this package and nothing else, no data and no settings."""
    package = Path(manydesks.__file__).parent
    path = folder / f"{package.name}.zip"
    # another run may be sending this very file: it must never see half of it
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as file:
        for found in sorted(package.rglob("*.py")):
            name = found.relative_to(package.parent).as_posix()
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, found.read_bytes())
    fresh.replace(path)
    return path
