"""The reference pages say what the code says: no name too few, none too many.

Parts between `<!-- generated: name -->` and `<!-- end -->` are written by `scripts/docs`, which runs this file; the
other tables are written by hand and held against the code.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from manydesks.api.app import openapi_document
from manydesks.cli import exits
from manydesks.cli.main import cli
from manydesks.domain import states
from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput
from manydesks.domain.event import KINDS
from manydesks.domain.mail import ACK_STATUSES, FAILURES, STEP_TYPES
from manydesks.domain.mail import KINDS as MESSAGE_KINDS
from manydesks.domain.routing import Default, Directory, Routing, Team, route_person
from manydesks.mailbox import schema
from manydesks.mailbox.connection import connected
from manydesks.runner.providers import rehearsal
from manydesks.settings.load import DEBUG, HOME, NO_SETTINGS, SHORT, variables
from manydesks.settings.model import Settings, allowed, named_tables, sections
from manydesks.store.database import open_reader
from manydesks.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "manydesks"
REFERENCE = ROOT / "docs" / "reference"

GENERATED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: `code`, or ``code with a ` in it``
SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)")


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def spans(text: str) -> list[str]:
    """What stands in code spans; a blank beside a backtick only keeps it apart from the mark."""
    return [code[1:-1] if code.startswith(" `") or code.endswith("` ") else code for _, code in SPAN.findall(text)]


def part(text: str, heading: str) -> str:
    """What stands below a heading, down to the next one of its rank or higher."""
    rank = heading.split(" ")[0]
    found = re.search(rf"^{re.escape(heading)}$\n(.*?)(?=^#{{1,{len(rank)}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no '{heading}'"
    return found.group(1)


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, without headings. No cell holds a `|`."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().split("|")[1:-1]]
        if set(line) <= set("|-: "):
            found.pop()  # the row above was the table's head
        else:
            found.append(cells)
    return found


def headings(text: str, rank: str) -> list[str]:
    return re.findall(rf"^{rank} (.+)$", text, re.MULTILINE)


# what is generated


def settings_part() -> str:
    names = {place: name for name, place in variables().items()}
    lines: list[str] = []
    for section, model in sections().items():
        lines += [f"## {section}", "", (model.__doc__ or "").strip(), ""]
        lines += ["| setting | default | allowed | meaning | variable |", "|---|---|---|---|---|"]
        for key, field in model.model_fields.items():
            default = json.dumps(field.default, ensure_ascii=False)
            cells = (f"`{key}`", f"`{default}`", allowed(field), field.description or "", f"`{names[section, key]}`")
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    for section, model in named_tables().items():
        lines += [f"## {section}.<name>", "", (Settings.model_fields[section].description or "").strip(), ""]
        if model is None:
            continue
        lines += ["| setting | default | allowed | meaning |", "|---|---|---|---|"]
        for key, field in model.model_fields.items():
            default = "needed" if field.is_required() else f"`{json.dumps(field.default, ensure_ascii=False)}`"
            lines.append(f"| `{key}` | {default} | {allowed(field)} | {field.description or ''} |")
        lines.append("")
    return "\n".join(lines)


def commands_of(group: click.Group, context: click.Context) -> Iterator[tuple[str, str]]:
    """Each command's path and its help, at the 80 columns of a plain terminal; a group before its members."""
    yield context.command_path, group.get_help(context)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from commands_of(command, below)
        else:
            yield below.command_path, command.get_help(below)


def commands_part() -> str:
    # click leaves two of the 80 columns free
    root = click.Context(cli, info_name="manydesks", terminal_width=78, **cli.context_settings)
    return "\n".join(f"## {path}\n\n```text\n{text}\n```\n" for path, text in commands_of(cli, root))


LAYERS = {
    "bronze": "What the office recorded, as it recorded it.",
    "silver": "The ledger as the things it tells of.",
    "gold": "What people ask of the history, worked out.",
    "pipeline_runs": "What the pipeline did.",
}


def lake_part() -> str:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")
    from manydesks.pipeline.schemas import TABLES

    lines: list[str] = []
    for layer, says in LAYERS.items():
        lines += [f"## {layer}", "", says, ""]
        for spec in (spec for spec in TABLES.values() if spec.layer == layer):
            if spec.name != layer:
                lines += [f"### {spec.name}", ""]
            lines += [spec.says, "", "| column | type | meaning |", "|---|---|---|"]
            for column in spec.columns:
                kind = f"{column.type.simpleString()}{'' if column.nullable else ', never NULL'}"
                lines.append(f"| `{column.name}` | {kind} | {column.says} |")
            lines.append("")
    return "\n".join(lines)


