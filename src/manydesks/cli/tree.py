"""Trees in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Node:
    """A line and what hangs below it."""

    label: str
    #: the word of a state machine after the label, the part of the line that may be painted
    state: str = ""
    rest: str = ""
    children: list[Node] = field(default_factory=list)


def render(root: Node) -> Iterator[tuple[str, Node]]:
    """(branches, node) of each line, parents first. Without recursion: a long chain of hand-offs is a deep tree."""
    stack: list[tuple[str, str, Node]] = [("", "", root)]
    while stack:
        prefix, below, node = stack.pop()
        yield prefix, node
        last = len(node.children) - 1
        for at in range(last, -1, -1):
            branch, trunk = ("└─ ", "   ") if at == last else ("├─ ", "│  ")
            stack.append((below + branch, below + trunk, node.children[at]))
