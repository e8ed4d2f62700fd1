from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.stuck import Fine, Interrupt, Kill, Patience, Signs, decide

PATIENCE = Patience(run_ms=1000, silence_ms=100, heartbeat_ms=60, grace_ms=50)


def signs(**given: object) -> Signs:
    return Signs(**{"running_ms": 0, "heartbeat_ms": 0, "silent_ms": 0, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (signs(), Fine),
        (signs(running_ms=999, silent_ms=100, heartbeat_ms=60), Fine),
        (signs(running_ms=1000), Interrupt),
        (signs(silent_ms=101), Interrupt),
        (signs(heartbeat_ms=61), Kill),
        # a tool that said how long it takes has that long
        (signs(silent_ms=300, tool_ms=200), Fine),
        (signs(silent_ms=301, tool_ms=200), Interrupt),
        # a person may take as long as they like, but nobody waits at a desk that hangs
        (signs(running_ms=10_000, silent_ms=10_000, questions=True), Fine),
        (signs(heartbeat_ms=61, questions=True), Kill),
        # told once; then it has its grace, and no more
        (signs(running_ms=2000, interrupted_ms=50), Fine),
        (signs(running_ms=2000, interrupted_ms=51), Kill),
        (signs(running_ms=2000, interrupted_ms=51, questions=True), Kill),
    ],
)
def test_what_follows_from_what_is_seen(seen: Signs, expected: type) -> None:
    assert isinstance(decide(seen, PATIENCE), expected)


def test_reasons_are_sentences_with_the_numbers() -> None:
    patient = Patience(run_ms=1500, silence_ms=1000, heartbeat_ms=60_000)
    assert decide(signs(running_ms=1500), patient) == Interrupt("the run did not end within 1.5 s")
    assert decide(signs(silent_ms=2345), patient) == Interrupt("the run showed nothing new for 2 s")
    assert decide(signs(heartbeat_ms=61_000), patient) == Kill("the runner hung: its last heartbeat is 61 s old")


ages = st.integers(min_value=0, max_value=10_000)


@given(
    running=ages, heartbeat=ages, silent=ages, tool=ages, questions=st.booleans(), interrupted=st.none() | ages
)  # fmt: skip
def test_no_run_is_for_ever(
    running: int, heartbeat: int, silent: int, tool: int, questions: bool, interrupted: int | None
) -> None:
    seen = Signs(
        running_ms=running,
        heartbeat_ms=heartbeat,
        silent_ms=silent,
        tool_ms=tool,
        questions=questions,
        interrupted_ms=interrupted,
    )
    verdict = decide(seen, PATIENCE)
    if heartbeat > PATIENCE.heartbeat_ms or (interrupted or 0) > PATIENCE.grace_ms:
        assert isinstance(verdict, Kill)
    elif running >= PATIENCE.run_ms and not questions:
        # over its time: it has been told, or is told now
        assert interrupted is not None or isinstance(verdict, Interrupt)
    if isinstance(verdict, Interrupt):
        assert interrupted is None
