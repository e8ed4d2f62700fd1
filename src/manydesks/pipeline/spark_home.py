"""A home for Spark that can be written: `local-cluster` puts its workers' folders into Spark's own, which may be
read-only, and is no place for what a run leaves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyspark

#: where the workers put a folder for each application
WORK = "work"


def write_home(folder: Path) -> Path:
    """Makes `<folder>/home`, which has everything of the installed Spark by a link, and returns it."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    for found in Path(pyspark.__file__).parent.iterdir():
        link = home / found.name
        if found.name == WORK or (link.is_symlink() and link.readlink() == found):
            continue
        fresh = home / f".{found.name}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(found)
        fresh.replace(link)
    return home


def sweep_home(folder: Path, application: str) -> None:
    """Removes what an application that has ended left there."""
    shutil.rmtree(folder / "home" / WORK / application, ignore_errors=True)
