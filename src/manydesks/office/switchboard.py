"""The switchboard: starts channels, knows which are there, and starts again what has failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from manydesks.channels.base import Channel, ChannelDown, ChannelSection, CutOff, Line
from manydesks.channels.registry import Channels
from manydesks.domain.attachment import Attachment
from manydesks.domain.cleaning import ID, NAME, clean, is_clean, sentence
from manydesks.domain.envelope import Accepted, Incoming
from manydesks.domain.errors import BadInput, ManyDesksError
from manydesks.office.accounts import Account, accounts
from manydesks.office.stranger import GRACE_SECONDS, TooLate, said, within, words_of
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.settings.secrets import load_secrets
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: how long a channel may take to come up, and to go down
PATIENCE_SECONDS = 60.0
STOP_SECONDS = 5.0
#: before a channel that failed is started again; doubled each time, up to the second
AGAIN_SECONDS, SELDOM_SECONDS = 1.0, 60.0

#: of an arrival: what the platform finds a place or a person by
IDS = ("platform_id", "thread", "sender_id")

HandIn = Callable[[Incoming], Awaitable[Accepted]]


@dataclass
class Seat:
    """One account, from the office's side; for its channel it is a `Line`."""

    account: Account
    home: Home
    _hand_in: HandIn
    _show: Callable[[str], None]
    instance: str = ""
    section: ChannelSection = field(default_factory=ChannelSection)
    #: set when the channel says that it is down
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    #: the channel was stopped: one that goes on all the same is heard no more
    over: bool = False

    async def hand_in(self, incoming: Incoming) -> Accepted:
        if self.over:
            raise ChannelDown("the office has stopped this channel; another one may be in its place")
        return await self._hand_in(_clean(incoming))

    def down(self, reason: str) -> None:
        self.why = sentence(str(reason))
        self.lost.set()

    def secret(self, name: str) -> str | None:
        return load_secrets(self.home).get(name)

    def path(self, file: Attachment) -> Path:
        return self.home.path / file.path

    def show(self, line: str) -> None:
        self._show(line)


@dataclass(frozen=True, kw_only=True)
class Connected:
    """A channel that is there."""

    account: Account
    channel: Channel


