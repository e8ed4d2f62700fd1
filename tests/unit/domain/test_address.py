"""The grammar as a table of examples; then what holds for every input."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manydesks.domain.address import Connector, Leading, Tag, Text, leading, parse

FENCE = "```"

#: message, then its pieces: text as it is, a tag as (ids, text), a post as ("#ids", text), a connector as itself
PIECES: list[tuple[str, list[object]]] = [
    # text
    ("", []),
    ("hello", ["hello"]),
    ("an array[0] and [a link](x)", ["an array[0] and [a link](x)"]),
    ("me@x.org, @coder", ["me@x.org, @coder"]),
    ("[@coder]", ["[@coder]"]),
    ("[@coder fix it]", ["[@coder fix it]"]),
    ("[@: fix it]", ["[@: fix it]"]),
    ("[@a,: fix it]", ["[@a,: fix it]"]),
    ("[@,a: fix it]", ["[@,a: fix it]"]),
    ("[@two words: fix it]", ["[@two words: fix it]"]),
    ("[@a\n: fix it]", ["[@a\n: fix it]"]),
    ("[ @a: fix it]", ["[ @a: fix it]"]),
    ("[@" + "a" * 65 + ": too long for an id]", ["[@" + "a" * 65 + ": too long for an id]"]),
    # tags
    ("[@coder: fix it]", [("coder", "fix it")]),
    ("[@coder:fix it]", [("coder", "fix it")]),
    ("[@CoDer: Fix It]", [("coder", "Fix It")]),
    ("[@ coder : fix it ]", [("coder", "fix it")]),
    ("[@a,b: x]", [("a b", "x")]),
    ("[@ a , b ,c: x]", [("a b c", "x")]),
    ("[@a, @b: x]", [("a b", "x")]),
    ("[@a,A,b,a: x]", [("a b", "x")]),
    ("[@a,#b: x]", ["[@a,#b: x]"]),
    ("[@a_1-b: x]", [("a_1-b", "x")]),
    ("[@a: x: y]", [("a", "x: y")]),
    ("[@a: one\ntwo\n\nthree]", [("a", "one\ntwo\n\nthree")]),
    ("[@a:]", [("a", "")]),
    ("[@a: \n ]", [("a", "")]),
    ("so [@a: x] and [@b: y].", ["so ", ("a", "x"), " and ", ("b", "y"), "."]),
    ("[@a: x][@b: y]", [("a", "x"), ("b", "y")]),
    ("([@a: x])", ["(", ("a", "x"), ")"]),
    # brackets
    ("[@coder: fix arr[0]]", [("coder", "fix arr[0]")]),
    ("[@coder: m[a[i]][j] = []] thanks", [("coder", "m[a[i]][j] = []"), " thanks"]),
    ("[@a: hand it to [@b: y]]", [("a", "hand it to [@b: y]")]),
    ("[@a: post [#t: y] too]", [("a", "post [#t: y] too")]),
    ("[see [@a: x]]", ["[see ", ("a", "x"), "]"]),
    ("] [@a: x]", ["] ", ("a", "x")]),
    ("[ [@a: x]", ["[ ", ("a", "x")]),
    # unclosed
    ("[@a: x", ["[@a: x"]),
    ("[@a: x[0]", ["[@a: x[0]"]),
    ("[@a: x [@b: y]", ["[@a: x ", ("b", "y")]),
    ("[@b: y] [@a: x", [("b", "y"), " [@a: x"]),
    # escapes
    (r"\[@a: x]", ["[@a: x]"]),
    (r"\[#t: x]", ["[#t: x]"]),
    (r"\[a] is kept", [r"\[a] is kept"]),
    (r"write \[@a: x] or [@b: y]", ["write [@a: x] or ", ("b", "y")]),
    (r"[@a: begin with \[@ or \[#]", [("a", "begin with [@ or [#")]),
    (r"[@a: match [^\]]+ or \[]", [("a", r"match [^\]]+ or \[")]),
    (r"[@a: match [^\\]+]", [("a", r"match [^\\]+")]),
    (r"\\[@a: x]", ["\\\\", ("a", "x")]),
    (r"`\[@a: x]` as it is", [r"`\[@a: x]` as it is"]),
    # code spans
    ("`[@a: x]`", ["`[@a: x]`"]),
    ("`` [@a: `x`] ``", ["`` [@a: `x`] ``"]),
    ("`[@a: x]` [@b: y]", ["`[@a: x]` ", ("b", "y")]),
    ("[@a: type `]` or `[` here]", [("a", "type `]` or `[` here")]),
    ("a lone ` [@a: x]", ["a lone ` ", ("a", "x")]),
    ("a lone ` [@a: x]\n\nand ` here", ["a lone ` ", ("a", "x"), "\n\nand ` here"]),
    ("a lone ` [@a: x]\r\n\r\nand ` here", ["a lone ` ", ("a", "x"), "\r\n\r\nand ` here"]),
    ("one ` over\nthe line [@a: x] `", ["one ` over\nthe line [@a: x] `"]),
    ("`` [@a: x] `", ["`` ", ("a", "x"), " `"]),
    (f"{FENCE}[@a: x]{FENCE}", [f"{FENCE}[@a: x]{FENCE}"]),
    (f"run {FENCE}\n\n[@a: x]\n{FENCE} [@b: y]", [f"run {FENCE}\n\n[@a: x]\n{FENCE} ", ("b", "y")]),
    # fences
    (f"{FENCE}\n[@a: x]\n{FENCE}", [f"{FENCE}\n[@a: x]\n{FENCE}"]),
    (f"{FENCE}py\n[@a: x]\n\n`\n{FENCE}\n[@b: y]", [f"{FENCE}py\n[@a: x]\n\n`\n{FENCE}\n", ("b", "y")]),
    ("~~~\n[@a: x]\n```\n~~~\n[@b: y]", ["~~~\n[@a: x]\n```\n~~~\n", ("b", "y")]),
    (
        f"{FENCE}`\n[@a: x]\n{FENCE}\n[@c: z]\n{FENCE}`\n[@b: y]",
        [f"{FENCE}`\n[@a: x]\n{FENCE}\n[@c: z]\n{FENCE}`\n", ("b", "y")],
    ),
    (f"{FENCE}\nnever closed\n[@a: x]", [f"{FENCE}\nnever closed\n[@a: x]"]),
    (f"- {FENCE}\n\n  [@a: x]\n  {FENCE}\n[@b: y]", [f"- {FENCE}\n\n  [@a: x]\n  {FENCE}\n", ("b", "y")]),
    (f"> {FENCE}\n> [@a: x]\n> {FENCE}\n[@b: y]", [f"> {FENCE}\n> [@a: x]\n> {FENCE}\n", ("b", "y")]),
    (f"[@a: run\n{FENCE}sh\nif [ x; then\n{FENCE}\n]", [("a", f"run\n{FENCE}sh\nif [ x; then\n{FENCE}")]),
    (f"{FENCE}\n[@a: x]\n{FENCE} [@b: y]", [f"{FENCE}\n[@a: x]\n{FENCE} ", ("b", "y")]),
    (f"[@a: {FENCE}sh\nif [ x\n\nfi\n{FENCE}]", [("a", f"{FENCE}sh\nif [ x\n\nfi\n{FENCE}")]),
    (f"[@a: x\n{FENCE}\n]\n{FENCE}] -> [@b: y]", [("a", f"x\n{FENCE}\n]\n{FENCE}"), "->", ("b", "y")]),
    ("it's `ok`\n```\n[@a: `x]\n```\n[@b: y]", ["it's `ok`\n```\n[@a: `x]\n```\n", ("b", "y")]),
    ("a lone ` here\n```\nx ` y\n```\n[@b: y]", ["a lone ` here\n```\nx ` y\n```\n", ("b", "y")]),
    ("use ``` so\n```py\n[@a: x]\n```\n[@b: y]", ["use ``` so\n```py\n[@a: x]\n```\n", ("b", "y")]),
    # connectors
    ("[@a: x] -> [@b: y]", [("a", "x"), "->", ("b", "y")]),
    ("[@a: x]->[@b: y]", [("a", "x"), "->", ("b", "y")]),
    ("[@a: x]\n -> \n[@b: y]", [("a", "x"), "->", ("b", "y")]),
    ("[@a: x] [@b: y] => [@c: z]", [("a", "x"), " ", ("b", "y"), "=>", ("c", "z")]),
    ("[@a: x] -> [@b: y] -> [@c: z]", [("a", "x"), "->", ("b", "y"), "->", ("c", "z")]),
    ("-> [@a: x]", ["-> ", ("a", "x")]),
    ("[@a: x] ->", [("a", "x"), " ->"]),
    ("[@a: x] -> then [@b: y]", [("a", "x"), " -> then ", ("b", "y")]),
    ("[@a: x] --> [@b: y]", [("a", "x"), " --> ", ("b", "y")]),
    ("[@a: x] -> [#t: y]", [("a", "x"), " -> ", ("#t", "y")]),
    ("[@a: x -> [@b: y]]", [("a", "x -> [@b: y]")]),
    # rooms
    ("[#dev: hello]", [("#dev", "hello")]),
    ("[# Dev , ops: hello]", [("#dev ops", "hello")]),
    ("done [#dev: it is [@a: x]]", ["done ", ("#dev", "it is [@a: x]")]),
    ("[#dev]", ["[#dev]"]),
]


def compact(text: str) -> list[object]:
    pieces: list[object] = []
    for piece in parse(text).pieces:
        match piece:
            case Text():
                pieces.append(piece.text)
            case Tag(sign=sign, ids=ids):
                pieces.append(("#" * (sign == "#") + " ".join(ids), piece.text))
            case Connector(join=join):
                pieces.append("=>" if join else "->")
    return pieces


@pytest.mark.parametrize(("text", "pieces"), PIECES, ids=[text for text, _ in PIECES])
def test_pieces(text: str, pieces: list[object]) -> None:
    assert compact(text) == pieces


@pytest.mark.parametrize(
    ("text", "unclosed"),
    [
        ("[@a: x", ("a",)),
        ("[@A,b: x [@a: y", ("a", "b")),
        ("[@a: x]", ()),
        ("`[@a: x`", ()),
        (r"\[@a: x", ()),
        ("[#t: x", ()),
        ("[@a x", ()),
    ],
)
def test_an_unclosed_tag_is_reported(text: str, unclosed: tuple[str, ...]) -> None:
    assert parse(text).unclosed == unclosed


#: message, then the ids and the text, or None
LEADING: list[tuple[str, tuple[str, str] | None]] = [
    ("@coder fix it", ("coder", "fix it")),
    ("@coder: fix it", ("coder", "fix it")),
    ("@coder:fix it", ("coder", "fix it")),
    ("@coder : fix it", ("coder", "fix it")),
    ("@coder :) thanks", ("coder", ":) thanks")),
    ("@Coder\nfix it\n", ("coder", "fix it")),
    (" \n\t@coder fix it", ("coder", "fix it")),
    ("@a,b x", ("a b", "x")),
    ("@a,b: x", ("a b", "x")),
    ("@a,@b x", ("a b", "x")),
    ("@a, @b: x", ("a b", "x")),
    ("@a,B,A x", ("a b", "x")),
    ("@coder, please fix it", ("coder", "please fix it")),
    ("@a @b x", ("a", "@b x")),
    ("@coder", ("coder", "")),
    ("@coder: ", ("coder", "")),
    (
        "@coder: draft the fix. When done, @reviewer: review it",
        ("coder", "draft the fix. When done, @reviewer: review it"),
    ),
    ("@coder mail me@x.org", ("coder", "mail me@x.org")),
    ("@köder hi", ("köder", "hi")),
    ("", None),
    ("hello @coder", None),
    ("me@x.org writes", None),
    ("@x.org writes", None),
    ("@coder's code", None),
    ("@coder/x is a package", None),
    ("@ coder", None),
    ("@", None),
    ("@,a x", None),
    ("\\@coder x", None),
    ("`@coder` x", None),
    ("@" + "a" * 65 + " x", None),
]


@pytest.mark.parametrize(("text", "expected"), LEADING, ids=[text for text, _ in LEADING])
def test_leading(text: str, expected: tuple[str, str] | None) -> None:
    assert leading(text) == (Leading(ids=tuple(expected[0].split()), text=expected[1]) if expected else None)


# Every input.

#: bits of syntax, so that random messages are nearly right
BITS = [
    "[@",
    "[#",
    "[@a: ",
    "[@b,c:",
    "[#t: ",
    "[",
    "]",
    "] -> [@a: ",
    "] => [@b: ",
    "\\",
    "`",
    "``",
    "```",
    "~~~",
    "\n",
    "\n\n",
]
BITS += [
    "```py\n",
    "@a ",
    "@a,b: ",
    "a",
    "x y",
    ",",
    ":",
    "->",
    "=>",
    " ",
    "\t",
    "\r\n",
    "> ",
    "- ",
    "é",
    "\0",
    "@default",
]
MESSAGES = st.lists(st.sampled_from(BITS), max_size=30).map("".join) | st.text(max_size=60)


@given(MESSAGES)
@settings(max_examples=400)
def test_no_character_is_lost(text: str) -> None:
    parsed = parse(text)
    assert "".join(piece.raw for piece in parsed.pieces) == text
    for piece in parsed.pieces:
        assert piece.raw
        if isinstance(piece, Text):
            assert piece.text == piece.raw or "\\[" in piece.raw
        if isinstance(piece, Tag):
            assert piece.ids
            assert piece.text == piece.raw.partition(":")[2][:-1].strip() or "\\[" in piece.raw
    leading(text)


@given(
    st.lists(st.sampled_from(["[@a: ", "[@b,c: ", "[", "]", "x", " ", "[@a", "\n", "[#t:"]), max_size=24).map("".join)
)
@settings(max_examples=400)
def test_tags_end_where_counting_brackets_says(text: str) -> None:
    """Against the plain definition, one count per opening: what the single pass with a stack must agree with."""
    heads = ("[@a: ", "[@b,c: ", "[#t:")
    expected, at = [], 0
    while at < len(text):
        end = closing_bracket(text, at) if text.startswith(heads, at) else None
        if end is not None:
            expected.append(text[at : end + 1])
        at = at + 1 if end is None else end + 1
    assert [piece.raw for piece in parse(text).pieces if isinstance(piece, Tag)] == expected


def closing_bracket(text: str, start: int) -> int | None:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "[") - (text[at] == "]")
        if depth == 0:
            return at
    return None


@given(MESSAGES)
@settings(max_examples=300)
def test_quoted_as_code_a_message_has_no_tags(text: str) -> None:
    fence = "`" * (text.count("`") + 3)
    assert not any(isinstance(piece, Tag) for piece in parse(f"{fence}\n{text}\n{fence}").pieces)


@given(st.text(alphabet="[]@#ab:, ->=x\n", max_size=60))
@settings(max_examples=300)
def test_escaped_a_message_is_itself(text: str) -> None:
    escaped = text.replace("[@", "\\[@").replace("[#", "\\[#")
    assert "".join(piece.text for piece in parse(escaped).pieces if isinstance(piece, Text)) == text


FLOODS = {
    "openings": "[@",
    "unclosed tags": "[@a: ",
    "escapes": "\\[@",
    "backticks": "`",
    "spans": "` ",
    "uneven spans": "` `` ",
    "backslashes": "\\",
    "closing": "]",
    "tags": "[@a: x]",
    "chain": "[@a: x]->",
    "ids": "a,",
    "blanks": " ",
    "blank lines": "\n",
    "fences": "```\n",
    "infos": "```x\n~~~\n",
    "tag fences": "[@a: ```",
    "quotes": ">",
    "long fences": "[@a:~~~\n````\n",
}


@pytest.mark.parametrize("bit", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize(
    ("read", "head"),
    [
        (parse, ""),
        (parse, "[@a: "),
        (parse, "[@a,"),
        (parse, "\n```` [@"),
        (leading, ""),
        (leading, "@"),
        (leading, "@a,"),
    ],
)
def test_time_is_linear(bit: str, head: str, read: Callable[[str], object]) -> None:
    def cost(size: int) -> float:
        # the last bracket keeps the parser off its short way out
        text = head + bit * (size // len(bit)) + "[@"
        best = float("inf")
        for _ in range(2):
            start = time.process_time()
            read(text)
            best = min(best, time.process_time() - start)
        return best

    # Quadratic time would be 16 times as much (and minutes long); a few milliseconds are noise.
    assert cost(80_000) < 9 * cost(20_000) + 0.05


@pytest.mark.parametrize("bit", ["[@", "`", "[@a: ", "\\[@", "` ", "[@a: x]"])
def test_a_megabyte_is_nothing(bit: str) -> None:
    text = bit * (1_000_000 // len(bit)) + "[@a: x]"
    start = time.process_time()
    parse(text)
    assert time.process_time() - start < 5
