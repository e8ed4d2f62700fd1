"""A mailbox without files, for tests of whatever sits on either side of one; it passes the same contract suite."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Ack, Collected, Content, Control, Delivery, Inbound, Outbound, Step, Written
from manydesks.mailbox import validation


class MemoryMailbox:
    """Both sides of one session: `host` is a `HostSide`, `desk` a `DeskSide`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.lock = threading.RLock()
        self.inbound: dict[str, Inbound] = {}
        self.withdrawn: set[tuple[str, int]] = set()
        self.words: list[Control] = []
        self.deliveries: dict[str, Delivery] = {}
        self.epoch: str | None = None
        self.writes: list[tuple[tuple[Step, ...], tuple[Outbound, ...], tuple[Ack, ...]]] = []
        self.state: dict[str, str] = {}
        self.last_seq = 0
        self.last_odd = -1
        self.beat: int | None = None
        self.host = MemoryHost(self)
        self.desk = MemoryDesk(self)

    def acks(self) -> list[Ack]:
        return [ack for _, _, acks in self.writes for ack in acks]


class MemoryHost:
    def __init__(self, box: MemoryMailbox) -> None:
        self._box = box

    def prepare(self) -> None:
        """Nothing to make."""

    def put(self, rows: Sequence[Inbound]) -> None:
        box = self._box
        plain = [replace(row, content=_plain(row.content)) for row in rows]
        with box.lock:
            for row in plain:
                known = box.inbound.get(row.id)
                if known is None:
                    box.last_seq += 2
                    box.inbound[row.id] = replace(row, seq=box.last_seq)
                elif row.fence >= known.fence:
                    box.inbound[row.id] = replace(row, seq=known.seq)
                    box.withdrawn.discard((row.id, row.fence))

    def withdraw(self, fence: int) -> None:
        with self._box.lock:
            old = [row for row in self._box.inbound.values() if row.fence <= fence]
            self._box.withdrawn.update((row.id, row.fence) for row in old)

    def control(self, verb: str, data: Content) -> None:
        with self._box.lock:
            self._box.words.append(Control(seq=len(self._box.words) + 1, verb=verb, data=_plain(data)))

    def delivered(self, out_id: str, receipt: str | None, status: str, at: int) -> None:
        with self._box.lock:
            self._box.deliveries[out_id] = Delivery(out_id=out_id, receipt=receipt, status=status, at=at)

    def collect(self, epoch: str | None, after: int, *, limit: int = 500) -> Collected | None:
        box = self._box
        with box.lock:
            if box.epoch is None:
                return None
            if epoch != box.epoch or box.last_odd < after:
                after = 0
            steps: list[Step] = []
            messages: list[Outbound] = []
            acks: list[Ack] = []
            last = after
            for write in box.writes:
                size = sum(map(len, write))
                end = max((row.seq for rows in write for row in rows), default=0)
                if end <= after:
                    continue
                taken = len(steps) + len(messages) + len(acks)
                if taken and taken + size > limit:
                    return self._page(last, steps, messages, acks, more=True)
                steps += write[0]
                messages += write[1]
                acks += write[2]
                last = end
            return self._page(last, steps, messages, acks, more=False)

    def last_heartbeat(self) -> int | None:
        return self._box.beat

    def _page(
        self, last: int, steps: list[Step], messages: list[Outbound], acks: list[Ack], *, more: bool
    ) -> Collected:
        return Collected(
            epoch=self._box.epoch or "",
            last_seq=last,
            messages=tuple(messages),
            acks=tuple(acks),
            steps=tuple(steps),
            state=dict(self._box.state),
            more=more,
        )


class MemoryDesk:
    def __init__(self, box: MemoryMailbox) -> None:
        self._box = box

    def open(self) -> None:
        with self._box.lock:
            self._box.epoch = self._box.epoch or secrets.token_hex(16)

    def waiting(self) -> list[Inbound]:
        box = self._box
        now = box.clock.now()
        with box.lock:
            acked = {(ack.message, ack.fence) for ack in box.acks()}
            ended = {ack.fence for ack in box.acks() if ack.status == "failed"}
            found = [
                row
                for row in box.inbound.values()
                if (row.id, row.fence) not in acked | box.withdrawn
                and row.fence not in ended
                and (row.not_before is None or row.not_before <= now)
            ]
        return sorted(found, key=lambda row: row.seq)

    def look(self, after: int) -> tuple[list[Control], list[Inbound]]:
        return self.controls(after), self.waiting()

    def write(
        self,
        *,
        messages: Sequence[Outbound] = (),
        acks: Sequence[Ack] = (),
        steps: Sequence[Step] = (),
        state: Mapping[str, str | None] | None = None,
    ) -> Written:
        box = self._box
        plain_steps = [replace(row, data=_plain(row.data)) for row in steps]
        plain_messages = [replace(row, content=_plain(row.content)) for row in messages]
        changes = dict(state or {})
        try:
            for step in steps:
                validation.step(step)
            for message in messages:
                validation.outbound(message)
            for ack in acks:
                validation.ack(ack)
            validation.state((key, value) for key, value in changes.items() if value is not None)
        except validation.RowError as error:
            raise BadInput(reason=str(error)) from None
        with box.lock:
            keys = [(ack.message, ack.fence) for ack in (*box.acks(), *acks)]
            ids = [row.id for _, written, _ in box.writes for row in written] + [row.id for row in messages]
            if len(set(keys)) != len(keys) or len(set(ids)) != len(ids):
                raise BadInput(reason="a message id or an ack was written before")
            numbers = iter(range(box.last_odd + 2, box.last_odd + 2 + 2 * (len(steps) + len(messages) + len(acks)), 2))
            numbered_steps = tuple(replace(row, seq=next(numbers)) for row in plain_steps)
            numbered_messages = tuple(replace(row, seq=next(numbers)) for row in plain_messages)
            numbered_acks = tuple(replace(row, seq=next(numbers)) for row in acks)
            box.last_odd += 2 * (len(steps) + len(messages) + len(acks))
            box.writes.append((numbered_steps, numbered_messages, numbered_acks))
            for key, value in changes.items():
                if value is None:
                    box.state.pop(key, None)
                else:
                    box.state[key] = value
        return Written(
            messages=tuple(row.seq for row in numbered_messages),
            acks=tuple(row.seq for row in numbered_acks),
            steps=tuple(row.seq for row in numbered_steps),
        )

    def controls(self, after: int) -> list[Control]:
        with self._box.lock:
            return [word for word in self._box.words if word.seq > after]

    def find(self, seq: int) -> str | None:
        with self._box.lock:
            given = {row.seq: row.id for row in self._box.inbound.values()}
            written = {row.seq: row.id for _, rows, _ in self._box.writes for row in rows}
        return (given | written).get(seq)

    def delivery(self, out_id: str) -> Delivery | None:
        return self._box.deliveries.get(out_id)

    def heartbeat(self) -> None:
        self._box.beat = self._box.clock.now()


def _plain(content: Content) -> dict[str, Any]:
    """Content as it comes out of a file: checked, and no object shared by both sides."""
    try:
        plain: dict[str, Any] = json.loads(validation.pack(content))
    except validation.RowError as error:
        raise BadInput(reason=str(error)) from None
    return plain
