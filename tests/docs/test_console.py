"""Every console block in the documentation runs, and prints what the page says.

    ```console
    $ manydesks send "hello" --wait
    Hello from …
    ```

The blocks of a page run in order, in one office with a home of its own, for a person called ada. A command must end
with 0. Where lines follow it, they must be its output: `…` stands for anything inside a line, and alone on a line for
any number of lines. An id such as `chat_4f7k2m9q` stands for whichever id is printed there, and for the same one from
then on, also in commands. A comment before a block changes that: `<!-- test: spark -->`, or
`<!-- test: skip: the reason -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

FENCE = re.compile(r"^( *)```(\w*)")
NOTE = re.compile(r"^ *<!-- test: (spark|skip: .+?) *-->$")
#: an id as pages write it: with a digit, so that `no_response` stays a word
WRITTEN_ID = re.compile(r"\b[a-z]+(?:_[a-z]+)*_(?=[a-z]*[0-9])[a-z0-9]{8}\b")
PRINTED_ID = r"[a-z]+(?:_[a-z]+)*_[a-z0-9]{8}"


@dataclass(kw_only=True)
class Command:
    #: where it stands, `README.md:12`
    place: str
    text: str
    #: the lines of output that the page shows; none means that any output will do
    expected: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Block:
    place: str
    #: `spark`, `skip: the reason`, or nothing
    note: str
    commands: list[Command]


def blocks_of(text: str, page: str) -> Iterator[Block]:
    """The console blocks of a page, in order."""
    note, language, indent = "", None, ""
    commands: list[Command] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if fence and language is None:
            indent, language = fence.groups()
            start, commands = number, []
        elif fence:
            if language == "console":
                yield Block(place=f"{page}:{start}", note=note, commands=commands)
            note, language = "", None
        elif language is None:
            found = NOTE.match(line)
            note = found.group(1) if found else note if not line.strip() else ""
        elif language == "console":
            line = line.removeprefix(indent)
            if line.startswith("$ "):
                commands.append(Command(place=f"{page}:{number}", text=line[2:]))
            elif commands and commands[-1].text.endswith("\\") and not commands[-1].expected:
                commands[-1].text += "\n" + line
            elif commands:
                commands[-1].expected.append(line)


class Ids:
    """Which printed id a written one stands for."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def in_command(self, text: str) -> str:
        return WRITTEN_ID.sub(lambda found: self.known.get(found.group(), found.group()), text)

    def match(self, expected: list[str], output: str) -> bool:
        """Does the output read as the page says? If so, the ids in it are known from now on."""
        groups: dict[str, str] = {}

        def pattern_of(line: str) -> str:
            parts, end = [], 0
            for found in WRITTEN_ID.finditer(line):
                parts += [words(line[end : found.start()]), id_of(found.group())]
                end = found.end()
            return "".join([*parts, words(line[end:]), r"[ ]*\n"])

        def words(text: str) -> str:
            return ".*".join(re.escape(part) for part in text.split("…"))

        def id_of(written: str) -> str:
            if written in self.known:
                return re.escape(self.known[written])
            if written in groups:
                return f"(?P={groups[written]})"
            groups[written] = f"id{len(groups)}"
            return f"(?P<{groups[written]}>{PRINTED_ID})"

        pattern = "".join(r"(?:.*\n)*" if line.strip() == "…" else pattern_of(line) for line in expected)
        found = re.fullmatch(pattern, output.rstrip("\n") + "\n")
        if found:
            self.known |= {written: found[group] for written, group in groups.items()}
        return found is not None


