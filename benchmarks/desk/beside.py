"""What the office adds to a turn of the real `claude`: the same program, the same scripted model, turn about."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

from benchmarks.desk.byhand import ByHand
from benchmarks.desk.offices import hire, office, timed
from benchmarks.measure import Setting, company
from benchmarks.report import Fact, Section
from manydesks.runner.program import find_program
from manydesks.testing.model import ScriptedModel, Turn

#: milliseconds on top of the same turn by hand
COLD_MS, WARM_MS = 300, 40
#: pairs of warm turns for each pair of cold ones
WARM_PAIRS = 3

#: by hand, at a desk; seconds
Pair = tuple[float, float]


def beside(setting: Setting) -> Section:
    claude = find_program("claude")
    cold: list[Pair] = []
    warm: list[Pair] = []
    with company() as heard:
        if claude is None:
            absent = Fact(what="left out", value="there is no claude here; install the extra `claude`")
            return Section(title="claude by hand and at a desk", lines=[absent], company=heard)
        with (
            ScriptedModel() as model,
            office(heard, model_url=model.base_url) as made,
            ByHand(claude, model.base_url) as warmed,
        ):
            model.play(Turn(text="Hello.", times=None))
            # not counted: the file cache, the host's first look at the sandbox, a second turn at each of the warm ones
            hire(made, "warm", claude=True)
            for _ in range(2):
                warmed.turn()
                timed(made, "warm", "hello")
            for number in range(setting.rounds):
                agent = f"c{number}"
                hire(made, agent, claude=True)
                with ByHand(claude, model.base_url) as fresh:
                    cold.append(_pair(number, fresh.turn, partial(timed, made, agent, "hello")))
                warm += [
                    _pair(number + more, warmed.turn, partial(timed, made, "warm", "hello"))
                    for more in range(WARM_PAIRS)
                ]
    return Section(
        title="claude by hand, and at a desk with sandbox and proxy",
        lines=[*_facts("cold", cold, COLD_MS), *_facts("warm", warm, WARM_MS)],
        company=heard,
        notes=["what the office adds is taken pair by pair; p50 is the median of that"],
    )


def _pair(number: int, by_hand: Callable[[], float], at_desk: Callable[[], float]) -> Pair:
    """Right after each other; who goes first changes."""
    if number % 2:
        desk = at_desk()
        return by_hand(), desk
    return by_hand(), at_desk()


def _facts(what: str, pairs: list[Pair], most: int) -> list[Fact]:
    hand, desk = (statistics.median(pair[which] for pair in pairs) * 1000 for which in (0, 1))
    added = sorted((pair[1] - pair[0]) * 1000 for pair in pairs)
    middle = statistics.median(added)
    return [
        Fact(what=f"a {what} turn by hand", value=f"p50 {hand:.0f} ms"),
        Fact(what=f"a {what} turn at a desk", value=f"p50 {desk:.0f} ms"),
        Fact(
            what=f"what the office adds, {what}",
            value=f"p50 {middle:+.0f} ms of {len(added)} pairs, from {added[0]:+.0f} to {added[-1]:+.0f} ms",
            target=f"p50 ≤ +{most} ms",
            holds=middle <= most,
        ),
    ]
