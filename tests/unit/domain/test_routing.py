"""Who gets what, as a table of messages; then what holds for every message."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manydesks.domain.address import Tag, Text, parse
from manydesks.domain.errors import UnknownAgent
from manydesks.domain.routing import MAX_TARGETS, Default, Directory, Post, Routing, Team, route_answer, route_person

OFFICE = Directory(
    agents={
        "lead": "Lena",
        "coder": "Cody",
        "reviewer": "Rita",
        "writer": "Wim",
        "editor": "Eda",
        "solo": "Sol",
        "hermit": "Herm",
    },
    teams={
        "dev": Team(id="dev", leader="lead", members=("coder", "reviewer")),
        "press": Team(id="press", leader="editor", members=("editor", "writer", "lead")),
    },
)


def compact(routing: Routing) -> list[str]:
    """`agent by after*: text`; the star marks a join."""
    return [
        f"{target.agent} {target.by}"
        + ("@" + target.team if target.team else "")
        + ("" if not target.after else " " + ",".join(map(str, target.after)) + "*" * target.join)
        + f": {target.text}"
        for target in routing.targets
    ]


#: a person's message where `solo` is the default, then its targets
PERSON: list[tuple[str, list[str]]] = [
    # no address
    ("hello", ["solo default: hello"]),
    ("  as it is \n", ["solo default:   as it is \n"]),
    ("", ["solo default: "]),
    (r"what is \[@coder: x]?", ["solo default: what is [@coder: x]?"]),
    ("mail me@x.org", ["solo default: mail me@x.org"]),
    ("`[@coder: x]`", ["solo default: `[@coder: x]`"]),
    ("[@coder: x", ["solo default: [@coder: x"]),
    ("[@coder]", ["solo default: [@coder]"]),
    # a leading address
    ("@coder fix it", ["coder prefix: fix it"]),
    ("  @Coder: fix it ", ["coder prefix: fix it"]),
    ("@coder,reviewer look", ["coder prefix: look", "reviewer prefix: look"]),
    ("@coder, please look", ["coder prefix: please look"]),
    ("@dev plan it", ["lead prefix@dev: plan it"]),
    ("@lead,dev plan it", ["lead prefix: plan it"]),
    ("@dev,lead plan it", ["lead prefix@dev: plan it"]),
    ("@coder: draft. When done, @reviewer: review", ["coder prefix: draft. When done, @reviewer: review"]),
    ("@coder,nobody hi", ["coder prefix: hi"]),
    ("@nobody hi", ["solo default: @nobody hi"]),
    ("@default hi", ["solo default: @default hi"]),
    ("@coder see `[@reviewer: x]`", ["coder prefix: see `[@reviewer: x]`"]),
    ("@coder see [@nobody: x]", ["coder prefix: see [@nobody: x]"]),
    # tags
    ("[@coder: fix it]", ["coder tag: fix it"]),
    ("[@coder: fix arr[0]]", ["coder tag: fix arr[0]"]),
    ("[@coder,reviewer: look]", ["coder tag: look", "reviewer tag: look"]),
    ("[@dev: plan it]", ["lead tag@dev: plan it"]),
    ("[@coder: x] [@reviewer: y]", ["coder tag: x", "reviewer tag: y"]),
    ("Release 3.\n[@coder: x] [@reviewer: y]", ["coder tag: Release 3.\n\nx", "reviewer tag: Release 3.\n\ny"]),
    ("a [@coder: x] b [@reviewer: y] c", ["coder tag: a  b  c\n\nx", "reviewer tag: a  b  c\n\ny"]),
    ("[@coder: x] [@reviewer: y] [@CODER: z]", ["coder tag: x\n\nz", "reviewer tag: y"]),
    ("Hm. [@coder: x] [@coder: z]", ["coder tag: Hm.\n\nx\n\nz"]),
    ("@coder: see [@reviewer: x]", ["reviewer tag: @coder: see\n\nx"]),
    ("[@coder: tell [@reviewer: y]]", ["coder tag: tell [@reviewer: y]"]),
    # unknown ids
    ("[@nobody: x]", ["solo default: [@nobody: x]"]),
    ("[@coder,nobody: x]", ["coder tag: x"]),
    ("[@nobody: x] [@coder: y]", ["coder tag: [@nobody: x]\n\ny"]),
    ("[@nobody: ask [@coder: y]]", ["solo default: [@nobody: ask [@coder: y]]"]),
    ("[@nobody: x] -> [@none: y]", ["solo default: [@nobody: x] -> [@none: y]"]),
    # chains
    ("[@coder: x] -> [@reviewer: y]", ["coder tag: x", "reviewer chain 0: y"]),
    ("Hm. [@coder: x] -> [@reviewer: y]", ["coder tag: Hm.\n\nx", "reviewer chain 0: Hm.\n\ny"]),
    ("[@coder: x] -> [@reviewer: y] -> [@coder: z]", ["coder tag: x", "reviewer chain 0: y", "coder chain 1: z"]),
    ("[@coder: x] -> [@coder: y]", ["coder tag: x", "coder chain 0: y"]),
    ("[@coder,lead: x] -> [@reviewer: y]", ["coder tag: x", "lead tag: x", "reviewer chain 0,1: y"]),
    ("[@coder: x] -> [@lead,reviewer: y]", ["coder tag: x", "lead chain 0: y", "reviewer chain 0: y"]),
    ("[@lead: w] [@coder: x] -> [@reviewer: y]", ["lead tag: w", "coder tag: x", "reviewer chain 1: y"]),
    ("[@coder: x] -> [@lead: y] [@coder: z]", ["coder tag: x\n\nz", "lead chain 0: y"]),
    ("[@coder: x] -> [@reviewer:]", ["coder tag: x", "reviewer chain 0: "]),
    # joins
    ("[@coder: x] [@writer: y] => [@lead: z]", ["coder tag: x", "writer tag: y", "lead join 0,1*: z"]),
    ("[@coder,writer: x] => [@lead: z]", ["coder tag: x", "writer tag: x", "lead join 0,1*: z"]),
    ("[@coder: x] => [@lead: z]", ["coder tag: x", "lead join 0*: z"]),
    (
        "[@coder: x] -> [@reviewer: y] [@writer: w] => [@lead: z]",
        ["coder tag: x", "reviewer chain 0: y", "writer tag: w", "lead join 1,2*: z"],
    ),
    (
        "[@coder: x] [@writer: w] => [@lead: z] -> [@editor: e]",
        ["coder tag: x", "writer tag: w", "lead join 0,1*: z", "editor chain 2: e"],
    ),
    (
        "[@coder: x] => [@lead: y] [@writer: w] => [@editor: z]",
        ["coder tag: x", "lead join 0*: y", "writer tag: w", "editor join 1,2*: z"],
    ),
    # chains and joins with steps that cannot be delivered keep the order of the rest
    ("[@coder: x] -> [@nobody: y]", ["coder tag: -> [@nobody: y]\n\nx"]),
    ("[@nobody: x] -> [@coder: y]", ["coder tag: [@nobody: x] ->\n\ny"]),
    ("[@nobody: x] => [@coder: y]", ["coder tag: [@nobody: x] =>\n\ny"]),
    (
        "[@coder: x] -> [@nobody: y] -> [@lead: z]",
        ["coder tag: -> [@nobody: y] ->\n\nx", "lead chain 0: -> [@nobody: y] ->\n\nz"],
    ),
    # empty tags
    ("Look at this log. [@coder:]", ["coder tag: Look at this log."]),
    ("[@coder:]", []),
    ("[@coder:] [@lead: x]", ["lead tag: x"]),
    ("[@coder:] -> [@lead: x]", ["lead tag: x"]),
    # rooms
    ("[#press: hi]", ["editor room@press: hi", "writer room@press: hi", "lead room@press: hi"]),
    ("[#dev: hi]", ["lead room@dev: hi", "coder room@dev: hi", "reviewer room@dev: hi"]),
    ("[#coder: hi]", ["solo default: [#coder: hi]"]),
    ("[#dev: ]", []),
    (
        "Note. [#dev: hi] [@solo: x]",
        ["solo tag: Note.\n\nx", "lead room@dev: hi", "coder room@dev: hi", "reviewer room@dev: hi"],
    ),
    (
        "[#dev: hi] and you?",
        ["lead room@dev: hi", "coder room@dev: hi", "reviewer room@dev: hi", "solo default: and you?"],
    ),
    (
        "@writer note it [#dev: hi]",
        ["lead room@dev: hi", "coder room@dev: hi", "reviewer room@dev: hi", "writer prefix: note it"],
    ),
]


@pytest.mark.parametrize(("text", "targets"), PERSON, ids=[text for text, _ in PERSON])
def test_a_person_s_message(text: str, targets: list[str]) -> None:
    routing = route_person(text, OFFICE, default="solo")
    assert compact(routing) == targets
    assert routing.unaddressed is None
    assert routing.default is Default.KEEP


#: an answer of `coder`, then its targets
ANSWERS: list[tuple[str, list[str]]] = [
    ("done", []),
    ("@reviewer look", []),
    ("[@reviewer: look]", ["reviewer hand-off: look"]),
    ("Done.\n\n[@reviewer: look]", ["reviewer hand-off: Done.\n\nlook"]),
    ("[@dev: look]", ["lead hand-off@dev: look"]),
    ("[@writer: look]", []),
    ("[@coder: look]", []),
    ("[@solo: look]", []),
    ("[@nobody: look]", []),
    ("[@reviewer,writer: look]", ["reviewer hand-off: look"]),
    ("[@writer: look] [@lead: x]", ["lead hand-off: [@writer: look]\n\nx"]),
    ("[@reviewer: x] -> [@lead: y]", ["reviewer hand-off: x", "lead chain 0: y"]),
    ("[@reviewer: x] => [@lead: y]", ["reviewer hand-off: x", "lead join 0*: y"]),
    ("`[@reviewer: x]`", []),
    ("[#dev: hi] Done.", ["lead room@dev: hi", "reviewer room@dev: hi"]),
    ("[#press: hi]", []),
]


@pytest.mark.parametrize(("text", "targets"), ANSWERS, ids=[text for text, _ in ANSWERS])
def test_an_agent_s_answer(text: str, targets: list[str]) -> None:
    routing = route_answer(text, OFFICE, sender="coder")
    assert compact(routing) == targets
    assert routing.unaddressed is None
    assert routing.default is Default.KEEP


#: message, what a reader sees
SHOWN = [
    ("hello", "hello"),
    ("@coder fix it", "@coder fix it"),
    (r"\[@coder: x]", "[@coder: x]"),
    ("Done. [@reviewer: look]", "Done. → @reviewer: look"),
    ("[@Lead,reviewer: look]", "→ @lead, @reviewer: look"),
    ("[@lead,nobody: look]", "→ @lead (not @nobody): look"),
    ("[@dev,lead: look]", "→ @dev: look"),
    ("Log. [@lead:]", "Log. → @lead"),
    ("[@nobody: look]", "[@nobody: look]"),
    ("[@lead:]", "[@lead:]"),
    ("[@lead: x] -> [@reviewer: y]", "→ @lead: x\n→ then @reviewer: y"),
    ("[@lead: x] => [@reviewer: y]", "→ @lead: x\n→ after all answers, @reviewer: y"),
    ("[@lead: x] -> [@nobody: y]", "→ @lead: x -> [@nobody: y]"),
    ("[#dev: hi]", "→ #dev: hi"),
    ("[#dev:]", "[#dev:]"),
    ("`[@lead: x]`", "`[@lead: x]`"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN, ids=[text for text, _ in SHOWN])
def test_shown(text: str, shown: str) -> None:
    assert route_person(text, OFFICE, default=None).shown == shown
    assert route_answer(text, OFFICE, sender="coder").shown == shown


def test_a_refused_tag_stays_visible() -> None:
    assert route_answer("[@writer: x] [@lead,solo: y]", OFFICE, sender="coder").shown == (
        "[@writer: x] → @lead (not @solo): y"
    )


#: who writes (None: a person), message, notices
NOTICES: list[tuple[str | None, str, list[str]]] = [
    (None, "[@coder: x]", []),
    (None, "@coder x", []),
    (None, "@codr x", ["There is no agent or team '@codr'; did you mean '@coder'?"]),
    (None, "@Codr", ["There is no agent or team '@codr'; did you mean '@coder'?"]),
    (None, "@rita x", ["There is no agent or team '@rita'; did you mean '@reviewer'?"]),
    (None, "@xyzzy x", ["There is no agent or team '@xyzzy'; it was left as text."]),
    (None, "@coder,codr x", ["There is no agent or team '@codr'; did you mean '@coder'?"]),
    (None, "[@codr: x] [@CODR: y]", ["There is no agent or team '@codr'; did you mean '@coder'?"]),
    (None, "[#deev: x]", ["There is no team '#deev'; did you mean '#dev'?"]),
    (None, "[#coder: x]", ["There is no team '#coder'; it was left as text."]),
    (None, "[@coder: x", ["The tag for '@coder' has no closing bracket; it was left as text."]),
    (None, "[@xyzzy: x", []),
    (None, "[@coder:]", ["Nothing was sent to @coder: the tag is empty."]),
    (None, "[#dev:]", ["Nothing was sent to #dev: the tag is empty."]),
    (None, "@coder,lead", ["Only one agent can be the default; name it alone, such as '@coder'."]),
    (
        None,
        "@default x",
        ["'@default' clears the default agent only when it stands alone; it was left as text."],
    ),
    ("coder", "[@lead: x]", []),
    ("coder", "@codr x", []),
    ("coder", "[@codr: x]", ["There is no agent or team '@codr'; did you mean '@coder'?"]),
    ("coder", "[@coder: x]", ["You cannot address '@coder': that is yourself; it was left as text."]),
    ("lead", "[@dev: x]", ["You cannot address '@dev': that is yourself; it was left as text."]),
    ("coder", "[@writer: x]", ["You cannot address '@writer': you share no team; it was left as text."]),
    ("coder", "[#press: x]", ["You cannot post in '#press': you are not one of its members; it was left as text."]),
]


@pytest.mark.parametrize(("sender", "text", "notices"), NOTICES, ids=[text for _, text, _ in NOTICES])
def test_notices(sender: str | None, text: str, notices: list[str]) -> None:
    for default in (None, "solo"):
        routing = route_answer(text, OFFICE, sender=sender) if sender else route_person(text, OFFICE, default=default)
        assert list(routing.notices) == notices


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("@coder", "coder"),
        (" @Coder: \n", "coder"),
        ("@dev", "lead"),
        ("@default", Default.CLEAR),
        ("@DEFAULT ", Default.CLEAR),
        ("@coder,lead", Default.KEEP),
    ],
)
def test_an_address_alone_changes_the_default_and_sends_nothing(text: str, default: Default | str) -> None:
    routing = route_person(text, OFFICE, default="solo")
    assert routing.default == default
    assert routing.targets == ()
    assert routing.unaddressed is None


def test_an_answer_never_changes_the_default() -> None:
    assert route_answer("@reviewer", OFFICE, sender="coder").default is Default.KEEP


@pytest.mark.parametrize("default", [None, "fired"])
def test_without_a_default_the_text_is_for_the_caller_to_place(default: str | None) -> None:
    assert route_person(r" hi \[@coder: x]", OFFICE, default=default).unaddressed == " hi [@coder: x]"
    assert route_person("", OFFICE, default=default).unaddressed == ""
    routing = route_person("[#dev: hi] and you?", OFFICE, default=default)
    assert (routing.unaddressed, len(routing.targets)) == ("and you?", 3)


def test_an_explicit_recipient_wins_and_the_text_is_not_read() -> None:
    text = r"@reviewer [@lead: x] \[@a: b] [#dev: y] [@nobody: z] "
    routing = route_person(text, OFFICE, default="solo", to="Coder")
    assert compact(routing) == [f"coder prefix: {text}"]
    assert (routing.shown, routing.posts, routing.notices) == (text, (), ())
    assert compact(route_person("x", OFFICE, default=None, to="dev")) == ["lead prefix@dev: x"]


def test_an_explicit_recipient_must_exist() -> None:
    with pytest.raises(UnknownAgent, match=r"no agent 'codr' \(did you mean 'coder'\?\)"):
        route_person("x", OFFICE, default="solo", to="codr")
    with pytest.raises(UnknownAgent, match="no agent 'xyzzy';"):
        route_person("x", OFFICE, default="solo", to="xyzzy")


def test_a_post_is_stored_once_and_reaches_every_other_member() -> None:
    routing = route_answer("Long answer. [#dev: hi] [#dev: again]", OFFICE, sender="lead")
    assert routing.posts == (Post(team="dev", text="hi"), Post(team="dev", text="again"))
    assert [(target.agent, target.text) for target in routing.targets] == [
        ("coder", "hi"),
        ("reviewer", "hi"),
        ("coder", "again"),
        ("reviewer", "again"),
    ]


@pytest.mark.parametrize(
    ("sender", "target", "allowed"),
    [
        ("coder", "reviewer", True),
        ("coder", "lead", True),
        ("lead", "coder", True),
        ("lead", "writer", True),
        ("coder", "writer", False),
        ("writer", "coder", False),
        ("solo", "hermit", True),
        ("solo", "coder", False),
        ("coder", "solo", False),
        ("coder", "coder", False),
        ("solo", "solo", False),
        ("solo", "nobody", False),
        ("nobody", "solo", False),
    ],
)
def test_may_address(sender: str, target: str, allowed: bool) -> None:
    assert OFFICE.may_address(sender, target) is allowed


def test_an_office_without_teams_is_one_team() -> None:
    office = Directory(agents={"a": "A", "b": "B"})
    assert office.may_address("a", "b")
    assert compact(route_answer("[@b: x]", office, sender="a")) == ["b hand-off: x"]


def test_an_agent_wins_over_a_team_of_the_same_id_and_a_lost_leader_is_nobody() -> None:
    office = Directory(
        agents={"a": "A", "b": "B"},
        teams={
            "b": Team(id="b", leader="a", members=("a", "b")),
            "gone": Team(id="gone", leader="fired", members=("a", "fired")),
        },
    )
    assert office.find("B") == ("b", None)
    assert office.find("gone") is None
    assert compact(route_person("[#gone: x]", office, default=None)) == ["a room@gone: x"]


def test_a_flood_of_tags_is_text() -> None:
    most = "[@coder: x] -> " * (MAX_TARGETS - 1) + "[@lead: y]"
    assert len(route_person(most, OFFICE, default="solo").targets) == MAX_TARGETS
    more = "context [@coder: x] -> " + most
    routing = route_person(more, OFFICE, default="solo")
    assert compact(routing) == [f"solo default: {more}"]
    assert routing.shown == more
    assert routing.notices == ("One message may have at most 64 addresses; all its tags were left as text.",)


def test_a_flood_of_unknown_ids_is_summed_up_quickly() -> None:
    text = "".join(f"[@nobody{number}: x]" for number in range(20_000))
    start = time.process_time()
    routing = route_person(text, OFFICE, default="solo")
    assert time.process_time() - start < 5
    assert len(routing.notices) == 9
    assert routing.notices[-1] == "19992 more addresses could not be used; they were left as text."


# Every message.

BITS = [
    "[@coder: ",
    "[@lead,writer: ",
    "[@nobody: ",
    "[@solo,nobody: ",
    "[#dev: ",
    "[#none: ",
    "] -> [@reviewer: ",
    "]",
]
BITS += ["] => [@lead: ", "] [@coder:]", "[", "`", "```\n", "\\", "@coder ", "@dev,solo: ", "@default", "\n", " "]
WORDS = st.integers(0, 99).map(lambda number: f"w{number} ")
MESSAGES = st.lists(st.sampled_from(BITS) | WORDS, max_size=25).map("".join) | st.text(max_size=40)
SENDERS = st.sampled_from([None, "coder", "lead", "solo"])


def route(text: str, sender: str | None) -> Routing:
    return route_answer(text, OFFICE, sender=sender) if sender else route_person(text, OFFICE, default="solo")


def is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(character in rest for character in part)


@given(MESSAGES, SENDERS)
@settings(max_examples=500)
def test_nothing_that_was_said_is_lost(text: str, sender: str | None) -> None:
    routing = route(text, sender)
    said = [piece.text for piece in parse(text).pieces if isinstance(piece, Text | Tag)]
    assert is_subsequence("".join("".join(said).split()), "".join(routing.shown.split()))
    if sender is None and routing.default is Default.KEEP and "@" not in "".join(said):
        received = [target.text for target in routing.targets]
        for words in said:
            assert any(" ".join(words.split()) in " ".join(one.split()) for one in received) or not words.strip()


@given(MESSAGES, SENDERS)
@settings(max_examples=500)
def test_targets_are_real_permitted_and_in_order(text: str, sender: str | None) -> None:
    routing = route(text, sender)
    seen = set()
    for index, target in enumerate(routing.targets):
        assert target.agent in OFFICE.agents
        assert all(0 <= earlier < index for earlier in target.after)
        assert all(routing.targets[earlier].by != "room" for earlier in target.after)
        assert (target.by in ("chain", "join")) == bool(target.after)
        assert target.join == (target.by == "join")
        if target.by != "room":
            key = (target.agent, target.after, target.join)
            assert key not in seen
            seen.add(key)
            assert sender is None or OFFICE.may_address(sender, target.agent)
        else:
            assert target.agent != sender
    for notice in routing.notices:
        assert notice.endswith((".", "?"))
