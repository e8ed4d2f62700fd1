"""Whether an agent goes round in circles: the same tool calls, with the same arguments, again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

#: rounds of up to this many calls are recognised: call, look, call, look, …
LONGEST_ROUND = 3

#: a tool and the digest of its arguments
Call = tuple[str, str]


class Repetition:
    """The calls of one run. Calls that differ in between are work, not a circle."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: deque[Call] = deque(maxlen=most * LONGEST_ROUND)

    def called(self, tool: str, digest: str) -> str | None:
        """One more call; why the run has to end, None while it need not."""
        self._calls.append((tool, digest))
        calls = tuple(self._calls)
        for size in range(1, LONGEST_ROUND + 1):
            if _turns(calls, size) >= self._most:
                tools = ", ".join(dict.fromkeys(tool for tool, _ in calls[-size:]))
                return f"the agent went round in circles: it called {tools} {self._most} times with the same arguments"
        return None


def _turns(calls: Sequence[Call], size: int) -> int:
    """How often the last round of this size stands at the end, one after the other."""
    last, turns = calls[-size:], 0
    while len(last) == size and calls[len(calls) - (turns + 1) * size : len(calls) - turns * size] == last:
        turns += 1
        if (turns + 1) * size > len(calls):
            break
    return turns
