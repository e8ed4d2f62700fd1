"""Silver: the ledger as the things it tells of. Each row is the fold of the events of its key (see `columns.py`).

All rows of a trace lie in the day of the trace's first event, in every table: whoever has the day has the trace whole.
Columns whose name ends in `_seq` say which event gave a value, so that later ones can be told from earlier ones.
"""

from __future__ import annotations

from manydesks.pipeline.columns import table

TRACES = table(
    "traces",
    "silver/traces",
    "One row for each arrival and all that followed from it.",
    """
day text! made The UTC day of its first event.
trace text! key The trace.
first_at long! first:first_seq When its first event happened.
last_at long! max When its last event so far happened.
first_seq long! min Its first event.
last_seq long! max Its last event so far.
events long! sum How many events it has so far.
origin text first:origin_seq The first message that was stored for it.
channel text first:origin_seq The channel it came through.
conversation text first:origin_seq The conversation it came from.
sender text first:origin_seq Who sent it.
origin_seq long min The event that stored its first message.
""",
)

MESSAGES = table(
    "messages",
    "silver/messages",
    "One row for each message, in its latest state.",
    """
day text! made The UTC day of its trace's first event.
message_id text! key The message.
trace text one Its trace.
parent text one The message that led to it.
agent text one Whom it is for.
from_agent text one The agent that sent it, if it was one.
session text one The session it was stored for.
channel text one The channel of its trace.
conversation text one The conversation it came from.
sender text one Who sent it.
kind text one chat, task, webhook or system.
hop long one Hand-offs from the arrival to it.
priority long one Its priority between lanes.
by text one How it was routed: tag, prefix, default, wiring, hand-off, chain, join, room or answer.
team text one The team through which it was routed.
body long last:body_seq Its text, a row of `bodies`; of one that was replaced, the last.
body_seq long max The event of that.
created_at long one When it was stored.
status text last:status_seq Its state: pending, held, processing, completed, dead or cancelled.
status_at long last:status_seq When it came into this state.
ended_at long last:status_seq When it ended, if it has.
status_seq long max The event that gave its state.
attempts long sum Attempts begun, those after a death included.
retries long sum Attempts that failed and were followed by another.
first_run_at long first:received_seq When it was first handed to an agent.
queue_ms long first:received_seq How long it had waited until then.
received_seq long min The event of that.
run text last:run_seq The run that had it last.
run_seq long max The event of that.
held_reason text last:held_seq Why it was held last.
held_seq long max The event of that.
last_error text last:error_seq Why an attempt failed last.
failure_class text last:error_seq The class of that failure.
error_seq long max The event of that.
died_at long first:died_seq When it first died.
died_seq long min The event of that.
deaths long sum How often it died.
death text last:death_seq Why it died last.
death_class text last:death_seq The class of that failure.
death_seq long max The event of that.
""",
    making=2,
)

RUNS = table(
    "runs",
    "silver/runs",
    "One row for each run of an agent.",
    """
day text! made The UTC day of its trace's first event.
run text! key The run.
trace text one The trace of its first message.
message text one Its first message.
agent text one The agent.
session text one The session.
provider text one What drove it.
model text one The model that was asked for.
used_model text one The model that the usage was booked for.
attempt long one Which attempt at its first message.
started_at long one When it began.
ended_at long one When it ended.
duration_ms long one How long it took.
outcome text one completed, failed, cancelled or released.
reason text one Why it did not complete.
input_tokens long one Tokens read; NULL: unknown.
output_tokens long one Tokens written; NULL: unknown.
cache_read_tokens long one Tokens read from a cache; NULL: unknown.
cache_write_tokens long one Tokens written to a cache; NULL: unknown.
cost_microusd long one What it cost, in millionths of a dollar; NULL: unknown.
tools long sum Tool calls.
tools_failed long sum Tool calls that failed.
""",
    making=2,
)

