"""Long texts in pieces that a platform takes, without breaking their markup.

The pieces cover the text without gap or overlap (`start`, `end`). What is sent of a piece (`text`) is that stretch,
without the blanks around it, and where a break falls inside a fence, with the fence closed and opened again.

* A break falls after a paragraph, else a line, a sentence, a word, as long as the piece is at least half full; before
  and after a fence counts as a paragraph. Inside a fence it falls after a line.
* Links, spans of code and emphasised words stay whole, and so do characters that are made of several code points. What
  is longer than a piece is broken all the same: nothing is left out.
* `split(text, …, start=piece.end)` gives the pieces after that one, whatever was sent before: a sender that was cut off
  goes on from there.

Every function here takes time linear in its input, whatever the input is, and never raises.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from manydesks.domain.address import code_spans

#: what platforms count: code points, bytes of UTF-8, or units of UTF-16 (an emoji is two)
Unit = Literal["characters", "bytes", "utf16"]

#: no platform is that narrow; below it a fence could not be closed and opened again
LEAST = 16

#: what stands before a fence on its line is shorter than this
INDENT = 100

_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s*")
_LINE = re.compile(r"\n")
_SENTENCE = re.compile(r"[.!?…:;][\"')\]*_]*\s+|[。！？]\s*")
_WORD = re.compile(r"\s+")
_FENCE_MARK = re.compile(r"`{3,}|~{3,}")
_LIST_MARK = re.compile(r"[-*+]|\d{1,9}[.)]")
_BLANK = re.compile(r"\s*")
#: each part ends at the next of its own marks, so no text is read over and over
_KEPT = re.compile(
    r"!?\[[^\[\]\n]*\]\([^()\s]*\)|<[^<>\s]+>|\*\*[^*\n]+\*\*|\*[^*\n]+\*|(?<!\w)__[^_\n]+__(?!\w)"
    r"|(?<!\w)_[^_\n]+_(?!\w)|~~[^~\n]+~~"
)
_JOINER, _CARRIAGE, _ESCAPE = "\u200d", "\r", "\\"


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One stretch of the text, and what to send for it."""

    #: where the stretch begins and ends; the first begins at 0, each next one where the last ended
    start: int
    end: int
    #: never longer than the limit, and never blank unless the whole text is
    text: str


@dataclass(frozen=True, slots=True)
class _Fence:
    #: the line that opens it
    start: int
    #: where its content begins and ends
    inside: int
    until: int
    #: the marks that close it are over here
    marked: int
    #: with what is blank on their line
    end: int
    #: written to open it again, with the break of the line; `bare` is without the word for its language
    opening: str
    bare: str
    #: written to close it
    closing: str


def measure(text: str, unit: Unit = "characters") -> int:
    """How long a platform finds a text."""
    if unit == "characters" or text.isascii():
        return len(text)
    if unit == "bytes":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split(
    text: str, *, limit: int, unit: Unit = "characters", start: int = 0, markup: bool = True
) -> tuple[Piece, ...]:
    """The pieces of `text` from `start` on, each of at most `limit` units (at least 16).

    `start` is 0 or the end of a piece. `markup` False: plain text, in which nothing has to stay whole but words.
    """
    return tuple(_Splitter(text, max(limit, LEAST), unit, markup=markup).pieces(start))


