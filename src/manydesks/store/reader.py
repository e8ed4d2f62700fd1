"""Read-only views of the office's state, for every surface. Short reads: they never hold the writer up."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manydesks.domain.budget import Budget
from manydesks.domain.errors import LedgerPruned, UnknownMessage
from manydesks.domain.states import MESSAGE_ENDED, RESPONSE_ENDED, MessageState, ResponseState, word
from manydesks.store import outgoing, overview, pages, usage, waits
from manydesks.store.bodies import shown
from manydesks.store.database import named_errors, open_reader
from manydesks.store.listing import HOW_MANY_WAIT, LISTED, WAITS_FOR, listing
from manydesks.store.migrations import OFFICE
from manydesks.store.questions import OPEN, listed
from manydesks.store.restored import LINEAGE
from manydesks.store.retention import PRUNED
from manydesks.store.wake import PREFIX, Listener

AGENTS = """
select a.id, a.name, a.provider, a.model, a.workspace, a.sandbox, a.options, a.concurrency, a.budget, a.reaches,
  (select json_group_array(team order by team) from team_members where agent = a.id), a.paused,
  case when a.paused >= 2 then a.pause_reason end,
  coalesce((select n from counters where scope = 'messages' and agent = a.id and state = 0), 0),
  coalesce((select n from counters where scope = 'messages' and agent = a.id and state = 1), 0)
from agents a where a.removed_at is null order by a.id
"""
TEAMS = """
select t.id, t.name, t.leader, (select json_group_array(agent order by agent) from team_members where team = t.id)
from teams t order by t.id
"""
POSTS = f"""
select c.id, c.from_agent, c.sender, {shown("b")}, c.created_at from chat_messages c join bodies b on b.id = c.body
where c.team_id = ? and c.id > ? order by c.id desc limit ?
"""
MESSAGE = (
    "message_id", "parent", "agent", "from_agent", "sender", "text", "status", "hop", "created_at", "retry_count",
    "last_error", "hold_reason", "state", "channel", "trace", "files", "updated_at",
)  # fmt: skip
MESSAGES = f"select {', '.join(MESSAGE)} from messages_text where"
RUNS = """
select r.id, r.attempt, r.outcome, r.reason, r.started_at, r.ended_at, r.input_tokens, r.output_tokens, r.cost_usd,
  r.message, (select count(*) from run_messages where run = r.id)
