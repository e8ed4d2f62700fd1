"""Which days of topics are made anew."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.pipeline.jobs.topics import Topics, pieces_of, terms_about
from manydesks.pipeline.tables import FEW


def test_a_day_is_made_anew_with_those_that_look_back_on_it() -> None:
    days = {("ada", day) for day in ("2026-01-01", "2026-01-10", "2026-02-07", "2026-02-08", "2026-03-01")}
    plan = Topics(days=days, touched={"2026-01-10"})
    assert plan.wanted == {"2026-01-10", "2026-02-07"}  # the 28th day after it; the 29th does not look back so far
    assert {"2025-12-13", "2026-01-10", "2026-02-07"} <= plan.needed
    assert not {"2025-12-12", "2026-02-08"} & plan.needed
    assert plan.first_days == {"ada": "2026-01-01"}


def test_nothing_is_wanted_if_nothing_changed() -> None:
    plan = Topics(days={("ada", "2026-01-01")}, touched=set())
    assert plan.wanted == plan.needed == set()


def test_an_agent_that_turns_out_to_be_older_is_held_against_more_days() -> None:
    days = {("ada", "2026-01-01"), ("ada", "2026-06-01"), ("ada", "2026-06-20"), ("bob", "2026-06-29")}
    plan = Topics(days=days, touched={"2026-01-01"})
    # until then June 20 had 19 days before it, now it has 28
    assert plan.wanted == {"2026-01-01", "2026-06-01", "2026-06-20"}


def test_so_it_is_if_several_days_before_its_first_turn_up_at_once() -> None:
    late, known = {"2026-01-01", "2026-01-02", "2026-03-01"}, {"2026-06-01", "2026-06-20", "2026-06-29"}
    plan = Topics(days={("ada", day) for day in late | known}, touched=late)
    assert plan.wanted == late | {"2026-06-01", "2026-06-20"}
    # one of the late days was the first one before, and has new messages only
    assert Topics(days={("ada", day) for day in late}, touched=late).wanted == late


def test_a_day_that_has_lost_all_its_messages_is_made_anew_too() -> None:
    assert Topics(days=set(), touched={"2026-01-01"}).wanted == {"2026-01-01"}


def test_few_texts_that_are_long_are_much_work() -> None:
    short, long = 300 * 200, 300 * 30_000  # bytes of 300 texts, compressed
    assert (pieces_of(0), pieces_of(short), pieces_of(long), pieces_of(1 << 50)) == (1, 1, 5, 200)
    assert terms_about(300, short) < FEW < terms_about(300, long)
    assert terms_about(10_000, short) == 200_000