class _Splitter:
    def __init__(self, text: str, limit: int, unit: Unit, *, markup: bool) -> None:
        self._text = text
        self._limit = limit
        self._unit = unit
        spans = code_spans(text) if markup else []
        found = (_fence(text, *span) for span in spans)
        self._fences = [fence for fence in found if fence is not None and self._reopens(fence)]
        self._fence_starts = [fence.start for fence in self._fences]
        self._kept = _kept(text, spans, self._fences) if markup else []
        self._kept_starts = [first for first, _ in self._kept]
        #: what it takes to close any of the fences
        self._reserve = max((self._measured(fence.closing) for fence in self._fences), default=0)

    def pieces(self, start: int) -> Iterator[Piece]:
        text, begin = self._text, start
        at = _blank(text, start) if start == 0 else start
        while at < len(text):
            opening = self._opening(at)
            end = self._break(at, self._limit - self._measured(opening))
            fence = self._cut(end)
            said = text[at:end]
            said = said.rstrip() if fence is None else said.removesuffix("\n") + fence.closing
            # what is blank after it would begin the next piece; in a fence it is the depth of a line
            over = end if fence is not None else _blank(text, end)
            yield Piece(start=begin, end=over, text=opening + said)
            begin = at = over
        if begin == start and begin < len(text):
            # nothing but blanks
            yield Piece(start=begin, end=len(text), text=text[begin : begin + 1])

    def _measured(self, text: str) -> int:
        return measure(text, self._unit)

    def _reopens(self, fence: _Fence) -> bool:
        """Whether enough room is left in a piece of it; else it is cut as any text."""
        most = self._limit // 2
        return self._measured(fence.bare + fence.closing) <= most and fence.inside - fence.start <= most // 2

    def _cut(self, place: int) -> _Fence | None:
        """The fence that a break here cuts."""
        number = bisect_left(self._fence_starts, place) - 1
        if number < 0:
            return None
        fence = self._fences[number]
        return fence if fence.inside < place < fence.until else None

    def _opening(self, at: int) -> str:
        """What has to stand before the text that begins here."""
        fence = self._cut(at)
        if fence is None:
            return ""
        fits = self._measured(fence.opening + fence.closing) <= self._limit // 2
        return fence.opening if fits else fence.bare

    def _reach(self, at: int, room: int) -> int:
        """The furthest end for this much room."""
        end = min(len(self._text), at + room)
        if self._unit != "characters":
            left = room - self._measured(self._text[at:end])
            while left < 0:
                end -= 1
                left += self._measured(self._text[end])
        return max(end, min(at + 1, len(self._text)))

    def _break(self, at: int, room: int) -> int:
        last = self._reach(at, room)
        if _blank(self._text, last) == len(self._text):
            return last if self._cut(last) is None else len(self._text)
        #: a break that cuts a fence has to leave room for its end
        tight = self._reach(at, room - self._reserve) if self._reserve else last
        half = at + (last - at) // 2
        for pattern, least in ((_PARAGRAPH, half), (_LINE, half), (_SENTENCE, half), (_WORD, half), (_WORD, at + 1)):
            # the blank after the last character that fits is not sent
            places = [min(match.end(), last) for match in pattern.finditer(self._text, at, last + 1)]
            if pattern is _PARAGRAPH:
                places = [place for place in places if self._cut(place) is None] + self._beside_fences(at, last)
            allowed = (p for p in places if max(least, at + 1) <= p <= last and self._may(p, at, last, tight))
            if (place := max(allowed, default=None)) is not None:
                return place
        return self._hard(at, last, tight)

    def _beside_fences(self, at: int, last: int) -> list[int]:
        low, high = bisect_left(self._fence_starts, at), bisect_right(self._fence_starts, last)
        return [place for fence in self._fences[max(0, low - 1) : high] for place in (fence.start, fence.end)]

    def _may(self, place: int, at: int, last: int, tight: int) -> bool:
        """Whether a break here cuts nothing that could stay whole."""
        if (self._cut(place) is not None and place > tight) or _joined(self._text, place, at):
            return False
        number = bisect_left(self._kept_starts, place) - 1
        if number < 0:
            return True
        first, end = self._kept[number]
        # what begins with the piece and does not fit into it cannot be kept whole
        return not first < place < end or (first <= at and end > last and not self._tears(place))

    def _tears(self, place: int) -> bool:
        """Whether a break here would leave a fence open, or close one that is not."""
        number = bisect_left(self._fence_starts, place) - 1
        if number < 0:
            return False
        fence = self._fences[number]
        return fence.start < place <= fence.inside or fence.until <= place < fence.marked

    def _hard(self, at: int, last: int, tight: int) -> int:
        """No blank to break at: before something that should stay whole, else between two characters."""
        number = bisect_left(self._kept_starts, last) - 1
        if number >= 0:
            first, end = self._kept[number]
            if at < first < last < end and self._cut(first) is None:
                return first
        place = last if self._cut(last) is None and not self._tears(last) else min(last, tight)
        if self._tears(place):
            # the end of the content stays with the marks that close it
            fence = self._fences[bisect_left(self._fence_starts, place) - 1]
            place = max(at + 1, min(tight, fence.until - 2))
        whole = place
        while whole > at + 1 and _joined(self._text, whole, at):
            whole -= 1
        return place if _joined(self._text, whole, at) else whole


