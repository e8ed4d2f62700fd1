"""The schema of a kind of file: its migrations, and what is refused because they do not fit."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable

import apsw

from manydesks.domain.errors import StoreCorrupt, StoreError, StoreTooNew
from manydesks.store.patience import patiently

LEDGER_OF_MIGRATIONS = """
create table if not exists schema_migrations (
  name       text primary key,
  applied_at integer not null
) strict
"""


class Schema:
    """Migrations: one small named function per file, keyed by name, applied in order, never edited once applied."""

    def __init__(self, package: str, path: Iterable[str], *, of: str, made_by: str) -> None:
        self._package = package
        self._path = path
        #: whose tables they are, in words
        self._of = of
        #: what to do with a file that has not got them yet
        self._made_by = made_by

    def known(self) -> list[tuple[str, Callable[[apsw.Connection], None]]]:
        """Every migration of this version: files `m<number>_<what>.py` with a function `apply`."""
        names = sorted(module.name for module in pkgutil.iter_modules(self._path) if module.name.startswith("m"))
        return [(name, importlib.import_module(f"{self._package}.{name}").apply) for name in names]

    def refuse_foreign(self, db: apsw.Connection, path: str) -> None:
        """Somebody else's database is left alone."""
        names = {str(name) for (name,) in db.execute("select name from sqlite_schema where type = 'table'")}
        done = applied(db)
        if (names and "schema_migrations" not in names) or (done and self.known()[0][0] not in done):
            raise StoreCorrupt(path=path, reason=f"it has tables, but not those of {self._of}")

    def refuse_newer(self, db: apsw.Connection, path: str) -> None:
        """A file that knows a migration which this version does not is left alone."""
        unknown = sorted(applied(db) - {name for name, _ in self.known()})
        if unknown:
            raise StoreTooNew(path=path, migration=unknown[0])

    def refuse_older(self, db: apsw.Connection, path: str) -> None:
        """For readers, who cannot migrate: a file that was not brought up to this version yet."""
        done = applied(db)
        missing = [name for name, _ in self.known() if name not in done]
        if missing:
            raise StoreError(f"The store {path} is not ready (it lacks '{missing[0]}'); {self._made_by} makes it so.")

    def migrate(self, db: apsw.Connection, path: str, now: int) -> list[str]:
        """Bring the file up to this version, each migration in a transaction of its own; the names that were applied.

        Several processes may do so at once: each migration is applied by the one that comes first.
        """
        self.refuse_newer(db, path)
        done = applied(db)
        return [name for name, apply in self.known() if name not in done and _apply(db, name, apply, now)]


def applied(db: apsw.Connection) -> set[str]:
    """The names of the migrations that the file has seen."""
    exists = db.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchall()
    return {str(name) for (name,) in db.execute("select name from schema_migrations")} if exists else set()


def _apply(db: apsw.Connection, name: str, apply: Callable[[apsw.Connection], None], now: int) -> bool:
    patiently(lambda: db.execute("begin immediate"))
    try:
        db.execute(LEDGER_OF_MIGRATIONS)
        fresh = name not in applied(db)
        if fresh:
            apply(db)
            db.execute("insert into schema_migrations (name, applied_at) values (?, ?)", (name, now))
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise
    return fresh
