"""The rooms of the package: who may know whom, and who may load what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "manydesks"

#: packages that cost seconds or tens of megabytes, and the one room that may name them, on use
HEAVY = {
    "pyspark": "pipeline",
    "pyarrow": "pipeline",
    "pandas": "pipeline",
    "deltalake": "pipeline",
    "fastapi": "api",
    "starlette": "api",
    "uvicorn": "api",
}

#: what `manydesks --help` must not load: it answers before any of these would be there
NOT_FOR_HELP = (
    "pydantic",
    "apsw",
    "asyncio",
    "fastapi",
    "uvicorn",
    "httpx",
    "pyspark",
    "pyarrow",
    "pandas",
    "deltalake",
    "adbc_driver_sqlite",
)


def imports_of(file: Path) -> Iterator[tuple[str, str]]:
    """Every imported module with its full name, and when it is loaded: with the file, on use, or by type checkers."""

    def visit(node: ast.AST, when: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, when) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = (*package[: len(package) - child.level + 1],) if child.level else ()
                names = (*base, *filter(None, [child.module]))
                yield from ((".".join((*names, alias.name)), when) for alias in child.names)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from visit(child, "typing")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and when == "load":
                yield from visit(child, "use")
            else:
                yield from visit(child, when)

    package = file.relative_to(PACKAGE.parent).parent.parts
    yield from visit(ast.parse(file.read_text(encoding="utf-8"), str(file)), "load")


def files_of(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py"))


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def test_the_contracts_of_imports_hold() -> None:
    # The layers contract is exhaustive: a room that it does not name breaks it.
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_domain_needs_the_standard_library_only() -> None:
    strange = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in files_of("domain")
        for module, _ in imports_of(file)
        if module.split(".")[0] not in sys.stdlib_module_names and not is_in(module, "manydesks.domain")
    ]
    assert strange == []


def test_the_command_line_loads_the_pipeline_only_on_use() -> None:
    early = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in files_of("cli")
        for module, when in imports_of(file)
        if when == "load" and is_in(module, "manydesks.pipeline")
    ]
    assert early == []


@pytest.mark.parametrize(("package", "room"), HEAVY.items())
def test_heavy_packages_stay_in_their_room(package: str, room: str) -> None:
    strange = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for module, when in imports_of(file)
        if when != "typing" and is_in(module, package) and not file.is_relative_to(PACKAGE / room)
    ]
    assert strange == []


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from manydesks.cli.main import main\n"
        "sys.argv = ['manydesks', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "print('LOADED', *sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    shown, _, loaded = done.stdout.partition("LOADED ")
    assert "Usage:" in shown
    assert set(NOT_FOR_HELP) & set(loaded.split()) == set()
    rooms = {module.split(".")[1] for module in loaded.split() if module.startswith("manydesks.")}
    assert rooms <= {"cli", "domain"}


def test_imports_are_found_wherever_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path / "manydesks")
    file = tmp_path / "manydesks" / "room" / "file.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import a.b\nfrom . import c\nfrom ..d import e\n"
        "if TYPE_CHECKING:\n    import f\n"
        "class G:\n    import h\n    def i(self):\n        from j import k\n"
    )
    assert list(imports_of(file)) == [
        ("a.b", "load"),
        ("manydesks.room.c", "load"),
        ("manydesks.d.e", "load"),
        ("f", "typing"),
        ("h", "load"),
        ("j.k", "use"),
    ]


def test_the_readme_names_every_room() -> None:
    (line,) = (line for line in (ROOT / "README.md").read_text().splitlines() if "the rooms: " in line)
    rooms = {folder.parent.name for folder in PACKAGE.glob("*/__init__.py")} - {"testing"}
    assert set(re.findall(r"`([a-z]+)`", line.partition("the rooms: ")[2])) == rooms
