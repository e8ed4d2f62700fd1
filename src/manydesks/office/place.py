"""What the host knows of one session that has, or had, work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from manydesks.desk.base import Desk, Seat
from manydesks.domain.envelope import NOTICES, Claimed, Work
from manydesks.domain.failure import Failure
from manydesks.domain.mail import Inbound
from manydesks.mailbox.inbox import attachments
from manydesks.office.taker import Taker
from manydesks.office.watch import Watch
from manydesks.settings.home import Home
from manydesks.settings.model import Settings

#: a moment after its answer a program may still be writing its own files
SETTLE_MS = 2_000
#: of what a run is saying, so much is kept for whoever watches, in characters
WORDS = 2_000


@dataclass
class Place:
    seat: Seat
    desk: Desk
    #: brings what the desk writes into the store
    taker: Taker
    #: the claim under way
    claimed: Claimed | None = None
    #: what is seen of its run
    watch: Watch | None = None
    #: why the run was told to end; it is over as soon as its runner has left
    verdict: Failure | None = None
    #: rings when the run takes too long
    limit: asyncio.TimerHandle | None = None
    #: the inbox holds nothing of claims that are over
    cleared: bool = False
    #: somebody is on the way to take what was written
    belled: bool = False
    #: somebody looks at how it goes
    judged: bool = False
    #: messages of the claim are being written into its inbox
    handing: bool = False
    #: the runner's heartbeat before the run was handed over: once there is another one, it listens
    beat: int | None = None
    #: the part of the settings that its desk was furnished by
    terms: tuple[object, ...] = ()

    #: the end of what its run has said so far, for whoever watches; no row of any kind holds it
    words: str = ""
    #: when its last run was over, monotonic milliseconds
    freed_at: int = 0

    def begin(self, claimed: Claimed, watch: Watch) -> None:
        """A new run. It may come before the end of the last one was noted here, whose verdict is not its own."""
        self.free(self.freed_at)
        self.claimed, self.watch = claimed, watch

    def hear(self, text: str) -> None:
        """A piece of an answer that is still being written."""
        self.words = (self.words + text)[-WORDS:]

    def listens(self) -> bool:
        """Whether its runner has begun with the run, so that it hears what is said to it. Blocks."""
        return self.desk.mailbox.last_heartbeat() not in (None, self.beat)

    def is_left(self, now: int) -> bool:
        """Nobody sits there, nothing is under way, and has not been for a moment: nothing is lost by forgetting it."""
        busy = self.claimed is not None or self.desk.seated or self.belled or self.judged
        return not busy and now - self.freed_at >= SETTLE_MS

    def free(self, now: int) -> None:
        """The run is over."""
        self.freed_at = now
        self.claimed = self.watch = self.verdict = None
        self.handing = False
        self.words = ""
        if self.limit is not None:
            self.limit.cancel()
            self.limit = None


def to_leave(places: Iterable[Place], *, most: int, now: int, inside: bool = False) -> list[Place]:
    """Whose idle runners have to go, so that at most `most` stay warm: the longest idle first.

    Of those in processes of their own, or of those inside the host.
    """
    warm = [
        place
        for place in places
        if place.claimed is None and (place.desk.inside and place.desk.seated if inside else place.desk.keeps_process)
    ]
    surplus = sorted(warm, key=lambda place: place.freed_at)[: max(0, len(warm) - most)]
    return [place for place in surplus if now - place.freed_at >= SETTLE_MS]


def terms_of(settings: Settings) -> tuple[object, ...]:
    """What a desk is furnished by: a session whose desk was furnished by other settings gets a new one."""
    upstreams, idle = settings.all_upstreams(), settings.runner.idle_seconds
    return settings.sandbox, settings.providers, upstreams, settings.proxy, idle, settings.office.log_level


def seat_of(claimed: Claimed, home: Home) -> Seat:
    return Seat(
        session=claimed.session,
        agent=claimed.agent,
        agent_name=claimed.agent_name,
        provider=claimed.provider,
        model=claimed.model,
        folder=home.session(claimed.agent, claimed.session),
        workspace=home.workspace(claimed.agent),
        sandbox=claimed.sandbox,
        options=claimed.options,
    )


def inbound(run: str, fence: int, work: Work) -> Inbound:
    """What the agent may see of a message: content, never routing."""
    content = work.content or {}
    has_own = bool(content.keys() - {NOTICES})
    return Inbound(
        id=work.message_id,
        run=run,
        fence=fence,
        kind=work.kind,
        at=work.created_at,
        tries=work.attempt,
        content=_chat(work) if work.kind == "chat" or not has_own else content,
    )


def _chat(work: Work) -> dict[str, Any]:
    said = {
        "sender": work.from_agent or work.sender,
        "senderId": work.sender_id,
        "text": work.text,
        "isFromMe": False,
        **(work.content or {}),
    }
    return {**said, "attachments": attachments(work.message_id, work.files)} if work.files else said
