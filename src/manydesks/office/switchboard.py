"""The switchboard: starts channels, knows which are there, and starts again what has failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from manydesks.channels.base import Channel, ChannelDown, ChannelSection, CutOff
from manydesks.channels.registry import Channels
from manydesks.domain.attachment import Attachment
from manydesks.domain.envelope import Accepted, Incoming
from manydesks.domain.errors import ManyDesksError
from manydesks.office.accounts import Account, accounts
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.settings.secrets import load_secrets
from manydesks.store.store import Store

log = logging.getLogger(__name__)

#: how long a channel may take to come up, or to go down
PATIENCE_SECONDS = 60.0
#: before a channel that failed is started again; doubled each time, up to the second
AGAIN_SECONDS, SELDOM_SECONDS = 1.0, 60.0

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

    async def hand_in(self, incoming: Incoming) -> Accepted:
        return await self._hand_in(incoming)

    def down(self, reason: str) -> None:
        self.why = reason
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
        self._tasks: dict[str, asyncio.Task[None]] = {}
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

    async def start(self) -> None:
        """Begin with every channel. Those that are there without settings are up when this returns."""
        for account in self._accounts.values():
            await self._begin(account)

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)

    def take_settings(self, settings: Settings) -> None:
        """They were checked (`accounts`): what is another channel now is stopped, and begun as the settings say."""
        before, self.settings = self._accounts, settings
        self._accounts = accounts(settings, self._channels)
        changed = {line for line in {*before, *self._accounts} if before.get(line) != self._accounts.get(line)}
        if changed:
            task = asyncio.create_task(self._exchange(changed))
            self._tasks[""] = task  # kept from the garbage collector; it ends by itself
            task.add_done_callback(lambda done: self._tasks.pop("", None))

    async def _exchange(self, lines: set[str]) -> None:
        for line in lines:
            if (task := self._tasks.pop(line, None)) is not None:
                task.cancel()
                await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
            self.why.pop(line, None)
            if (account := self._accounts.get(line)) is not None:
                await self._begin(account)
        self._changed()

    async def _begin(self, account: Account) -> None:
        line = account.line
        if not account.section.enabled:
            self.why[line] = f"the channel '{line}' is switched off (channels.{account.channel.name}.enabled)"
            return
        first = asyncio.Event()
        self._tasks[line] = asyncio.create_task(self._keep_up(account, first))
        if account.channel.by_itself:
            await first.wait()

    async def _keep_up(self, account: Account, first: asyncio.Event) -> None:
        line, wait = account.line, AGAIN_SECONDS
        while True:
            seat = Seat(account, self._home, self._hand_in, self._show, account.instance, account.section)
            channel: Channel | None = None
            try:
                channel = account.channel.load(seat)
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await channel.start()
                self.up[line] = Connected(account=account, channel=channel)
                said = self.why.pop(line, None)
                if said is not None or not account.channel.by_itself:
                    await self._note("channel_up", line)
                wait = AGAIN_SECONDS
                first.set()
                self._changed()
                await seat.lost.wait()
                reason = seat.why
            except TimeoutError:
                reason = f"it did not come up within {PATIENCE_SECONDS:g} s"
            except (ChannelDown, ManyDesksError) as error:
                reason = str(error)
            except Exception as error:
                log.exception("The channel '%s' failed", line, extra={"action": "channel_failed"})
                reason = f"{type(error).__name__}: {error}"
            finally:
                self.up.pop(line, None)
                if channel is not None:
                    await self._end(line, channel)
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
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await channel.stop()
        except Exception as error:
            # a stranger's code: its end must not keep the office from its own, and the log says what it was
            extra = {"action": "channel_stop_failed"}
            log.warning("The channel '%s' did not stop well", line, exc_info=error, extra=extra)

    async def _note(self, kind: str, line: str, **more: str) -> None:
        try:
            await self._store.note(kind, channel=line, **more)
        except ManyDesksError as error:
            log.error("%s", error, extra={"action": "store_failed"})