def _blank(text: str, at: int) -> int:
    """Where the blanks that begin here end."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _fence(text: str, start: int, end: int) -> _Fence | None:
    """The span of code as a fence, if it is one: three marks or more, and something on the lines below them."""
    mark = _FENCE_MARK.match(text, start, end)
    first = text.find("\n", start, end)
    if mark is None or first < 0:
        return None
    line = text.rfind("\n", max(0, start - INDENT), start) + 1
    before = text[line:start]
    own_line = len(before) < INDENT and not before.strip(" \t>-*+.)0123456789")
    prefix = _LIST_MARK.sub(lambda found: " " * len(found[0]), before) if own_line else ""
    info = text[mark.end() : first].rstrip()
    last = text.rfind("\n", first, end)
    closes = last > first and _FENCE_MARK.match(text[last + 1 : end].lstrip(" \t>")) is not None
    until = last + 1 if closes else end
    after = text.find("\n", end, end + INDENT)
    over = end if after < 0 or text[end:after].strip() else after + 1
    return _Fence(
        start=line if own_line else start,
        inside=first + 1,
        until=until,
        marked=end,
        end=over,
        opening=f"{prefix}{mark[0]}{info}\n",
        bare=f"{prefix}{mark[0]}\n",
        closing=f"\n{prefix}{mark[0]}",
    )


def _kept(text: str, spans: list[tuple[int, int]], fences: list[_Fence]) -> list[tuple[int, int]]:
    """What a break must not fall into: from, to; sorted, apart from each other."""
    found: list[tuple[int, int]] = []
    insides = {fence.inside: fence for fence in fences}
    done = 0
    for start, end in [*spans, (len(text), len(text))]:
        found += [match.span() for match in _KEPT.finditer(text, done, start)]
        done = end
        if start == end:
            continue
        first = text.find("\n", start, end) + 1
        fence = insides.get(first) if first else None
        if fence is None:
            found.append((start, end))
            continue
        # no piece ends with an empty fence, and none begins with one
        found.append((fence.start, fence.inside + 1))
        if fence.until < fence.end:
            line = text.rfind("\n", fence.inside, fence.until - 1) + 1
            found.append((max(line, fence.inside), fence.end))
    return _apart(found)


def _apart(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    apart: list[tuple[int, int]] = []
    for first, end in sorted(found):
        if apart and first < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((first, end))
    return apart


def _joined(text: str, place: int, at: int) -> bool:
    """Whether the code points before and after this place are one character for a reader."""
    before, after = text[place - 1], text[place]
    if _JOINER in (before, after) or before == _ESCAPE:
        return True
    if before == _CARRIAGE:
        return after == "\n"
    if unicodedata.category(after) in ("Mn", "Me", "Mc") or _modifies(after):
        return True
    if _is_regional(before) and _is_regional(after):
        # flags are pairs: an odd number before this place is half a flag
        first = place
        while first > at and _is_regional(text[first - 1]):
            first -= 1
        return (place - first) % 2 == 1
    return False


def _modifies(character: str) -> bool:
    return (
        "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or ("\u1160" <= character <= "\u11ff")
    )


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
