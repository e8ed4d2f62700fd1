"""Whether a run is stuck: a decision from what can be seen of it. Whoever asks acts on the answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a run may take; the settings give it."""

    #: the whole run
    run_ms: int
    #: without anything new
    silence_ms: int
    #: the age of a heartbeat from which its runner counts as hung
    heartbeat_ms: int
    #: for a run that was interrupted to end in good order
    grace_ms: int = 10_000


@dataclass(frozen=True, kw_only=True)
class Signs:
    """What is seen of a run at one moment, in milliseconds."""

    #: since it began
    running_ms: int
    #: since the runner last showed that it lives, or sat down
    heartbeat_ms: int
    #: since it last wrote or showed something
    silent_ms: int
    #: what the tool calls under way asked for, the longest of them; 0: none asked
    tool_ms: int = 0
    #: it waits for a person
    questions: bool = False
    #: since it was told to end; None: it was not
    interrupted_ms: int | None = None


@dataclass(frozen=True)
class Fine:
    """Let it go on."""


@dataclass(frozen=True)
class Interrupt:
    """Tell it to end its turn now, in good order."""

    reason: str


@dataclass(frozen=True)
class Kill:
    """End its whole tree."""

    reason: str


def decide(signs: Signs, patience: Patience) -> Fine | Interrupt | Kill:
    """A run with an open question is neither idle nor late, however long it takes; a hung runner is hung all the same.

    Interrupted once, a run has `grace_ms`; then it is killed.
    """
    if signs.heartbeat_ms > patience.heartbeat_ms:
        return Kill(f"the runner hung: its last heartbeat is {signs.heartbeat_ms // 1000} s old")
    if signs.interrupted_ms is not None:
        if signs.interrupted_ms > patience.grace_ms:
            return Kill(f"it did not end within {patience.grace_ms // 1000} s after it was told to")
        return Fine()
    if signs.questions:
        return Fine()
    if signs.running_ms >= patience.run_ms:
        return Interrupt(f"the run did not end within {patience.run_ms / 1000:g} s")
    # a tool that said how long it may take has that long, and then as much as any other silence
    if signs.silent_ms > patience.silence_ms + signs.tool_ms:
        return Interrupt(f"the run showed nothing new for {signs.silent_ms // 1000} s")
    return Fine()
