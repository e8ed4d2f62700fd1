from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from manydesks.domain.routing import Directory, Team
from manydesks.office.workspace.roster import BEGIN, END, MOST, renewed, roster

WEB = Team(id="web", name="The web team", leader="lead", members=("coder", "critic"))
PEOPLE = Directory(
    agents={"coder": "Coder", "critic": "critic", "lead": "Lea", "writer": "Writer", "editor": "Ed", "away": "Away"},
    teams={"web": WEB, "desk": Team(id="desk", leader="writer", members=("editor",))},
    reaches={"coder": frozenset({"writer"}), "away": frozenset({"lead"})},
)


def test_a_member_sees_its_team_its_leader_and_whom_it_was_permitted() -> None:
    assert roster(PEOPLE, "coder") == (
        "You are `coder`.\n\n"
        "Your team `web` (The web team) is led by `lead`. `@web` reaches its leader. Its room: `[#web: text]`.\n\n"
        "* `@lead`: Lea, leads the team\n"
        "* `@critic`\n\n"
        "You may also address:\n\n"
        "* `@writer`: Writer"
    )


def test_the_leader_sees_whom_it_leads() -> None:
    assert roster(PEOPLE, "lead") == (
        "You are `lead`.\n\n"
        "Your team `web` (The web team) is led by you. Its room: `[#web: text]`.\n\n"
        "* `@coder`: Coder\n"
        "* `@critic`"
    )


def test_permission_is_one_way() -> None:
    assert "coder" not in roster(PEOPLE, "writer")
    assert roster(PEOPLE, "away").endswith("and in no team.\n\nYou may address:\n\n* `@lead`: Lea")


def test_agents_without_a_team_see_each_other() -> None:
    people = Directory(agents={"a": "A", "b": "B"})
    assert roster(people, "a").endswith("You may address:\n\n* `@b`: B")
    alone = Directory(agents={"a": "A"})
    assert roster(alone, "a") == "You are `a`, and in no team.\n\nThere is nobody whom you may address."


def test_everyone_listed_can_be_addressed_and_nobody_else() -> None:
    for agent in PEOPLE.agents:
        text = roster(PEOPLE, agent)
        for other in PEOPLE.agents:
            assert (f"* `@{other}`" in text) == PEOPLE.may_address(agent, other), (agent, other)


def test_a_crowd_does_not_fill_the_manual_nor_change_with_each_newcomer() -> None:
    crowd = {f"a{number:03d}": "x" for number in range(500)}
    text = roster(Directory(agents=crowd), "a000")
    assert text.count("* `@") == MOST
    assert roster(Directory(agents={**crowd, "b": "B"}), "a000") == text


def test_a_name_breaks_nothing() -> None:
    people = Directory(agents={"a": "A", "b": f"x\n{END} `y` \x1b"})
    text = roster(people, "a")
    assert END not in text
    assert text.splitlines()[-1] == "* `@b`: x (!-- /manydesks:mates --) 'y'"


@given(before=st.binary(max_size=60), inside=st.binary(max_size=60), after=st.binary(max_size=60))
def test_what_stands_around_the_marks_stays_byte_for_byte(before: bytes, inside: bytes, after: bytes) -> None:
    # a second mark is the next test's; the generator knows the words of the code it tries
    assume(all(b"manydesks:mates" not in part for part in (before, inside, after)))
    manual = before + b"<!-- manydesks:mates -->" + inside + END.encode() + after
    new = renewed(manual, "part")
    assert new is not None
    assert new == before + f"{BEGIN}\npart\n{END}".encode() + after
    # what the office wrote it recognises
    assert renewed(new, "part") == new
    assert renewed(new, "other") == before + f"{BEGIN}\nother\n{END}".encode() + after


def test_without_a_pair_of_marks_it_is_left_alone() -> None:
    begin, end = BEGIN.encode(), END.encode()
    pair = begin + end
    for manual in (b"", b"text", begin, end, end + begin, begin + pair, pair + end, pair + pair):
        assert renewed(manual, "part") is None, manual
