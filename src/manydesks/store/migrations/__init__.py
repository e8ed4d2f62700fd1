"""Migrations of an office's store."""

from __future__ import annotations

from manydesks.store.schema import Schema

OFFICE = Schema(__name__, __path__, of="an office", made_by="`manydesks up`")
