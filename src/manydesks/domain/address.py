r"""The address grammar, read the same way for people and agents: syntax only, names are `routing`'s business.

    [@id: text]   [@a,b: text]       a tag: its text goes to those agents
    [#team: text]                    a post in a team's room
    [@a: x] -> [@b: y]               a chain: b after a
    [@a: x] [@b: y] => [@c: z]       a join: c after all of them
    @id text   @id: text   @a,b text   @id        a leading address; people only (`leading`)

What decides between a tag and text:

* A tag ends at *its* closing bracket, so brackets inside it are fine; a tag inside a tag is text of the outer one.
  Without a closing bracket, or without a colon (`[@id]`), it is text.
* `\[@` and `\[#` stand for `[@` and `[#`. Any bracket after a backslash is left out of the count (`[^\]]` is one pair),
  and `\\` is a backslash that escapes nothing.
* Code is text, and its brackets do not count. A fence starts a line (blanks, `>`, a list mark or the opening of a tag
  may come first) with three or more backticks or tildes and at most an info string without brackets; it ends at a line
  that starts with as many, alone or before a bracket, else with the message. Any other run of backticks is a code span
  up to the next run of the same length; one or two backticks do not reach over a blank line, and a run without a
  partner is just backticks.
* `->` and `=>` are connectors only where nothing but blanks stands between them and a tag on either side.
* Blanks around ids and commas do not count; an id may repeat the sign (`[@a, @b: text]`). A tag may be empty.

Every function here takes time linear in its input, whatever the input is, and never raises.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

_ID = r"[\w.-]{1,64}+"
_OPENING = rf"\[(?P<sign>[@\#])[ \t]*+(?P<ids>{_ID}(?:[ \t]*+,[ \t]*+(?P=sign)?{_ID})*+)[ \t]*+:"

_OPENING_OF_TAG = re.compile(_OPENING)
_BRACKET = re.compile(r"\\[\\\[\]]|[\[\]]")
_CODE_MARK = re.compile(
    rf"""
      (?P<blank_line> \n[ \t\r]*+(?=\n) )
    | (?: ^[ \t>]*+(?:(?:[-*+]|\d{{1,9}}+[.)])[ \t]++)?+ | {_OPENING}[ \t]*+ )
      (?P<fence> (?:`{{3,}}+(?=(?P<info>[^`\[\n]*+)(?:\n|\Z))) | ~{{3,}}+ )
    | (?P<run> `++ )
    """,
    re.MULTILINE | re.VERBOSE,
)
_END_OF_FENCE = re.compile(r"^[ \t>]*+(?P<fence>`{3,}+|~{3,}+)(?=[ \t\r]*+(?:$|[\[\]]))", re.MULTILINE)

# No blank before a comma, and none after it unless a sign follows: `@coder, please look` is for coder alone.
# A colon apart from the id counts only with a blank after it: `@coder :)` keeps its smile.
_LEADING = re.compile(
    r"\s*+@(?P<ids>[\w-]{1,64}+(?:,[ \t]*+@[\w-]{1,64}+|,[\w-]{1,64}+)*+)"
    r"(?::|[ \t]++:(?=\s|\Z)|,?+(?=\s|\Z))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """What is no address."""

    #: as written
    raw: str
    #: as meant: `\[@` has become `[@`
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """`[@a,b: text]` or `[#team: text]`."""

    #: as written
    raw: str
    #: `@` for agents, `#` for rooms
    sign: Literal["@", "#"]
    #: in lower case, in order, each once; nobody has looked yet whether they exist
    ids: tuple[str, ...]
    #: without outer blanks; may be empty
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Connector:
    """`->` or `=>` between two `@` tags."""

    #: as written, with the blanks around it
    raw: str
    #: True for `=>`
    join: bool


Piece = Text | Tag | Connector


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A message in pieces; the `raw` of all pieces, joined, is the message."""

    #: in the order of the message
    pieces: tuple[Piece, ...]
    #: ids of `@` tags that were begun but have no closing bracket, each once
    unclosed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Leading:
    """A message that begins with `@id`."""

    #: in lower case, in order, each once; nobody has looked yet whether they exist
    ids: tuple[str, ...]
    #: what follows the address, without outer blanks; may be empty
    text: str


def parse(text: str) -> Parsed:
    """The tags, posts and connectors of a message, and the text between them."""
    if "[@" not in text and "[#" not in text:
        return Parsed(pieces=(Text(raw=text, text=text),) if text else ())
    openings, closing, escapes = _brackets(text)
    pieces: list[Piece] = []
    unclosed: dict[str, None] = {}
    done = 0
    for opening in openings:
        start = opening.start()
        if start < done:
            continue
        end = closing.get(start)
        if end is None:
            if opening["sign"] == "@":
                unclosed.update(dict.fromkeys(_ids(opening["ids"])))
            continue
        if done < start:
            pieces.append(Text(raw=text[done:start], text=_without(text, done, start, escapes)))
        done = end + 1
        pieces.append(
            Tag(
                raw=text[start:done],
                sign="@" if opening["sign"] == "@" else "#",
                ids=_ids(opening["ids"]),
                text=_without(text, opening.end(), end, escapes).strip(),
            )
        )
    if done < len(text):
        pieces.append(Text(raw=text[done:], text=_without(text, done, len(text), escapes)))
    return Parsed(pieces=_connected(pieces), unclosed=tuple(unclosed))


def leading(text: str) -> Leading | None:
    """The address at the start of a person's message, if there is one; `me@x.org` and `@x.org` are none."""
    match = _LEADING.match(text)
    return Leading(ids=_ids(match["ids"]), text=text[match.end() :].strip()) if match else None


def code_spans(text: str) -> list[tuple[int, int]]:
    """Where code is text: from, to; sorted, apart from each other. Fences as well as spans within a line."""
    return _code(text)


def _ids(written: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.strip(" \t@#").lower() for one in written.split(",")))


