from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from manydesks.pipeline.shipping import write_package


def test_the_package_has_code_and_nothing_else(tmp_path: Path) -> None:
    path = write_package(tmp_path)
    names = zipfile.ZipFile(path).namelist()
    assert {"manydesks/__init__.py", "manydesks/pipeline/sources/ledger.py"} <= set(names)
    assert all(name.startswith("manydesks/") and name.endswith(".py") for name in names)
    assert [found.name for found in tmp_path.iterdir()] == ["manydesks.zip"]
    before = path.read_bytes()
    assert write_package(tmp_path).read_bytes() == before


def test_a_python_without_the_package_can_import_it(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import manydesks.domain.errors as e; print(e.__file__)"
    command = [sys.executable, "-I", "-S", "-c", code, str(write_package(tmp_path))]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.strip().startswith(str(tmp_path / "manydesks.zip"))
