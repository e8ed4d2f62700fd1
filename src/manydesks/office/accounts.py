"""Which channels the office has, and with which accounts: the settings, as the channels themselves read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manydesks.channels.base import ChannelSection, CutOff, Descriptor
from manydesks.channels.registry import Channels
from manydesks.domain.envelope import line_of
from manydesks.domain.errors import SettingsError
from manydesks.domain.ids import is_name
from manydesks.settings.model import Settings
from manydesks.settings.problems import section_of, unknown

INSTANCES = "instances"
HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class Account:
    """A channel with the settings of one account."""

    channel: Descriptor
    #: empty: the channel's own section
    instance: str
    section: ChannelSection

    @property
    def line(self) -> str:
        return line_of(self.channel.name, self.instance)

    @property
    def rule(self) -> CutOff:
        return self.channel.rule(self.section)

    def max_age_ms(self, settings: Settings) -> int:
        return round((self.section.max_age_hours or settings.delivery.max_age_hours) * HOUR_MS)


def accounts(settings: Settings, channels: Channels | None = None) -> dict[str, Account]:
    """By line. `SettingsError` for a section of a channel that there is not, or that the channel does not take."""
    known = channels or Channels()
    for name in settings.channels:
        if name not in known.names():
            raise SettingsError(reason=f"{unknown(name, known.names(), 'channel')}; nothing was changed.")
    found: dict[str, Account] = {}
    for name in known.names():
        channel = known.get(name)
        if not channel.by_itself and name not in settings.channels:
            continue
        values = dict(settings.channels.get(name, {}))
        for instance, own in _instances(channel, values.pop(INSTANCES, None)).items():
            where = f"channels.{name}" + (f".{INSTANCES}.{instance}" if instance else "")
            section = section_of(channel.section, where, {**values, **own})
            account = Account(channel=channel, instance=instance, section=section)
            found[account.line] = account
    return found


def _instances(channel: Descriptor, given: Any) -> Mapping[str, Mapping[str, Any]]:
    if given is None:
        return {"": {}}
    where = f"[channels.{channel.name}.{INSTANCES}]"
    if not channel.instances:
        raise SettingsError(reason=f"{where}: {channel.name} has one account only; nothing was changed.")
    if not isinstance(given, dict) or not all(is_name(name) and isinstance(own, dict) for name, own in given.items()):
        rule = "a table for each account, named by 1 to 32 lowercase letters, digits, and _ - inside"
        raise SettingsError(reason=f"{where} must be {rule}; nothing was changed.")
    return given
