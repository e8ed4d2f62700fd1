"""What the host knows of one session that has, or had, work."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from manydesks.desk.base import Desk, Seat
from manydesks.domain.envelope import Claimed, Work
from manydesks.domain.failure import Failure
from manydesks.domain.mail import Inbound
from manydesks.office.taker import Taker
from manydesks.office.watch import Watch
from manydesks.settings.home import Home


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
    #: the inbox holds nothing of the claims of earlier hosts
    cleared: bool = False
    #: somebody is on the way to take what was written
    belled: bool = False
    #: somebody looks at how it goes
    judged: bool = False

    def free(self) -> None:
        """The run is over."""
        self.claimed = self.watch = self.verdict = None
        if self.limit is not None:
            self.limit.cancel()
            self.limit = None


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
    return Inbound(
        id=work.message_id,
        run=run,
        fence=fence,
        kind=work.kind,
        at=work.created_at,
        tries=work.attempt,
        content=work.content
        or {
            "sender": work.from_agent or work.sender,
            "senderId": work.sender_id,
            "text": work.text,
            "isFromMe": False,
        },
    )
