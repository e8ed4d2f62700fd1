"""The vocabulary of the ledger: each kind once, with the fields of its `data`.

Kinds and fields are added, never renamed; a reader ignores what it does not know. Every event also carries `seq`, `at`,
and, where they apply, `trace`, `parent`, `message`, `run`, `session`, `agent` and `body`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of event."""

    #: when it is written
    when: str
    #: what `data` may hold
    fields: frozenset[str]


def _kind(when: str, fields: str = "") -> Kind:
    return Kind(when=when, fields=frozenset(fields.split()))


KINDS: Mapping[str, Kind] = {
    "processor_start": _kind("the host is ready", "version incarnation recovered"),
    "processor_stop": _kind("the host has drained", "version incarnation"),
    "message_enqueued": _kind(
        "a message was stored", "message_id channel conversation sender kind hop from_agent priority not_before"
    ),
    "agent_routed": _kind("an address was resolved", "by team"),
    "message_held": _kind("a message left its lane, or never entered it", "reason detail"),
    "message_released": _kind("a held message entered its lane", "actor"),
    "message_received": _kind("a message was claimed", "fence attempt batch queue_ms"),
    "chain_step_start": _kind("an agent begins a run", "provider model attempt"),
    "chain_step_done": _kind("a run has ended", "outcome reason duration_ms attempt"),
    "tool_called": _kind("an agent called a tool", "tool call digest"),
    "tool_done": _kind("a tool answered", "tool call duration_ms ok"),
    "run_usage": _kind("with the end of a run", "input output cache_read cache_write cost_usd model"),
    "chain_handoff": _kind("an agent addressed a mate", "from to message_id hop"),
    "message_completed": _kind("a message was answered", "attempt"),
    "message_retried": _kind("an attempt failed; there will be another", "attempt class reason next_at"),
    "message_returned": _kind("back to the lane, uncounted", "attempt reason"),
    "message_dead": _kind("no attempt is left, or none would help", "attempt class reason"),
    "message_requeued": _kind("a dead message was given new attempts", "actor edited"),
    "message_cancelled": _kind("a message was cancelled, dropped or stopped", "reason actor"),
    "output_discarded": _kind("a desk wrote under a claim that is over", "fence current what out_id"),
    "response_ready": _kind("a response was stored for delivery", "response channel part operation bytes files"),
    "response_delivered": _kind("the channel has it", "response attempt receipt"),
    "response_retried": _kind("a delivery failed; there will be another", "response attempt reason next_at"),
    "response_unsure": _kind("the host died between sending and the receipt", "response attempt reason"),
    "response_dead": _kind("a delivery failed for good", "response attempt reason"),
    "response_withdrawn": _kind("the attempt that wrote it failed before it was sent", "response reason"),
    "question_asked": _kind("an agent asked a person", "question response options expires_at"),
    "question_answered": _kind("a person answered", "question option by"),
    "question_expired": _kind("nobody answered in time", "question"),
    "question_withdrawn": _kind("the message it was asked for ended without it", "question reason"),
    "session_opened": _kind("an agent's thread of work begins", "generation mode"),
    "runner_started": _kind("a runner sat down at the desk", "sandbox"),
    "runner_stopped": _kind("a runner left the desk", "reason"),
    "runner_killed": _kind("a runner was ended by the host", "reason"),
    "agent_added": _kind("an agent was made", "after actor"),
    "agent_paused": _kind("an agent begins no more runs", "actor"),
    "agent_removed": _kind("an agent was removed", "before actor"),
    "agent_resumed": _kind("a paused agent may begin runs again", "actor"),
    "team_added": _kind("a team was made", "after actor"),
    "conversation_added": _kind("a place on a channel was first seen", "after"),
    "conversation_changed": _kind("a conversation was changed", "before after actor"),
    "retention_pruned": _kind("old rows left the store", "events messages responses runs arrivals bodies upto"),
}