def api_part() -> str:
    document = openapi_document()
    shapes = document["components"]["schemas"]
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            given = [f"`{p['name']}`{'*' if p.get('required') else ''}" for p in operation.get("parameters", ())]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            shape = shapes.get(body.get("$ref", "").rpartition("/")[2], {})
            needed = shape.get("required", ())
            fields = [f"`{name}`{'*' if name in needed else ''}" for name in shape.get("properties", ())]
            refusals = [status for status in operation["responses"] if status in ("404", "409", "410")]
            cells = (f"`{method.upper()} {path}`", operation["summary"], ", ".join(given), ", ".join(fields))
            row = f"| {' | '.join(cells)} | {', '.join(refusals)} |"
            groups.setdefault(operation["tags"][-1], []).append(row)
    head = ["| route | what it does | parameters | body | refuses also with |", "|---|---|---|---|---|"]
    return "\n".join(line for tag, lines in groups.items() for line in (f"## {tag}", "", *head, *lines, ""))


PARTS = {"settings": settings_part, "commands": commands_part, "lake": lake_part, "api": api_part}


def renewed(text: str) -> str:
    """The page with its generated parts as they should be."""
    return GENERATED.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n{found[3]}", text)


@pytest.mark.parametrize("name", PARTS)
def test_generated_parts_are_up_to_date(name: str) -> None:
    assert f"<!-- generated: {name} -->" in page(name)
    assert renewed(page(name)) == page(name), "run scripts/docs"


def test_help_is_what_a_terminal_shows() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "manydesks", "send", "--help"],
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"## manydesks send\n\n```text\n{done.stdout}```\n" in page("commands")


def test_exit_codes() -> None:
    known = {str(value) for name, value in vars(exits).items() if name.isupper()}
    said = [code for row in rows(part(page("commands"), "## Exit codes")) for code in spans(row[0])]
    assert sorted(said) == sorted(known)


def test_variables_that_are_no_settings() -> None:
    # what the tests keep for themselves is of no use to a reader
    known = {HOME, DEBUG, *SHORT, *(f"{start}<NAME>" for start in NO_SETTINGS if "TEST" not in start)}
    said = {code for row in rows(part(page("settings"), "## Other variables")) for code in spans(row[0])}
    assert said == known


# the store


