"""Migrations: one small named function per file, keyed by name, applied in order, never edited once applied."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import apsw

from manydesks.domain.errors import StoreCorrupt, StoreError, StoreTooNew

LEDGER_OF_MIGRATIONS = """
create table if not exists schema_migrations (
  name       text primary key,
  applied_at integer not null
) strict
"""


def known() -> list[tuple[str, Callable[[apsw.Connection], None]]]:
    """Every migration of this version: files `m<number>_<what>.py` with a function `apply`."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("m"))
    return [(name, importlib.import_module(f"{__name__}.{name}").apply) for name in names]


def applied(db: apsw.Connection) -> set[str]:
    exists = db.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchall()
    return {str(name) for (name,) in db.execute("select name from schema_migrations")} if exists else set()


def refuse_foreign(db: apsw.Connection, path: str) -> None:
    """Somebody else's database is left alone."""
    names = {str(name) for (name,) in db.execute("select name from sqlite_schema where type = 'table'")}
    if names and "schema_migrations" not in names:
        raise StoreCorrupt(path=path, reason="it has tables, but not those of an office")


def refuse_newer(db: apsw.Connection, path: str) -> None:
    """A store that knows a migration which this version does not is left alone."""
    unknown = sorted(applied(db) - {name for name, _ in known()})
    if unknown:
        raise StoreTooNew(path=path, migration=unknown[0])


def refuse_older(db: apsw.Connection, path: str) -> None:
    """For readers, who cannot migrate: a store that was not brought up to this version yet."""
    done = applied(db)
    missing = [name for name, _ in known() if name not in done]
    if missing:
        raise StoreError(f"The store {path} is not ready (it lacks '{missing[0]}'); `manydesks up` makes it so.")


def migrate(db: apsw.Connection, path: str, now: int) -> list[str]:
    """Bring the store up to this version, each migration in a transaction of its own; the names that were applied."""
    refuse_newer(db, path)
    done = applied(db)
    fresh = [(name, apply) for name, apply in known() if name not in done]
    for name, apply in fresh:
        db.execute("begin immediate")
        try:
            db.execute(LEDGER_OF_MIGRATIONS)
            apply(db)
            db.execute("insert into schema_migrations (name, applied_at) values (?, ?)", (name, now))
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise
    return [name for name, _ in fresh]
