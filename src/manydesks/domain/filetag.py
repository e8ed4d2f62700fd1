r"""`[send_file: path]` in what an agent says: a file of its workspace goes along.

A path has no brackets and stays on its line. Tags in code are text; `\[send_file:` stands for `[send_file:`. Every
function here takes time linear in its input, and never raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from manydesks.domain.address import code_spans

_TAG = re.compile(r"(?P<escape>\\*+)\[send_file:(?P<path>[^\[\]\n]*+)\]", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileTag:
    """One place where a file is asked for."""

    #: where the tag stands in the text
    start: int
    end: int
    #: as written, without outer blanks; may be empty. None: an escaped tag, of which only the backslash goes
    path: str | None


def file_tags(text: str) -> tuple[FileTag, ...]:
    """The tags of a text, in order."""
    if "[send_file:" not in text.lower():
        return ()
    code, number = code_spans(text), 0
    found: list[FileTag] = []
    for match in _TAG.finditer(text):
        start = match.end("escape")
        while number < len(code) and code[number][1] <= start:
            number += 1
        if number < len(code) and code[number][0] <= start:
            continue
        if len(match["escape"]) % 2:
            found.append(FileTag(start=start - 1, end=start, path=None))
        else:
            found.append(FileTag(start=start, end=match.end(), path=match["path"].strip()))
    return tuple(found)
