"""Hooks: functions of your own that see messages on their way in and out, and events when they have happened.

A plugin is a file in the home's `plugins/`, or a module that an installed package announces in the group
`manydesks.hooks`. It runs in a process of its own, never in the office's.
"""

from __future__ import annotations

from manydesks.office.hooks.base import Answer, Event, Message, Refused, incoming, on, outgoing

__all__ = ["Answer", "Event", "Message", "Refused", "incoming", "on", "outgoing"]
