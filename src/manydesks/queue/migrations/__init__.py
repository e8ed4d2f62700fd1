"""Migrations of a jobs file."""

from __future__ import annotations

from manydesks.store.schema import Schema

JOBS_FILE = Schema(__name__, __path__, of="a jobs file", made_by="opening a queue in it")