RESPONSES = table(
    "responses",
    "silver/responses",
    "One row for each response, in its latest state.",
    """
day text! made The UTC day of its trace's first event.
response long! key The response's number.
trace text one Its trace.
message text one The message it answers.
run text one The run that wrote it.
agent text one The agent that wrote it.
channel text one Where it goes.
part long one Which response to that message.
operation text one message, notice, edit, reaction, card or ask_question.
bytes long one The length of its text.
files long one Files that go with it.
body long one Its text, a row of `bodies`.
created_at long one When it was stored.
status text last:status_seq Its state: pending, held, acked, withdrawn, unsure, dead or expired.
status_at long last:status_seq When it came into this state.
status_seq long max The event that gave its state.
attempts long max Attempts to deliver it.
delivered_at long one When the channel had it.
delivery_ms long made From being stored to being delivered.
receipt text one The channel's own name for it.
last_error text last:error_seq Why an attempt failed last.
error_seq long max The event of that.
""",
)

HANDOFFS = table(
    "handoffs",
    "silver/handoffs",
    "One row for each message that one agent sent to another.",
    """
day text! made The UTC day of its trace's first event.
message_id text! key The message that was handed over.
trace text one Its trace.
parent text one The message at which the agent handed over.
run text one The run in which it did.
from_agent text one Who handed over.
to_agent text one To whom.
hop long one Hand-offs from the arrival to here.
by text one hand-off, chain, join, room or answer.
at long one When.
""",
)

#: a span before and after it was looked at in its trace; `quarantined_spans` has the same, and the reason
_SPAN = """
day text! made The UTC day of its trace's first event.
trace text! key Its trace.
span_id text! key Its name: the kind, and what it is about.
kind text one hold, queue, run, tool, delivery or handoff.
name text one What a reader would call it.
agent text one The agent.
message text one The message it is about.
run text one The run it belongs to; of a hold the one whose end ended it.
attempt long one Which attempt, of a delivery counted from the first on; each has a span of its own.
parent_id text made The span that it happened in, or because of: one that is here, too.
start_at long min When it began.
end_at long max When it ended; NULL: it has not. Of a hand-off: its message, which may get new attempts.
ok flag one Whether it ended well; of a run, for a message of this trace.
measured_ms long one How long a tool call took by the desk's own clock; NULL: it did not say.
start_seq long min The event that began it, of a hold the one that ended it: a span follows from earlier ones.
"""

SPANS = table(
    "spans",
    "silver/spans",
    "What took time, trace by trace: holds, waits, runs, tool calls, deliveries and hand-offs, with their parents.",
    _SPAN
    + """duration_ms long made How long it took.
self_ms long made How much of that was in no child but a hold; of a hand-off, in no wait, hold or run of its message.
on_critical_path flag made Whether the trace's last end followed from it.
""",
    making=9,
)

QUARANTINED_SPANS = table(
    "quarantined_spans",
    "silver/quarantined_spans",
    "Spans that cannot be: without a beginning, with an end before it, before what led to them, or with nothing that"
    " did. A late event may mend one.",
    _SPAN + "reason text made Why it is here.\n",
    making=9,
)

USAGE = table(
    "usage",
    "silver/usage",
    "What each run used.",
    """
day text! made The UTC day of its trace's first event.
run text! key The run.
trace text one Its trace.
agent text one The agent.
provider text one What drove it.
model text one The model.
at long one When it was booked.
input_tokens long one Tokens read; NULL: unknown.
output_tokens long one Tokens written; NULL: unknown.
cache_read_tokens long one Tokens read from a cache; NULL: unknown.
cache_write_tokens long one Tokens written to a cache; NULL: unknown.
cost_microusd long one What it cost, in millionths of a dollar; NULL: unknown.
""",
)

TRANSCRIPTS = table(
    "transcripts",
    "silver/transcripts",
    "What was said, in order: a row for each text of a message, each answer to a question and each response.",
    """
day text! made The UTC day of its trace's first event.
seq long! key The event that stored it.
trace text one Its trace.
at long one When.
agent text one The agent that was spoken to, or spoke.
role text one user, assistant or system.
sender text one Who said it; NULL: the office.
message text one The message, or the one that is answered.
run text one The run that said it.
response long one The response, if it is one.
operation text one Of a response as in `responses`; else edited, told or answer; NULL: a message as it was stored.
body long one The text's number.
text text made The text; NULL if it was erased.
erased flag made Whether it was erased.
""",
    making=2,
)

SILVER = (TRACES, MESSAGES, RUNS, RESPONSES, HANDOFFS, SPANS, QUARANTINED_SPANS, USAGE, TRANSCRIPTS)