from run_messages m join runs r on r.id = m.run where m.message = ? order by r.fence
"""
RESPONSE = (
    "id", "status", "text", "channel", "operation", "created_at", "acked_at", "last_error", "files", "metadata",
    "agent",
)  # fmt: skip
RESPONSES = f"select {', '.join(RESPONSE)} from responses_text where message_id = ? order by id"
#: what the run had said to another message of it when this one ended; `outbound` is the condition of the index
TOGETHER = f"""
select {", ".join(RESPONSE)}, message_id, trace from responses_text
where run = ?1 and outbound is not null and message_id <> ?2 and operation in ('message', 'card') and created_at <= ?3
order by id desc limit 1
"""
RUN = """
select id, agent, session, fence from runs where id = ?1
union all
select r.id, r.agent, r.session, r.fence from run_messages m join runs r on r.id = m.run where m.message = ?1
order by fence desc limit 1
"""
TOLD = """
select e.seq, e.at, e.kind, e.trace, e.parent, e.message, e.run, e.session, e.agent, b.text, e.data
from events e left join bodies b on b.id = e.body where e.seq > ?
"""
EVENTS = "select seq, at, kind, trace, parent, message, run, session, agent, data from events where seq > ?"


class Reader:
    """One read-only connection; not for use by several threads at once."""

    def __init__(self, path: Path, *, sockets: Path) -> None:
        self.path = path
        self._db = open_reader(path)
        try:
            with named_errors(path):
                OFFICE.refuse_foreign(self._db, str(path))
                OFFICE.refuse_newer(self._db, str(path))
                OFFICE.refuse_older(self._db, str(path))
        except BaseException:
            self._db.close()
            raise
        self._sockets = sockets
        self._listener: Listener | None = None

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._db.close()

    def wait(self, seconds: float) -> bool:
        """Block until something was committed since the last call; False when the time is over first."""
        if self._listener is None:
            name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(3)}"
            self._listener = Listener(self._sockets / name, self._db)
            return True  # what happened before the first call is news to the caller
        return self._listener.wait(seconds)

    def head(self) -> int:
        """The ledger's last seq."""
        return int(self._one("select seq from ledger_head")[0])

    def first(self) -> int:
        """The oldest event that is kept."""
        return self._mark(PRUNED) + 1

    def lineage(self) -> str | None:
        """How the history is called since the office was last put back from a backup; None: it never was."""
        return f"{number:x}" if (number := self._mark(LINEAGE)) else None

    def archived(self) -> int:
        """The ledger is in the lake up to here."""
        return self._mark("archived")

    def office_paused(self) -> bool:
        """Whether nothing begins, whoever has work."""
        return self._mark("paused") == 1

    def _mark(self, name: str) -> int:
        rows = self._all("select seq from marks where name = ?", (name,))
        return int(rows[0][0]) if rows else 0

    def queue_status(self, agent: str | None = None) -> dict[str, int]:
        """Counts by state, from counters: as quick with a million rows as with none.

        They count the rows that are there: what was pruned is counted no more. Of one agent there is no `outgoing`:
        responses are counted by channel.
        """
        counts = {word(state): 0 for state in MessageState}
        sql = "select state, sum(n) from counters where scope = ? and agent = coalesce(?, agent) group by state"
        for state, n in self._all(sql, ("messages", agent)):
            counts[word(MessageState(state))] = n
        if agent is not None:
            return counts
        undelivered = sum(n for state, n in self._all(sql, ("responses", None)) if state < RESPONSE_ENDED)
        return {**counts, "incoming": counts["pending"], "outgoing": undelivered}

    def agents(self) -> list[dict[str, Any]]:
        names = (
            "id",
            "name",
            "provider",
            "model",
            "workspace",
            "sandbox",
            "options",
            "concurrency",
            "budget",
            "reaches",
            "teams",
            "paused",
            "pauseReason",
            "pending",
            "processing",
        )
        rows = [dict(zip(names, row, strict=True)) for row in self._all(AGENTS)]
        parsed = ("options", "budget", "reaches", "teams")
        for row in rows:
            row |= {key: json.loads(row[key]) for key in parsed if row[key] is not None}
        return [{**row, "paused": bool(row["paused"])} for row in rows]

    def teams(self) -> list[dict[str, Any]]:
        """Every team, with its members, the leader among them."""
        names = ("id", "name", "leader", "members")
        rows = [dict(zip(names, row, strict=True)) for row in self._all(TEAMS)]
        return [{**row, "members": json.loads(row["members"])} for row in rows]

    def posts(self, team: str, *, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        """What was posted in a team's room above a number: the last of it, oldest first."""
        names = ("id", "fromAgent", "sender", "text", "createdAt")
        return [dict(zip(names, row, strict=True)) for row in reversed(self._all(POSTS, (team, after, limit)))]

    def dead(self, agent: str | None = None, limit: int = 1000) -> list[dict[str, Any]]:
        """Dead letters, oldest first."""
        more = {"reason": "last_error", "attempts": "retry_count"}
        return self._letters("state = 5", more, agent, limit)

    def held(self, agent: str | None = None, limit: int = 1000) -> list[dict[str, Any]]:
        """Messages that wait for somebody to let them go on, oldest first."""
        more = {"reason": "hold_reason", "detail": "last_error"}
        return self._letters("state = 2", more, agent, limit)

    def _letters(self, which: str, more: dict[str, str], agent: str | None, limit: int) -> list[dict[str, Any]]:
        """Messages that a person has to deal with; `which` is the condition of the index that finds them."""
        wanted = {"id": "id", "messageId": "message_id", "agent": "agent", "sender": "sender", "text": "text"}
        wanted |= more | {"at": "updated_at"}
        whose, values = ("", (limit,)) if agent is None else (" and agent = ?", (agent, limit))
        sql = f"select {', '.join(wanted.values())} from messages_text where {which}{whose} order by id limit ?"
        return [dict(zip(wanted, row, strict=True)) for row in self._all(sql, values)]

    def questions(self, limit: int = 1000) -> list[dict[str, Any]]:
        """Questions of agents that wait for an answer, oldest first."""
        return [listed(row) for row in self._all(OPEN, (limit,))]

    def usage(self, *, by: usage.By = "agent", since: str | None = None) -> dict[str, Any]:
        """Runs, tokens and cost, of all runs that began on that day or later (`YYYY-MM-DD`)."""
        with self._one_moment():
            return usage.usage(self._all, by=by, since=since)

    def caps(self, budget: Budget, day: str) -> list[dict[str, Any]]:
        """What is spent, reserved and left of every cap on a day."""
        with self._one_moment():
            return usage.caps(self._all, budget, day)

    def overview(self) -> dict[str, Any]:
        """What waits for a person: held messages by reason, responses by state, the number of open questions."""
        with self._one_moment():
            responses = {word(ResponseState(state)): n for state, n in self._all(overview.RESPONSES) if n}
            return {
                "holds": dict(self._all(overview.HOLDS)),
                "responses": responses,
                "questions": self._one(overview.QUESTIONS)[0],
            }

    def history(self, agents: Sequence[str] | None, *, channel: str, limit: int) -> list[dict[str, Any]]:
        """What was said last in a channel, to these agents or to any, and what they answered; oldest first."""
        if agents is None:
            rows = self._all(overview.SAID_BY_ALL, (channel, limit))
        else:
            rows = [row for agent in agents for row in self._all(overview.SAID_BY_ONE, (agent, channel, limit))]
        return [dict(zip(overview.SAID, row, strict=True)) for row in sorted(rows)[-limit:]]

    def sessions(self, agent: str) -> list[str]:
        """The ids of an agent's sessions, also of one who left, the newest first."""
        return [id for (id,) in self._all("select id from sessions where agent = ? order by created_at desc", (agent,))]

    def recent(self, limit: int) -> list[str]:
        """The ids of the newest messages."""
        return [id for (id,) in self._all("select message_id from messages order by id desc limit ?", (limit,))]

    def channels(self) -> list[str]:
        """The channels that something came in by, or went out by."""
        sql = "select distinct channel from conversations where kind <> 'room' order by 1"
        return [name for (name,) in self._all(sql)]

    def responses(
        self, states: Collection[ResponseState], *, channel: str | None = None, after: int = 0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Responses in these states above a number, oldest first."""
        sql, values = outgoing.listing(states, channel, after, limit)
        return [outgoing.shown(row) for row in self._all(sql, tuple(values))]

    def response(self, id: int) -> dict[str, Any] | None:
        """One response in full."""
        rows = self._all(f"{outgoing.SELECT} where r.id = ?", (id,))
        return outgoing.shown(rows[0]) if rows else None

    def messages(
        self, *, agent: str | None = None, state: MessageState | None = None, after: int = 0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Messages above a number, oldest first."""
        sql, values = listing(agent=agent, state=state, after=after, limit=limit)
        return [dict(zip(LISTED, row, strict=True)) for row in self._all(sql, values)]

    def dead_page(self, *, agent: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        """Dead letters above a number, oldest first."""
        return pages.DEAD.rows(self._all(pages.DEAD.sql, (after, agent, limit)))

    def held_page(self, *, agent: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        """Held messages above a number, oldest first."""
        return pages.HELD.rows(self._all(pages.HELD.sql, (after, agent, limit)))

    def processing_page(self, *, agent: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        """Messages that agents work on, above a number."""
        return pages.PROCESSING.rows(self._all(pages.PROCESSING.sql, (after, agent, limit)))

    def queue_agents(self) -> list[dict[str, Any]]:
        """What waits for each agent, from counters."""
        return pages.AGENTS.rows(self._all(pages.AGENTS.sql))

    def sessions_page(self, *, agent: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        """Sessions above a number, oldest first, also those that are closed."""
        return pages.SESSIONS.rows(self._all(pages.SESSIONS.sql, (after, agent, limit)))

    def session(self, id: str, runs: int = 20) -> dict[str, Any] | None:
        """One session, with its last runs."""
        found = pages.ONE_SESSION.rows(self._all(pages.ONE_SESSION.sql, (id,)))
        if not found:
            return None
        return {**found[0], "runs": pages.RUNS.rows(self._all(pages.RUNS.sql, (id, runs)))}

    def agent_history(self, agent: str, *, after: int, limit: int) -> list[dict[str, Any]]:
        """What was said to an agent and what it said, above a number: the last of it, oldest first."""
        return pages.HISTORY.rows(list(reversed(self._all(pages.HISTORY.sql, (agent, after, limit)))))

    def find_message(self, id: str, state: MessageState) -> str | None:
        """The id of a message of this state, by its id or its number in lists; None: it is of another.

        A client's own id may look like a number: where one is called so, it is meant, and no other.

        Raises `UnknownMessage`.
        """
        number = int(id) if id.isascii() and id.isdigit() and len(id) < 19 else -1
        if rows := self._all(pages.FIND, (int(state), id, number)):
            return str(rows[0][0])
        if not self._all(pages.EXISTS, (id, number)):
            raise UnknownMessage(message=id)
        return None

    def post_of(self, team: str, trace: str) -> int | None:
        """The number of what was posted in a room by an arrival."""
        found = self._one(pages.POST_OF, (team, trace))[0]
        return None if found is None else int(found)

    def exchange(self, message_id: str) -> dict[str, Any]:
        """Where a message came from, beside what `message` shows."""
        names = ("channel", "sender", "senderId", "thread", "notBefore", "priority", "updatedAt")
        return dict(zip(names, self._one(pages.EXCHANGE, (message_id,)), strict=True))

    def newest_responses(
        self, *, channel: str | None, before: int, limit: int, state: ResponseState | None = None
    ) -> list[dict[str, Any]]:
        """Responses below a number, newest first; of any state, or of one."""
        sql, values = outgoing.newest(state, channel, before, limit)
        return [outgoing.shown(row) for row in self._all(sql, tuple(values))]

    def letter(self, message_id: str, most: int = 10) -> dict[str, Any] | None:
        """One message in full, with whom it waits for: those before it in its lane, the first `most` by name."""
        found = self.message(message_id)
        if found is None:
            return None
        (lane, position, state, *more), *_ = self._all(
            "select m.lane, m.position, m.state, m.priority, m.not_before, m.updated_at, a.paused from messages m "
            "left join agents a on a.id = m.agent where m.message_id = ?",
            (message_id,),
        )
        priority, not_before, updated, paused = more
        waits = state == MessageState.PENDING
        before = self._all(WAITS_FOR, (lane, position, most)) if waits else []
        names = ("messageId", "status", "sender")
        return {
            **found,
            "priority": priority,
            "notBefore": not_before if waits else None,
            "updatedAt": updated,
            "agentPaused": bool(paused),
            "before": self._one(HOW_MANY_WAIT, (lane, position))[0] if waits else 0,
            "waitsFor": [dict(zip(names, row, strict=True)) for row in before],
        }

    def message(self, message_id: str) -> dict[str, Any] | None:
        """One message, with its runs and responses, at one moment."""
        with self._one_moment():
            rows = self._all(f"{MESSAGES} message_id = ?", (message_id,))
            return self._message(rows[0]) if rows else None

    def run(self, id: str) -> dict[str, Any] | None:
        """Whose run it is, by its id or that of a message, which stands for its last run."""
        rows = self._all(RUN, (id,))
        return dict(zip(("id", "agent", "session", "fence"), rows[0], strict=True)) if rows else None

    def trace(self, id: str) -> dict[str, Any] | None:
        """Everything that followed from one arrival, by the trace's id or that of one of its messages."""
        with self._one_moment():
            return self._trace(id)

    def _trace(self, id: str) -> dict[str, Any] | None:
        found = self._all("select trace from messages where message_id = ?1 or trace = ?1 limit 1", (id,))
        if not found:
            # an arrival that only set a default led to no message; one whose messages were pruned is no trace any more
            found = self._all("select trace from arrivals where (trace = ?1 or key = ?1) and pruned_at is null", (id,))
        if not found:
            return None
        trace = found[0][0]
        messages = [self._message(row) for row in self._all(f"{MESSAGES} trace = ? order by id", (trace,))]
        return {"traceId": trace, "messages": messages}

    def trace_ended(self, trace: str) -> bool:
        """Whether every message of the trace has ended or is held, and nothing is on its way out."""
        moving = self._all(
            "select 1 from messages where trace = ?1 and state < ?2 and state <> ?3 "
            "union all select 1 from responses where trace = ?1 and state <= 1 limit 1",
            (trace, int(MESSAGE_ENDED), int(MessageState.HELD)),
        )
        return not moving

    def events(
        self, after: int, limit: int, kinds: Sequence[str] | None = None, trace: str | None = None
    ) -> list[dict[str, Any]]:
        """Events above `after`, ascending; never with a gap: LedgerPruned if some of them are no longer kept."""
        sql, values = EVENTS, [after]
        if kinds:
            sql += " and kind in (select value from json_each(?))"
            values.append(json.dumps(list(kinds)))  # type: ignore[arg-type]  # bound as text
        if trace is not None:
            sql += " and trace = ?"
            values.append(trace)  # type: ignore[arg-type]
        # one snapshot: what is pruned between two looks would be missing without a word
        with named_errors(self.path), self._db:
            rows = self._all(f"{sql} order by seq limit ?", (*values, limit))
            first = self.first()
        if after < first - 1:
            raise LedgerPruned(first=first)
        names = ("seq", "at", "kind", "trace", "parent", "message", "run", "session", "agent", "data")
        return [{**dict(zip(names, row, strict=True)), "data": json.loads(row[-1])} for row in rows]

    def told_events(self, after: int, limit: int, kinds: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """As `events`, for plugins: with the text that each speaks of."""
        wanted = " and e.kind in (select value from json_each(?))" if kinds is not None else ""
        values = (after, json.dumps(list(kinds))) if kinds is not None else (after,)
        with named_errors(self.path), self._db:  # as above
            rows = self._all(f"{TOLD}{wanted} order by e.seq limit ?", (*values, limit))
            first = self.first()
        if after < first - 1:
            raise LedgerPruned(first=first)
        names = ("seq", "at", "kind", "trace", "parent", "message", "run", "session", "agent", "text", "data")
        return [{**dict(zip(names, row, strict=True)), "data": json.loads(row[-1])} for row in rows]

    def hook_failures(self, among: int = 100_000) -> dict[str, dict[str, Any]]:
        """By plugin, the last failure among so many last events."""
        sql = "select at, data from events where seq > ? and kind = 'hook_failed' order by seq"
        rows = self._all(sql, (max(0, self.head() - among),))
        return {(said := json.loads(data))["plugin"]: {**said, "at": at} for at, data in rows}

    def _message(self, row: tuple[Any, ...]) -> dict[str, Any]:
        value = dict(zip(MESSAGE, row, strict=True))
        runs = self._all(RUNS, (value["message_id"],))
        claimed = self._all(
            "select json_extract(data, '$.queue_ms') from events where trace = ? and message = ? "
            "and kind = 'message_received' order by seq limit 1",
            (value["trace"], value["message_id"]),
        )
        responses = [_response(row) for row in self._all(RESPONSES, (value["message_id"],))]
        spoken = any(response["operation"] not in ("edit", "reaction") for response in responses)
        return {
            "messageId": value["message_id"],
            "traceId": value["trace"],
            "parent": value["parent"],
            "agent": value["agent"],
            "fromAgent": value["from_agent"],
            "sender": value["sender"],
            "channel": value["channel"],
            "text": value["text"],
            "status": value["status"],
            "hop": value["hop"],
            "createdAt": value["created_at"],
            "queueMs": claimed[0][0] if claimed else None,
            "attempts": len(runs),
            "lastError": value["last_error"],
            "holdReason": value["hold_reason"],
            "wait": waits.shown(self._all, value["message_id"]),
            "files": json.loads(value["files"] or "[]"),
            "runs": [self._run(run) for run in runs],
            "responses": responses,
            "answeredWith": self._answered_with(value, runs[-1][0]) if runs and not spoken else None,
        }

    def _answered_with(self, message: Mapping[str, Any], run: str) -> dict[str, Any] | None:
        """The answer to another message of the same run, if it answered this one too."""
        if message["state"] != MessageState.COMPLETED:
            return None
        rows = self._all(TOGETHER, (run, message["message_id"], message["updated_at"]))
        if not rows:
            return None
        *response, other, trace = rows[0]
        return {"messageId": other, "traceId": trace, "response": _response(response)}

    def _run(self, row: tuple[Any, ...]) -> dict[str, Any]:
        id, attempt, outcome, reason, started, ended, tokens_in, tokens_out, cost, primary, together = row
        tools = self._all(
            "select json_extract(data, '$.tool'), json_extract(data, '$.ok'), json_extract(data, '$.duration_ms') "
            "from events where trace = (select m.trace from runs r join messages m on m.message_id = r.message "
            "where r.id = ?1) and run = ?1 and kind = 'tool_done' order by seq",
            (id,),
        )
        return {
            "id": id,
            "attempt": attempt,
            "outcome": outcome,
            "reason": reason,
            "startedAt": started,
            "durationMs": ended - started if ended is not None else None,
            "inputTokens": tokens_in,
            "outputTokens": tokens_out,
            "costUsd": cost,
            # tokens and cost are those of the whole run, whoever asks
            "message": primary,
            "messages": together,
            "tools": [{"tool": tool, "ok": bool(ok), "durationMs": duration} for tool, ok, duration in tools],
        }

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """One snapshot: a message that still runs, beside the notice of its death, would be two moments in one view."""
        with named_errors(self.path), self._db:
            yield

    def _all(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with named_errors(self.path):
            return self._db.execute(sql, values).fetchall()

    def _one(self, sql: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        return self._all(sql, values)[0]


def _response(row: Sequence[Any]) -> dict[str, Any]:
    value = dict(zip(RESPONSE, row, strict=True))
    question = json.loads(value["metadata"] or "{}").get("question", {}).get("id")
    return {
        "id": value["id"],
        "status": value["status"],
        "text": value["text"],
        "channel": value["channel"],
        "operation": value["operation"],
        "createdAt": value["created_at"],
        "ackedAt": value["acked_at"],
        "lastError": value["last_error"],
        "files": json.loads(value["files"] or "[]"),
        "questionId": question,
        "agent": value["agent"],
    }
