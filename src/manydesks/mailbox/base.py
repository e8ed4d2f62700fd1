"""What both sides of a mailbox promise, whatever it is made of.

One session has one mailbox. The host writes one side and the desk the other; each reads the other's side. Every call
opens, works and closes: nothing is held between calls, so a side may vanish at any moment. Calls block (files, locks):
from an event loop they go through a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from manydesks.domain.mail import Ack, Collected, Content, Control, Delivery, Inbound, Outbound, Step, Written


class HostSide(Protocol):
    """The office's side. Raises `MailboxTimeout` when the desk blocks it for over 2 s; then nothing was written."""

    def prepare(self) -> None:
        """Make the mailbox, or bring an older one up to date. May be called again at any time."""

    def put(self, rows: Sequence[Inbound]) -> None:
        """Give messages to the desk, all or none.

        A row replaces the one with the same id unless that one has a newer fence, and keeps its `seq`.
        """

    def withdraw(self, fence: int) -> None:
        """The claims up to this fence are over: what is left of them is never seen by a desk that has not begun it."""

    def control(self, verb: str, data: Content) -> None:
        """Say a word to the runner that runs now; one that starts later does not hear it."""

    def delivered(self, out_id: str, receipt: str | None, status: str, at: int) -> None:
        """Say what became of an outbound row."""

    def collect(self, epoch: str | None, after: int, *, limit: int = 500) -> Collected | None:
        """Everything that the desk wrote after the cursor, at most about `limit` rows; None when there is nothing yet.

        Another epoch than the given one is read from its start. Rows of one write of the desk come in one page unless
        that write alone is larger than a page. Not promised: that rows belong to the current fence, or that ids are
        new; the store decides. Raises `MailboxRefused` when any of it is not what a desk may write.
        """

    def last_heartbeat(self) -> int | None:
        """When the runner last touched its heartbeat, milliseconds UTC; it is the desk's word and proves nothing."""


class DeskSide(Protocol):
    """The runner's side; one process, any number of its threads."""

    def open(self) -> None:
        """Make the desk's side, or repair what a killed runner left. A damaged one is set aside for a new epoch."""

    def waiting(self) -> list[Inbound]:
        """Due messages that are neither acked under their fence nor withdrawn, oldest first.

        A fence ends with its first failed ack: its other messages are the host's again and are not returned.
        """

    def look(self, after: int) -> tuple[list[Control], list[Inbound]]:
        """`controls` and then `waiting`, as if each was called."""

    def write(
        self,
        *,
        messages: Sequence[Outbound] = (),
        acks: Sequence[Ack] = (),
        steps: Sequence[Step] = (),
        state: Mapping[str, str | None] | None = None,
    ) -> Written:
        """Write all of it or nothing. A `state` value of None removes its key.

        Raises `BadInput` for what the host would refuse, and for a second ack of one message under one fence.
        """

    def controls(self, after: int) -> list[Control]:
        """The host's words after this number, oldest first."""

    def find(self, seq: int) -> str | None:
        """The id of the message with this number, given to the desk or written by it; None: there is none."""

    def delivery(self, out_id: str) -> Delivery | None:
        """What the host said of this row; None while it is on its way."""

    def heartbeat(self) -> None:
        """Show that the runner lives."""
