"""The token of the office's API: one line in `api.token`, readable by its owner only. Whoever has it is the owner."""

from __future__ import annotations

import os
import re
import secrets
import stat

from manydesks.domain.errors import HomeError, SettingsError
from manydesks.settings.file import home_lock, replace_file
from manydesks.settings.home import Home, reason_of

#: 256 bits: nobody guesses it, however fast
BYTES = 32
#: as it may be written into a header, and long enough for one that a person has set by hand
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{32,512}")


def token_of(home: Home) -> str:
    """The token; made when there is none yet. Raises as `read_token`, or `HomeError` if it cannot be written."""
    found = read_token(home)
    if found is not None:
        return found
    with home_lock(home):
        # somebody else may have made it meanwhile
        return read_token(home) or _write(home)


def rotate_token(home: Home) -> str:
    """A new token; the old one counts no more from the next request on."""
    with home_lock(home):
        return _write(home)


def read_token(home: Home) -> str | None:
    """The token as it is now; None: there is none. Raises `SettingsError`, which never holds it, if others may read
    the file or it is no token, and `HomeError` if it cannot be read."""
    path = home.token_file
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HomeError(home=home.path, reason=f"{path} cannot be read, {reason_of(error)}.") from error
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & 0o077:
            raise SettingsError(reason=f"{path} is open to other users (mode {mode:04o}), run `chmod 600 {path}`.")
        text = os.read(handle, 4096)
    except OSError as error:
        raise HomeError(home=home.path, reason=f"{path} cannot be read, {reason_of(error)}.") from error
    finally:
        os.close(handle)
    token = text.decode("ascii", "replace").strip()
    if TOKEN.fullmatch(token) is None:
        raise SettingsError(reason=f"{path} holds no token; `manydesks token rotate` makes a new one.")
    return token


def _write(home: Home) -> str:
    token = secrets.token_urlsafe(BYTES)
    replace_file(home, home.token_file, f"{token}\n".encode(), mode=0o600)
    return token