class Visitor:
    """Someone at a shell, who follows a page in an office of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ids = Ids()
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home.parent),
            "LOGNAME": "ada",
            "MANYDESKS_HOME": str(home),
            "MANYDESKS_PORT": "0",  # the one of the pages is one for the whole machine
        }

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", self.ids.in_command(command)],
            cwd=self.home.parent,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def follow(self, block: Block) -> None:
        for command in block.commands:
            done = self.run(command.text)
            assert done.returncode == 0, (
                f"{command.place}: `{command.text}` ended with {done.returncode}\n{done.stdout}"
            )
            assert not command.expected or self.ids.match(command.expected, done.stdout), (
                f"{command.place}: `{command.text}` printed\n{done.stdout}\nand the page says\n"
                + "\n".join(command.expected)
            )


@pytest.fixture
def visitor(home: Path) -> Iterator[Visitor]:
    visitor = Visitor(home)
    opened = visitor.run("manydesks up --detach")
    assert opened.returncode == 0, opened.stdout
    yield visitor
    closed = visitor.run("manydesks down")
    assert closed.returncode == 0, closed.stdout


#: the page that people follow first
FIRST = "README.md"
BLOCKS = {
    page.relative_to(ROOT).as_posix(): list(
        blocks_of(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix())
    )
    for page in PAGES
}


def pages_with(*, spark: bool) -> list[str]:
    return [page for page, blocks in BLOCKS.items() if any((block.note == "spark") == spark for block in blocks)]


@pytest.mark.parametrize("page", pages_with(spark=False))
def test_the_blocks_of_a_page_run(page: str, visitor: Visitor) -> None:
    for block in BLOCKS[page]:
        if not block.note:
            visitor.follow(block)


def follow_with_spark(page: str, visitor: Visitor) -> None:
    for block in BLOCKS[page]:
        if not block.note.startswith("skip"):
            visitor.follow(block)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_first_page_runs_with_spark_as_people_have_it(visitor: Visitor) -> None:
    follow_with_spark(FIRST, visitor)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in pages_with(spark=True) if page != FIRST])
def test_the_blocks_of_a_page_run_with_spark(page: str, visitor: Visitor, kept_java: Mapping[str, str]) -> None:
    """Without a Java started for each command."""
    visitor.environment |= kept_java
    follow_with_spark(page, visitor)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.place)
        for blocks in BLOCKS.values()
        for block in blocks
        if block.note.startswith("skip")
    ],
)
def test_a_block_that_is_not_run_says_why(block: Block) -> None:
    pytest.skip(block.note.removeprefix("skip: "))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_command_escapes_into_another_kind_of_block(page: Path) -> None:
    language = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if fence := FENCE.match(line):
            language = fence.group(2) if language is None else None
        elif language not in (None, "console"):
            assert not re.match(r" *(\$ |manydesks )", line), f"{page.name}:{number} belongs into a console block"


def test_blocks_are_found_with_their_notes_and_lines() -> None:
    first_block = "<!-- test: spark -->\n\n```console\n$ one \\\n  two\nout\n$ three\n```\n"
    first, second = blocks_of(first_block + "```sh\n$ no\n```\n```console\n$ four\n```\n", "page.md")
    assert first.note == "spark"
    assert [(command.text, command.expected) for command in first.commands] == [
        ("one \\\n  two", ["out"]),
        ("three", []),
    ]
    assert (second.place, second.note, second.commands[0].text) == ("page.md:12", "", "four")


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        (["all"], "all\n", True),
        (["all"], "all\nmore\n", False),
        (["all", "…"], "all\nmore\nand more\n", True),
        (["took … s."], "took 12 s.\n", True),
        (["took … s."], "took 12 s, \n", False),
        (["chat_aaaaaaa1 chat_aaaaaaa1"], "chat_00000000 chat_00000000\n", True),
        (["chat_aaaaaaa1 chat_aaaaaaa1"], "chat_00000000 chat_11111111\n", False),
        (["no_response"], "chat_00000000\n", False),
    ],
)
def test_output_is_held_against_the_page(expected: list[str], output: str, same: bool) -> None:
    assert Ids().match(expected, output) is same


def test_an_id_stands_for_the_one_that_was_printed() -> None:
    ids = Ids()
    assert ids.match(["Stored as chat_aaaaaaa1."], "Stored as chat_9zzzzzzz.")
    assert ids.in_command("manydesks trace chat_aaaaaaa1") == "manydesks trace chat_9zzzzzzz"
    assert not ids.match(["chat_aaaaaaa1"], "chat_00000000")
