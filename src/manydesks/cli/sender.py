"""Who sits at this terminal."""

from __future__ import annotations


def login_name() -> str:
    """The person's login name; containers may not have one."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "console"
