"""What logins depend on, in one look: whoever follows the events was let in long ago, and may have to go."""

from __future__ import annotations

from manydesks.office.inforce import InForce
from manydesks.settings.home import Home


class Door:
    """Another value than before: a login that counted may count no more."""

    def __init__(self, home: Home, in_force: InForce) -> None:
        self._home = home
        self._in_force = in_force

    def __call__(self) -> object:
        try:
            found = self._home.token_file.stat()
        except OSError:
            token = None
        else:
            token = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
        return self._in_force.settings.api.auth, token
