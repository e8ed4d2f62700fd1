"""Strangers' words, before they are stored: what a platform or a plugin said is text, one line, and not endless.

Half a surrogate pair is a `str` that no database takes, NUL ends a text for some of its readers, and a reason of a
megabyte would be in every list that shows it.
"""

from __future__ import annotations

import re

#: of a sentence, in characters
SENTENCE = 500
#: of a name that people read, in characters
NAME = 200
#: of an id that somebody else has given, in characters
ID = 1_000

#: halves of surrogate pairs and control characters; blanks of any kind are no harm
_UNSAFE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")


def is_clean(text: str, most: int = ID) -> bool:
    """Whether it can be kept as it is."""
    return len(text) <= most and _UNSAFE.search(text) is None


def clean(text: str, most: int) -> str:
    """With `\N{REPLACEMENT CHARACTER}` for what cannot be stored, and cut; the same again if it is clean already."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", _cut(text, most))


def sentence(text: str, most: int = SENTENCE) -> str:
    """One line, clean. What is much longer is not even looked at."""
    return _cut(" ".join(clean(text, 4 * most).split()), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
