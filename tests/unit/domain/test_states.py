"""The state machines: which moves there are, and that the store's words are the same."""

from __future__ import annotations

import itertools
from enum import IntEnum
from pathlib import Path
from typing import Any

import apsw
import pytest

from manydesks.domain.states import (
    JOIN_MOVES,
    MESSAGE_ENDED,
    MESSAGE_MOVES,
    PART_MOVES,
    RESPONSE_ENDED,
    RESPONSE_MOVES,
    IllegalMove,
    JoinState,
    MessageState,
    PartState,
    ResponseState,
    advance,
    may_move,
    word,
)
from manydesks.store.migrations import OFFICE

MACHINES = [
    (MessageState, MESSAGE_MOVES), (ResponseState, RESPONSE_MOVES), (JoinState, JOIN_MOVES), (PartState, PART_MOVES),
]  # fmt: skip

M, R = MessageState, ResponseState


@pytest.mark.parametrize(("states", "moves"), MACHINES)
def test_every_state_is_in_its_table_and_nothing_moves_to_itself(states: Any, moves: Any) -> None:
    assert set(moves) == set(states)
    for state, targets in moves.items():
        assert state not in targets
        assert targets <= set(states)


@pytest.mark.parametrize(("states", "moves"), MACHINES)
def test_every_state_can_be_reached_from_the_first(states: Any, moves: Any) -> None:
    reached, edge = {states(0)}, {states(0)}
    while edge:
        edge = {target for state in edge for target in moves[state]} - reached
        reached |= edge
    assert reached == set(states)


@pytest.mark.parametrize(("states", "moves"), MACHINES)
def test_advance_allows_exactly_the_moves_of_the_table(states: Any, moves: Any) -> None:
    for before, after in itertools.product(states, states):
        assert may_move(before, after) == (after in moves[before])
        if after in moves[before]:
            assert advance(before, after) is after
        else:
            with pytest.raises(IllegalMove, match=f"from {word(before)} to {word(after)}"):
                advance(before, after)


@pytest.mark.parametrize("state", [M.COMPLETED, M.CANCELLED, R.ACKED, R.WITHDRAWN])
def test_what_is_final_stays(state: IntEnum) -> None:
    moves: Any = MESSAGE_MOVES if isinstance(state, MessageState) else RESPONSE_MOVES
    assert moves[state] == frozenset()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (M.PENDING, M.COMPLETED), (M.HELD, M.PROCESSING), (M.DEAD, M.PROCESSING), (M.DEAD, M.COMPLETED),
        (R.SENDING, R.EXPIRED), (R.SENDING, R.WITHDRAWN), (R.UNSURE, R.SENDING), (R.HELD, R.SENDING),
    ],
)  # fmt: skip
def test_shortcuts_that_would_lie(before: Any, after: Any) -> None:
    assert not may_move(before, after)


def test_the_live_states_sort_first() -> None:
    """`state <= 1` is "waits or is under way" in the indexes of every table with lanes."""
    assert [state for state in M if state <= 1] == [M.PENDING, M.PROCESSING]
    assert [state for state in R if state <= 1] == [R.PENDING, R.SENDING]
    assert {state for state in M if state >= MESSAGE_ENDED} == {M.COMPLETED, M.CANCELLED, M.DEAD}
    assert {state for state in R if state >= RESPONSE_ENDED} == {R.ACKED, R.WITHDRAWN, R.DEAD, R.EXPIRED}


@pytest.mark.parametrize(
    ("table", "states"),
    [("messages", MessageState), ("responses", ResponseState), ("joins", JoinState), ("join_parts", PartState)],
)
def test_the_words_of_the_store_are_those_of_the_machine(table: str, states: Any, tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "office.db"))
    OFFICE.migrate(db, "office.db", 1)
    (sql,) = db.execute("select sql from sqlite_schema where name = ?", (table,)).fetchall()[0]
    column = sql[sql.index("status") :]
    case = column[column.index("(") : column.index("virtual")]
    for value in range(-1, len(states) + 2):
        (found,) = db.execute(f"select {case} from (select {value} as state)").fetchall()[0]
        assert found == (word(states(value)) if value in list(states) else None)
    # and no other state can be stored
    assert f"state between 0 and {max(states)}" in sql
    db.close()