def _connected(pieces: list[Piece]) -> tuple[Piece, ...]:
    for at in range(1, len(pieces) - 1):
        before, here, after = pieces[at - 1 : at + 2]
        if (
            isinstance(here, Text)
            and (sign := here.raw.strip()) in ("->", "=>")
            and isinstance(before, Tag)
            and isinstance(after, Tag)
            and before.sign == after.sign == "@"
        ):
            pieces[at] = Connector(raw=here.raw, join=sign == "=>")
    return tuple(pieces)


def _without(text: str, start: int, end: int, escapes: list[int]) -> str:
    """`text[start:end]` without the backslashes at `escapes` (sorted)."""
    parts = []
    for at in escapes[bisect_left(escapes, start) : bisect_left(escapes, end)]:
        parts.append(text[start:at])
        start = at + 1
    parts.append(text[start:end])
    return "".join(parts)


def _brackets(text: str) -> tuple[list[re.Match[str]], dict[int, int], list[int]]:
    """The openings of tags, the closing bracket of each that has one, and the backslashes of `\\[@` and `\\[#`.

    One pass with a stack: a scan per opening would take quadratic time on a flood of `[@a: `.
    """
    code = _code(text)
    openings: list[re.Match[str]] = []
    closing: dict[int, int] = {}
    escapes: list[int] = []
    stack: list[int | None] = []  # the place of a tag's opening, None for any other bracket
    in_code = 0
    for mark in _BRACKET.finditer(text):
        at = mark.start()
        while in_code < len(code) and code[in_code][1] <= at:
            in_code += 1
        if in_code < len(code) and code[in_code][0] <= at:
            continue
        what = mark[0]
        if what == "[":
            opening = _OPENING_OF_TAG.match(text, at)
            if opening:
                openings.append(opening)
            stack.append(at if opening else None)
        elif what == "]":
            if stack and (start := stack.pop()) is not None:
                closing[start] = at
        elif what == "\\[" and text.startswith(("@", "#"), at + 2):
            escapes.append(at)
    return openings, closing, escapes


def _code(text: str) -> list[tuple[int, int]]:
    """Where the code is: from, to; sorted, apart from each other."""
    marks: list[tuple[int, int, bool]] = []  # from, to, whether a fence may start here
    sections: list[int] = []  # per mark; a span of one or two backticks stays within its section
    may_end: list[bool] = []  # per mark; a fence with an info string ends no span
    section = 0
    for match in _CODE_MARK.finditer(text):
        if match["blank_line"] is not None:
            section += 1
            continue
        is_fence = match["fence"] is not None
        section += is_fence
        marks.append((*match.span("fence" if is_fence else "run"), is_fence))
        sections.append(section)
        may_end.append(not is_fence or (match["info"] is not None and not match["info"].strip()))

    partner: list[int | None] = [None] * len(marks)  # the next run of the same length
    latest: dict[int, int] = {}
    for index in range(len(marks) - 1, -1, -1):
        start, end, _ = marks[index]
        partner[index] = latest.get(end - start)
        if may_end[index]:
            latest[end - start] = index

    code: list[tuple[int, int]] = []
    done = 0
    for index, (start, end, is_fence) in enumerate(marks):
        if start < done:
            continue
        if is_fence:
            done = _end_of_fence(text, start, end)
        else:
            other = partner[index]
            if other is None or (end - start < 3 and sections[index] != sections[other]):
                continue
            done = marks[other][1]
        code.append((start, done))
    return code


def _end_of_fence(text: str, start: int, end: int) -> int:
    place = end
    while match := _END_OF_FENCE.search(text, place):
        place = match.end()
        if text[start] == match["fence"][0] and len(match["fence"]) >= end - start:
            return place
    return len(text)
