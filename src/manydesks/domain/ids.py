"""Public ids: a prefix that names the source, an underscore, eight lowercase letters or digits."""

from __future__ import annotations

import random
import re
import secrets
import string

ALPHABET = string.ascii_lowercase + string.digits
LENGTH = 8
_IDS = len(ALPHABET) ** LENGTH

#: ids of agents and teams: they become folder names, so nothing else is ever allowed into a path
NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?")
#: ids given by clients (REST `messageId`) and made here
PUBLIC = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,126}[A-Za-z0-9])?")

#: words with a meaning of their own in addresses and folders
RESERVED_NAMES = frozenset({"default", "everyone", "host", "system", "user"})


def new_id(prefix: str, rng: random.Random | None = None) -> str:
    """A fresh public id; whoever stores it makes another on a clash."""
    # one number for all of it: ids are made for every message, and a call to the kernel for each character adds up
    number = rng.randrange(_IDS) if rng is not None else secrets.randbelow(_IDS)
    letters = []
    for _ in range(LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return f"{prefix}_" + "".join(letters)


def is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None and text not in RESERVED_NAMES


def is_public_id(text: str) -> bool:
    return PUBLIC.fullmatch(text) is not None
