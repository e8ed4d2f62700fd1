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
    "processor_start": _kind("the host is ready", "version incarnation recovered lineage"),
    "processor_stop": _kind("the host has drained", "version incarnation"),
    "office_paused": _kind("no agent begins another run", "actor"),
    "office_resumed": _kind("runs begin again", "actor"),
    "settings_changed": _kind("a changed settings file was taken", "before after next_start"),
    "settings_refused": _kind("a changed settings file is not valid; the old settings stay", "reason"),
    "message_enqueued": _kind(
        "a message was stored", "message_id channel conversation sender kind hop from_agent priority not_before"
    ),
    "agent_routed": _kind("an address was resolved", "by team"),
    "message_held": _kind("a message left its lane, or never entered it", "reason detail ref until actor"),
    "message_released": _kind("a held message entered its lane", "actor reason ref outcome"),
    "message_received": _kind("a message was claimed", "fence attempt batch queue_ms"),
    "chain_step_start": _kind("an agent begins a run", "provider model attempt"),
    "chain_step_done": _kind("a run has ended", "outcome reason duration_ms attempt"),
    "tool_called": _kind("an agent called a tool", "tool call digest"),
    "tool_done": _kind("a tool answered", "tool call duration_ms ok"),
    "run_usage": _kind("with the end of a run", "input output cache_read cache_write cost_usd model"),
    "chain_handoff": _kind("an agent addressed a mate", "from to message_id hop"),
    "chatroom_posted": _kind("somebody said something in a team's room", "team from post"),
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
    "response_withdrawn": _kind("it will not be sent", "response reason actor"),
    "response_held": _kind("the channel of a response is not there", "response reason"),
    "response_released": _kind("a response waits for its turn again", "response reason actor before"),
    "response_expired": _kind("a response was not delivered in time", "response reason"),
    "channel_up": _kind("a channel is there", "channel"),
    "channel_down": _kind("a channel could not be started, or has failed", "channel reason"),
    "question_asked": _kind("an agent asked a person", "question response options expires_at"),
    "question_answered": _kind("a person answered", "question option by"),
    "question_expired": _kind("nobody answered in time", "question"),
    "question_withdrawn": _kind("the message it was asked for ended without it", "question reason"),
    "budget_reserved": _kind("a run began under a cap", "day usd tokens runs"),
    "budget_settled": _kind("such a run ended, and this is what it used; null: not known", "day usd tokens runs"),
    "budget_exceeded": _kind("a cap leaves no room for a run", "scope subject day unit amount spent cap"),
    "budget_raised": _kind("the owner allowed as much again as a cap", "scope subject day"),
    "session_opened": _kind("an agent's thread of work begins", "generation mode"),
    "session_closed": _kind("an agent's thread of work is over", "generation reason actor"),
    "session_reset": _kind("the next generation of a session took over what waited", "generation before moved actor"),
    "runner_started": _kind("a runner sat down at the desk", "sandbox"),
    "runner_stopped": _kind("a runner left the desk", "reason"),
    "runner_killed": _kind("a runner was ended by the host", "reason"),
    "agent_added": _kind("an agent was made", "after actor"),
    "agent_changed": _kind("an agent was changed", "before after actor"),
    "agent_paused": _kind("an agent begins no more runs", "actor reason"),
    "agent_removed": _kind("an agent was removed", "before actor"),
    "agent_resumed": _kind("a paused agent may begin runs again", "actor"),
    "team_added": _kind("a team was made", "after actor"),
    "team_changed": _kind("a team was changed", "before after actor"),
    "team_removed": _kind("a team was removed", "before actor"),
    "conversation_added": _kind("a place on a channel was first seen", "after"),
    "conversation_changed": _kind("a conversation was changed", "before after actor"),
    "api_changed": _kind("a change was made through the API, in the same transaction", "method path address"),
    "hook_failed": _kind(
        "a plugin could not be loaded, or a hook failed and was skipped; at most one a minute for each, and its last",
        "plugin hook reason times",
    ),
    "retention_pruned": _kind("old rows left the store", "events messages responses runs arrivals bodies upto"),
    "body_erased": _kind("a text was forgotten; what named it names an empty one", "actor quoted_in"),
    "backup_made": _kind("a backup was made of the office as it was at that event", "seq bytes secrets lake left_out"),
    "office_restored": _kind(
        "the office was put back from a backup, and goes on from its last event under a new lineage",
        "backup_seq made_at made_by lineage before",
    ),
}
