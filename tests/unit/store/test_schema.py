"""Schemas: each kind of file has its own migrations, applied once by whoever comes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from manydesks.domain.errors import StoreCorrupt, StoreError, StoreTooNew
from manydesks.queue.migrations import JOBS_FILE
from manydesks.store.database import open_writer
from manydesks.store.migrations import OFFICE
from manydesks.store.schema import Schema, applied

KINDS = {"office": OFFICE, "jobs": JOBS_FILE}


@pytest.fixture
def db(path: Path) -> Iterator[apsw.Connection]:
    made = apsw.Connection(str(path))
    yield made
    made.close()


@pytest.fixture(params=sorted(KINDS))
def schema(request: pytest.FixtureRequest) -> Schema:
    return KINDS[request.param]


def tables(db: apsw.Connection) -> list[tuple[object, ...]]:
    return db.execute("select type, name, sql from sqlite_schema order by name").fetchall()


def test_every_migration_once_and_in_order(db: apsw.Connection, schema: Schema) -> None:
    names = [name for name, _ in schema.known()]
    assert schema.migrate(db, "f", 7) == names
    assert schema.migrate(db, "f", 8) == []
    assert db.execute("select name, applied_at from schema_migrations").fetchall() == [(name, 7) for name in names]
    assert [int(name[1:5]) for name in names] == list(range(1, len(names) + 1))


def test_a_new_or_own_file_is_not_refused(db: apsw.Connection, schema: Schema) -> None:
    schema.refuse_foreign(db, "f")
    schema.migrate(db, "f", 1)
    for refuse in (schema.refuse_foreign, schema.refuse_newer, schema.refuse_older):
        refuse(db, "f")


def test_the_others_kind_of_file_is_foreign(db: apsw.Connection, schema: Schema) -> None:
    schema.migrate(db, "f", 1)
    (other,) = [kind for kind in KINDS.values() if kind is not schema]
    before = tables(db)
    with pytest.raises(StoreCorrupt, match="not those of"):
        other.refuse_foreign(db, "f")
    with pytest.raises(StoreTooNew):
        other.migrate(db, "f", 1)
    assert tables(db) == before


def test_somebody_elses_database_is_foreign(db: apsw.Connection, schema: Schema) -> None:
    db.execute("create table recipes (cake text)")
    with pytest.raises(StoreCorrupt, match="it has tables"):
        schema.refuse_foreign(db, "f")


def test_a_newer_file_is_refused_before_anything_is_written(db: apsw.Connection, schema: Schema) -> None:
    schema.migrate(db, "f", 1)
    db.execute("insert into schema_migrations values ('m9999_later', 1)")
    before = tables(db)
    with pytest.raises(StoreTooNew, match="m9999_later"):
        schema.migrate(db, "f", 1)
    with pytest.raises(StoreTooNew, match="m9999_later"):
        schema.refuse_newer(db, "f")
    assert tables(db) == before


def test_a_reader_is_told_what_is_missing(db: apsw.Connection, schema: Schema) -> None:
    with pytest.raises(StoreError, match=schema.known()[0][0]):
        schema.refuse_older(db, "f")


def test_a_migration_that_fails_leaves_nothing(
    db: apsw.Connection, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(db: apsw.Connection) -> None:
        db.execute("create table half (x)")
        raise ZeroDivisionError

    known = schema.known()
    monkeypatch.setattr(schema, "known", lambda: [*known, ("m9000_broken", broken)])
    with pytest.raises(ZeroDivisionError):
        schema.migrate(db, "f", 1)
    assert not db.in_transaction
    assert applied(db) == {name for name, _ in known}
    assert "half" not in {name for _, name, _ in tables(db)}


def test_several_may_migrate_at_once(path: Path, schema: Schema) -> None:
    done: list[list[str]] = []
    errors: list[BaseException] = []
    ready = threading.Barrier(4)

    def migrate() -> None:
        db = open_writer(path, "crash", schema)
        try:
            ready.wait(30)
            done.append(schema.migrate(db, str(path), 1))
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)
        finally:
            db.close()

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert sorted(name for names in done for name in names) == [name for name, _ in schema.known()]
