"""Settings that were changed while the office is open: taken whole, or refused whole.

The file is looked at once a second, and at once when the host is told to (SIGHUP). One that is being written is left
until it is the same at two looks. A file that is not valid changes nothing: the old settings stay in force, and the
office says so until the file is mended.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import HomeError, SettingsError, StoreError
from manydesks.office.inforce import InForce
from manydesks.office.upstreams import known_secrets
from manydesks.office.valid import check_listening, valid_settings
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.settings.secrets import mask, mask_texts
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: what an open office cannot change
NEXT_START = frozenset(
    {"office.durability", "api.enabled", "api.host", "api.port", "api.tls_certificate", "api.tls_key"}
)

#: how a file is known to be another one; None: there is none
Shape = tuple[int, int, int] | None


class Reload:
    """One for each host."""

    def __init__(self, home: Home, in_force: InForce, environ: Mapping[str, str] = os.environ) -> None:
        self._home = home
        self._in_force = in_force
        self._environ = environ
        #: as the office was opened with
        self._first = in_force.settings
        #: the file that was taken or refused last, and what was seen at the last look
        self._done = self._seen = self._shape()
        #: why the file as it is now was not taken; None: it was
        self.refused: str | None = None
        self._untold: list[tuple[str, dict[str, Any]]] = []

    def waiting(self) -> list[str]:
        """The settings that were changed and take effect at the next start."""
        return sorted(NEXT_START & changes(self._first, self._in_force.settings).keys())

    async def look(self, store: Store, *, at_once: bool = False) -> bool:
        """Take the file if it was changed. True: other settings are in force now."""
        await self._note(store)
        shape = self._shape()
        settled, self._seen = shape == self._seen, shape
        if not at_once and (shape == self._done or not settled):
            return False
        try:
            fresh = await asyncio.to_thread(valid_settings, self._home, self._environ)
            # here on the loop, where the API opens: nothing comes between this look and the change
            check_listening(fresh, self._in_force.listening)
        except (SettingsError, HomeError) as error:
            # what is not allowed somewhere may be a key that was put there
            await self._refuse(store, mask(str(error), known_secrets(self._home)))
            self._done = shape
            return False
        if self._shape() != shape:
            return False  # somebody writes just now: the next look finds it whole
        self._done, self.refused = shape, None
        before = self._in_force.settings
        if fresh == before:
            return False
        self._in_force.change(fresh)
        changed = changes(before, fresh)
        later = sorted(NEXT_START & changed.keys())
        log.info("Settings taken: %s", ", ".join(changed), extra={"action": "settings_changed"})
        for name in later:
            log.warning("%s takes effect at the next start", name, extra={"action": "settings_later"})
        old, new = (self._shown({name: values[side] for name, values in changed.items()}) for side in (0, 1))
        self._untold.append(("settings_changed", {"before": old, "after": new, "next_start": later}))
        await self._note(store)
        return True

    async def _refuse(self, store: Store, reason: str) -> None:
        if reason == self.refused:
            return
        self.refused = reason
        log.error("The changed settings are not taken: %s", reason, extra={"action": "settings_refused"})
        self._untold.append(("settings_refused", {"reason": reason}))
        await self._note(store)

    async def _note(self, store: Store) -> None:
        """Into the ledger; a store that refuses is asked again at the next look."""
        try:
            while self._untold:
                kind, data = self._untold[0]
                await store.note(kind, **data)
                del self._untold[0]
        except StoreError as error:
            log.error("%s", error, extra={"action": "store_failed"})

    def _shown(self, values: dict[str, Any]) -> dict[str, Any]:
        """No secret belongs into settings; one that is there all the same does not go into the ledger."""
        shown: dict[str, Any] = mask_texts(values, known_secrets(self._home))
        return shown

    def _shape(self) -> Shape:
        try:
            status = self._home.settings_file.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


def changes(before: Settings, after: Settings) -> dict[str, tuple[Any, Any]]:
    """Every key whose value is another one, with both; None: it is not there."""
    old, new = _flat(before.model_dump(mode="json")), _flat(after.model_dump(mode="json"))
    return {name: (old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name)}


def _flat(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value
    return flat
