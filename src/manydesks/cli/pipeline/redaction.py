"""What is hidden in texts that leave the office as a file."""

from __future__ import annotations

from collections.abc import Callable

from manydesks.cli.invocation import Invocation


def redaction(invocation: Invocation) -> Callable[[str], str]:
    """Hides the office's secrets, and what looks like a key.

    Raises `SettingsError` if the secrets cannot be read: then nobody knows what must not go out.
    """
    from manydesks.runner.masking import masked
    from manydesks.settings.secrets import Secrets, load_secrets, mask

    secrets = load_secrets(invocation.home, invocation.environ)
    # the terms of gold are in lower case; no secret's own name has a capital letter
    both = Secrets({**secrets, **{name.upper(): value.lower() for name, value in secrets.items()}})
    return lambda text: masked(mask(text, both))
