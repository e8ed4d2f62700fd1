"""A list of turns, and which of them a request gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from manydesks.testing.model.asked import Asked
from manydesks.testing.model.turn import Turn

#: A turn, or a function that makes one for a request, or declines it with None. A function is asked every time.
Play = Turn | Callable[[Asked], Turn | None]


def echo(asked: Asked) -> Turn:
    """What a model says that was told nothing: the last tool's result if there is one, else the person's words."""
    return Turn(text=(asked.tool_results[-1] if asked.tool_results else asked.user) or "Nothing was said.")


@dataclass(frozen=True, kw_only=True)
class Script:
    turns: tuple[Play, ...] = ()
    #: what a request gets that no turn is for
    default: Play = echo
    #: True: all conversations together use the turns up; False: each has all of them to itself
    shared: bool = False

    def plus(self, turns: Iterable[Play]) -> Script:
        return replace(self, turns=(*self.turns, *turns))


class Player:
    """Remembers what each conversation has used up.

    A request gets the first turn of the list whose `when` holds and which its conversation may still have. A turn is
    used up when it is chosen, whatever becomes of it: a client that tries again after a fault gets the next one.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self._used: dict[tuple[str, int], int] = {}

    def choose(self, asked: Asked) -> Turn:
        for number, play in enumerate(self.script.turns):
            if not isinstance(play, Turn):
                made = play(asked)
                if made is not None:
                    return made
            elif (play.when is None or play.when.holds(asked)) and self._takes(play, number, asked):
                return play
        default = self.script.default
        return default if isinstance(default, Turn) else default(asked) or echo(asked)

    def _takes(self, turn: Turn, number: int, asked: Asked) -> bool:
        if turn.times is None:
            return True
        key = ("" if self.script.shared else asked.conversation, number)
        if self._used.get(key, 0) >= turn.times:
            return False
        self._used[key] = self._used.get(key, 0) + 1
        return True