class Switchboard:
    """One for each host. What is not up, and not about to come up for the first time, is `why` it is not."""

    def __init__(
        self,
        store: Store,
        home: Home,
        settings: Settings,
        *,
        hand_in: HandIn,
        show: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
        channels: Channels | None = None,
    ) -> None:
        """Raises `SettingsError` for channels that cannot be as the settings say."""
        self._store = store
        self._home = home
        self._channels = channels or Channels()
        self._hand_in = hand_in
        self._show = show
        self._changed = changed
        self._accounts = accounts(settings, self._channels)
        #: by line: who keeps its channel up, and who exchanges it
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._exchanging: dict[str, asyncio.Task[None]] = {}
        self.settings = settings
        #: by line: those that take what is sent
        self.up: dict[str, Connected] = {}
        #: by line: why one is not there
        self.why: dict[str, str] = {}

    def rules(self) -> Mapping[str, CutOff]:
        """By line, what becomes of a sending that was cut off."""
        return {line: account.rule for line, account in self._accounts.items()}

    def fetched(self) -> dict[str, Account]:
        """Those whose clients come by themselves."""
        return {line: account for line, account in self._accounts.items() if account.channel.fetched}

    def coming(self) -> set[str]:
        """Those that are on their way up for the first time: what is for them just waits."""
        return {line for line in self._tasks if line not in self.up and line not in self.why}

    def max_ages(self) -> dict[str, int]:
        """By line, in milliseconds."""
        return {line: account.max_age_ms(self.settings) for line, account in self._accounts.items()}

    def changed(self) -> None:
        """Something has changed for those who deliver: they look again soon."""
        self._changed()

    async def start(self) -> None:
        """Begin with every channel. Those that are there without settings are up when this returns."""
        for account in self._accounts.values():
            first = self._begin(account)
            if account.channel.by_itself:
                await first.wait()

    async def stop(self) -> None:
        """Bounded, whatever channels do: each has its time, all side by side."""
        tasks = [*self._exchanging.values(), *self._tasks.values()]
        for task in tasks:
            # one that is on its way down already shall get there
            if not task.cancelling():
                task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS + 3 * GRACE_SECONDS)
        self._tasks.clear()

    def take_settings(self, settings: Settings) -> None:
        """They were checked (`accounts`): what is another channel now is stopped, and begun as the settings say."""
        before, self.settings = self._accounts, settings
        self._accounts = accounts(settings, self._channels)
        changed = {line for line in {*before, *self._accounts} if before.get(line) != self._accounts.get(line)}
        for line in changed:
            # one at a time: who is at it already finds the last wish when the old channel is down
            if line not in self._exchanging:
                self._exchanging[line] = asyncio.create_task(self._exchange(line))

    async def _exchange(self, line: str) -> None:
        if (task := self._tasks.get(line)) is not None:
            task.cancel()
            await asyncio.wait({task})  # which is bounded by itself
            del self._tasks[line]
        # from here on without a pause: a wish that comes later begins another exchange
        del self._exchanging[line]
        self.why.pop(line, None)
        if (account := self._accounts.get(line)) is not None:
            self._begin(account)
        self._changed()

    def _begin(self, account: Account) -> asyncio.Event:
        """Set when it is up, or down, or off, for the first time."""
        line, first = account.line, asyncio.Event()
        if account.section.enabled:
            self._tasks[line] = asyncio.create_task(self._keep_up(account, first))
        else:
            self.why[line] = f"the channel '{line}' is switched off (channels.{account.channel.name}.enabled)"
            first.set()
        return first

    async def _keep_up(self, account: Account, first: asyncio.Event) -> None:
        line, wait = account.line, AGAIN_SECONDS
        late = f"it did not come up within {PATIENCE_SECONDS:g} s"
        while True:
            seat = Seat(account, self._home, self._hand_in, self._show, account.instance, account.section)
            channel: Channel | None = None
            try:
                begun = {"late": late, "name": f"the start of {line}"}
                channel = await within(PATIENCE_SECONDS, partial(_loaded, account, seat), **begun)
                await within(PATIENCE_SECONDS, channel.start, **begun)
                self.up[line] = Connected(account=account, channel=channel)
                was_down = self.why.pop(line, None) is not None
                if was_down or not account.channel.by_itself:
                    await self._note("channel_up", line)
                wait = AGAIN_SECONDS
                first.set()
                self._changed()
                await seat.lost.wait()
                reason = seat.why
            except (ChannelDown, ManyDesksError, TooLate) as error:
                reason = said(error)
            except Exception as error:
                log.exception("The channel '%s' failed", line, extra={"action": "channel_failed"})
                reason = words_of(error)
            finally:
                self.up.pop(line, None)
                if channel is not None:
                    await self._end(line, channel)
                seat.over = True
            first.set()
            sentence = f"the channel '{line}' is down: {reason}"
            if self.why.get(line) != sentence:
                self.why[line] = sentence
                log.warning("The channel '%s' is down: %s", line, reason, extra={"action": "channel_down"})
                await self._note("channel_down", line, reason=reason)
            self._changed()
            await asyncio.sleep(wait)
            wait = min(wait * 2, SELDOM_SECONDS)

    async def _end(self, line: str, channel: Channel) -> None:
        """Bounded. Who is told to go while a channel goes down waits for that; told twice, for nothing."""
        ending = asyncio.create_task(self._stop(line, channel))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait({ending})
            raise

    async def _stop(self, line: str, channel: Channel) -> None:
        try:
            late = f"it did not stop within {STOP_SECONDS:g} s"
            await within(STOP_SECONDS, channel.stop, late, name=f"the stop of {line}")
        except Exception as error:
            # a stranger's code: its end must not keep the office from its own, and the log says what it was
            extra = {"action": "channel_stop_failed"}
            log.warning("The channel '%s' did not stop well", line, exc_info=error, extra=extra)

    async def _note(self, kind: str, line: str, **more: str) -> None:
        try:
            await self._store.note(kind, channel=line, **more)
        except ManyDesksError as error:
            log.error("%s", error, extra={"action": "store_failed"})


async def _loaded(account: Account, line: Line) -> Channel:
    return account.channel.load(line)


def _clean(incoming: Incoming) -> Incoming:
    """A name is cut; an id that was cut would be another's, so it is refused."""
    for name in IDS:
        value = getattr(incoming, name)
        if not isinstance(value, str) or not is_clean(value):
            raise BadInput(f"The message's {name} is at most {ID} characters of text, without control characters.")
    return replace(incoming, sender=clean(str(incoming.sender), NAME))
