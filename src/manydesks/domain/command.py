"""Slash commands: recognised here, by their exact word, and nowhere else.

Whether a sender may give them is the office's to say, and whether a provider carries one out is the provider's.
"""

from __future__ import annotations

import re

#: `/compact`, `/compact keep the plan`; not `/etc/hosts`, not `/Compact`, not `look at /compact`
_COMMAND = re.compile(r"/([a-z][a-z0-9_-]{0,63})(?=\s|$)")


def command_word(text: str) -> str | None:
    """The word of a text that is a slash command, without the slash; None: it is a text like any other."""
    found = _COMMAND.match(text.strip())
    return found.group(1) if found else None