@pytest.fixture(scope="session")
def columns_of_store(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Table or view → its columns, in a freshly made store."""
    path = tmp_path_factory.mktemp("store") / "office.db"
    Store(path).close()
    db = open_reader(path)
    try:
        names = db.execute(
            "select name from sqlite_schema where type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\'"
        ).fetchall()
        sql = "select name from pragma_table_xinfo(?)"
        return {str(name): [str(column) for (column,) in db.execute(sql, (name,)).fetchall()] for (name,) in names}
    finally:
        db.close()


def documented_columns(text: str, heading: str, known: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    for cell in (row[0] for row in rows(part(text, f"### {heading}"))):
        if other := re.fullmatch(r"every column of `(\w+)`", cell):
            found += known[other[1]]
        else:
            found += spans(cell)
    return found


def test_every_table_of_the_store(columns_of_store: dict[str, list[str]]) -> None:
    assert sorted(headings(part(page("store"), "## Tables and views"), "###")) == sorted(columns_of_store)


def test_every_column_of_the_store(columns_of_store: dict[str, list[str]], subtests: pytest.Subtests) -> None:
    for table, columns in columns_of_store.items():
        with subtests.test(table):
            assert sorted(documented_columns(page("store"), table, columns_of_store)) == sorted(columns)


@pytest.mark.parametrize(
    ("heading", "moves"),
    [
        ("### message", states.MESSAGE_MOVES),
        ("### response", states.RESPONSE_MOVES),
        ("### join", states.JOIN_MOVES),
    ],
)
def test_state_machines(heading: str, moves: dict[states.MessageState, frozenset[states.MessageState]]) -> None:
    said = {
        (int(number), spans(state)[0]): set(spans(after))
        for number, state, after, _ in rows(part(part(page("store"), "## State machines"), heading))
    }
    assert said == {(int(state), states.word(state)): {states.word(after) for after in moves[state]} for state in moves}


# the mailbox


def columns_of_file(statements: tuple[str, ...], path: Path) -> dict[str, list[str]]:
    with connected(path, "rwc") as db:
        for statement in statements:
            db.execute(statement)
        tables = [name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")]
        return {
            table: [row[1] for row in db.execute(f"pragma table_info({table})")]
            for table in tables
            if not table.startswith("sqlite_")
        }


def test_every_table_and_column_of_the_mailbox(tmp_path: Path, subtests: pytest.Subtests) -> None:
    text = part(page("mailbox"), "## Tables")
    files = {"inbound.db": schema.INBOUND, "outbound.db": schema.OUTBOUND[schema.OUTBOUND_SCHEMA]}
    known = {
        f"{file}: {table}": columns
        for file, statements in files.items()
        for table, columns in columns_of_file(statements, tmp_path / file).items()
    }
    assert sorted(headings(text, "###")) == sorted(known)
    for name, columns in known.items():
        with subtests.test(name):
            assert sorted(documented_columns(text, name, {})) == sorted(columns)


def test_words_of_the_mailbox() -> None:
    text = page("mailbox")
    assert {spans(row[0])[0] for row in rows(part(text, "## Content, to the desk"))} == set(MESSAGE_KINDS)
    assert {spans(row[0])[0] for row in rows(part(text, "## Steps"))} == set(STEP_TYPES)
    words = {
        cells[0]: set(spans(cells[1])) for table in ("acks",) for cells in rows(part(text, f"### outbound.db: {table}"))
    }
    assert words["`status`"] == set(ACK_STATUSES)
    assert words["`class`"] >= set(FAILURES)


# events


def test_every_kind_of_event(subtests: pytest.Subtests) -> None:
    said = {spans(kind)[0]: (set(spans(fields)), spans(where)) for kind, _, fields, where in rows(page("events"))}
    assert sorted(said) == sorted(KINDS)
    for kind, (fields, where) in said.items():
        with subtests.test(kind):
            assert fields == KINDS[kind].fields
            named = {
                file.relative_to(SOURCE).as_posix()
                for room in ("store", "office")
                for file in (SOURCE / room).rglob("*.py")
                if f'"{kind}"' in file.read_text(encoding="utf-8")
            }
            assert set(where) == named


# rehearsal


def test_every_directive_has_its_example(subtests: pytest.Subtests) -> None:
    text = page("rehearsal")
    said = {spans(heading)[0].split(" ")[0].removeprefix("!") for heading in headings(text, "##") if "`!" in heading}
    assert said == set(rehearsal._USAGE)
    for heading in headings(text, "##"):
        if "`!" in heading:
            with subtests.test(heading):
                word = spans(heading)[0].split(" ")[0]
                assert re.search(rf"^\$ .*{word}\b", part(text, f"## {heading}"), re.MULTILINE)


# routing

PEOPLE = Directory(
    agents={"assistant": "Assistant", "coder": "Coder", "critic": "Critic", "lead": "Lead", "writer": "The writer"},
    teams={"web": Team(id="web", leader="lead", members=("coder", "critic"))},
)


def outcome(routing: Routing) -> list[str]:
    """A routing as the page writes it."""
    said = []
    for target in routing.targets:
        after = " and ".join(routing.targets[at].agent for at in target.after)
        said.append(f"{target.agent}{f' after {after}' if after else ''} ({target.by})")
        said.append(target.text.replace("\n", "⏎"))
    if routing.default is Default.CLEAR:
        said.append("no default")
    elif isinstance(routing.default, str):
        said.append(f"default {routing.default}")
    return said


ROUTES = [(cells[0], cells[1], cells[2]) for cells in rows(part(page("routing"), "## Examples"))]


@pytest.mark.parametrize(("written", "reached", "told"), ROUTES)
def test_routes(written: str, reached: str, told: str) -> None:
    routing = route_person(spans(written)[0], PEOPLE, default="assistant")
    assert outcome(routing) == spans(reached)
    assert list(routing.notices) == spans(told)


async def test_the_office_carries_out_every_example(tmp_path: Path) -> None:
    store = Store(tmp_path / "office.db")
    try:
        for id, name in PEOPLE.agents.items():
            await store.add_agent(id=id, name=name, provider="rehearsal")
        for team in PEOPLE.teams.values():
            await store.add_team(id=team.id, name=team.id, leader=team.leader, members=team.members)
        for number, (written, reached, told) in enumerate(ROUTES):
            # a place of its own for each: some of them set the default
            incoming = Incoming(
                source="console", key=f"example_{number}", text=spans(written)[0], channel="console",
                platform_id=f"place {number}",
            )  # fmt: skip
            if not reached:
                with pytest.raises(BadInput, match=re.escape(spans(told)[0])):
                    await store.accept(incoming, default_agent="assistant", message_bytes=1_000)
                continue
            accepted = await store.accept(incoming, default_agent="assistant", message_bytes=1_000)
            said = [code for code in spans(reached)[::2] if "(" in code]
            assert [message["agent"] for message in accepted.messages] == [code.split(" ")[0] for code in said]
            waits = ["held" if " after " in code else "pending" for code in said]
            assert [message["status"] for message in accepted.messages] == waits
    finally:
        store.close()


def test_cells_and_spans() -> None:
    assert rows("| a | b |\n|---|---|\n| `c` | |\n| | e |") == [["`c`", ""], ["", "e"]]
    assert spans("`a`, `` `b` c `` and ``d``") == ["a", "`b` c", "d"]


if __name__ == "__main__":
    for name in PARTS:
        (REFERENCE / f"{name}.md").write_text(renewed(page(name)), encoding="utf-8")
