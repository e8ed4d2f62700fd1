"""Comments of Spark's SQL, as its own lexer reads them."""

from __future__ import annotations

import re

#: a backslash takes the end of the line into the comment
_BLANK = re.compile(r"(?:\s+|--(?:\\\n|[^\r\n])*)*")
#: a hint (`/*+ … */`) is no comment, and begins none inside one
_EDGE = re.compile(r"/\*(?!\+)|\*/")


def past_comments(text: str) -> str:
    """The text from its first word on; a comment in `/* … */` may hold others. Of one that has no end, nothing."""
    at = 0
    while True:
        found = _BLANK.match(text, at)
        at = found.end() if found is not None else at
        if not text.startswith("/*", at) or text.startswith("/*+", at):
            return text[at:]
        at = _end(text, at)


def _end(text: str, at: int) -> int:
    """Where the comment that begins here is over."""
    depth = 0
    for edge in _EDGE.finditer(text, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)
