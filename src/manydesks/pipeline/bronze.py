"""Bronze: what the office recorded, as it recorded it."""

from __future__ import annotations

from manydesks.pipeline.columns import table

EVENTS = table(
    "events",
    "bronze/events",
    "The ledger, every event exactly once.",
    """
seq long! - The event's number: without a gap, never twice.
at long! - When it happened.
kind text! - What happened; the reference of events has the list.
trace text - The trace it belongs to.
parent text - The message that led to it.
message text - The message it is about.
run text - The run it is about.
session text - The session it is about.
agent text - The agent it is about.
body long - The text it refers to, a row of `bodies`.
data text - The rest, as JSON, by kind.
""",
)

BODIES = table(
    "bodies",
    "bronze/bodies",
    "The texts that events refer to.",
    """
id long! - The text's number.
text text - The text; empty if it was erased.
erased_at long - When it was erased.
""",
)

#: what a desk was told and what it said: the mailboxes of all sessions
SESSION_MESSAGES = table(
    "session_messages",
    "bronze/session_messages",
    "The messages of every session's mailbox: what a desk was given, once for each claim, and what it wrote.",
    """
agent text! - The agent whose session it is.
session text! - The session.
side text! - `in`: the office gave it to the desk; `out`: the desk wrote it.
epoch text - Of the desk's file: one that was made anew has another. NULL for `in`.
seq long! - Its number in the mailbox, even for `in` and odd for `out`. A message that comes again keeps it.
id text! - Its id; for `in` that of the message in the ledger.
run text! - The run.
fence long! - The claim.
kind text! - Decides the shape of the content.
at long! - For `in` when the message was stored, for `out` the desk's word on when it was written.
in_reply_to text - For `out`: the message that it answers; NULL: the first of the run.
deliver_after long - For `out`: not before.
destination text - For `out`: the place that the agent named.
not_before long - For `in`: the desk leaves it alone until then.
tries long - For `in`: the number of the attempt, from 1.
trigger long - For `in`: 0 for context, which asks for no answer.
reply_to text - For `in`: the message that it replies to.
content text! - The content as it is stored, JSON by kind; empty if it was erased.
erased_at long - When what it was about was erased.
batch long! - Which reading of the mailboxes took it, counted from 1; bookkeeping.
""",
)

SESSION_STEPS = table(
    "session_steps",
    "bronze/session_steps",
    "The steps of every run, as the desk wrote them into its mailbox.",
    """
agent text! - The agent whose session it is.
session text! - The session.
epoch text! - Of the desk's file: one that was made anew has another.
seq long! - Its number in the mailbox, odd.
run text! - The run.
at long! - When, by the desk's word.
type text! - text, tool_call, tool_result, usage or error.
data text! - The step as it is stored, JSON by type; empty if it was erased.
erased_at long - When what it was about was erased.
batch long! - Which reading of the mailboxes took it, counted from 1; bookkeeping.
""",
)

SESSION_ACKS = table(
    "session_acks",
    "bronze/session_acks",
    "How desks said that messages ended; what became of them is in `messages`.",
    """
agent text! - The agent whose session it is.
session text! - The session.
epoch text! - Of the desk's file: one that was made anew has another.
seq long! - Its number in the mailbox, odd.
message text! - The message that it ends.
run text! - The run.
fence long! - The claim.
status text! - completed, failed or cancelled.
class text - Of a failure: transient, permanent or refused.
reason text - Why, a sentence for people; empty if it was erased.
retry_after real - Seconds that the provider asked to wait.
at long! - When, by the desk's word.
erased_at long - When what it was about was erased.
batch long! - Which reading of the mailboxes took it, counted from 1; bookkeeping.
""",
)

QUARANTINE = table(
    "quarantine",
    "bronze/quarantine",
    "Files of mailboxes that could not be read, or not all of them; again only when the file or the reason is another.",
    """
path text! - The file, below the home.
agent text! - The agent whose session it is.
session text! - The session.
reason text! - Why, the end of a sentence that begins with the file.
at long! - When it was found.
size long - Its bytes.
state text! - Which state of the file it was: its bytes, its time of change, its number, the bytes of its journal.
batch long! - Which reading of the mailboxes found it, counted from 1; bookkeeping.
""",
)

SESSION_FILES = table(
    "session_files",
    "bronze/session_files",
    "The files of all mailboxes, and how far each was read; one that did not change is left alone.",
    """
path text! - The file, below the home.
agent text! - The agent whose session it is.
session text! - The session.
side text! - `in` or `out`.
size long! - Its bytes when it was last looked into.
state text! - Which state of the file that was.
young flag! - It was changed so shortly before that it is looked into again, whatever its state.
reason text - Why it could not be read, or not all of it; NULL: it was read to its end.
looked_at long! - When it was last looked into.
epoch text - Of the desk's file.
messages long! - Up to this number the lake has the messages of the desk.
steps long! - Up to this number the lake has its steps.
acks long! - Up to this number the lake has its acks.
fence long! - The highest claim of which the lake has what was given to the desk.
given text! - The numbers of what was given under that claim, a JSON list.
""",
)

#: what is read out of mailboxes
SESSIONS = (SESSION_MESSAGES, SESSION_STEPS, SESSION_ACKS)

PIPELINE_RUNS = table(
    "pipeline_runs",
    "pipeline_runs",
    "One row for each run of the pipeline; it is here and not in the ledger, so that a run makes no work for the next.",
    """
job text! - Which job.
started_at long! - When it began.
ended_at long! - When it ended.
seconds real! - How long it took.
ok flag! - Whether it succeeded.
reason text - Why it did not.
from_seq long - What the lake covered before it.
to_seq long - What the lake covers after it.
rows long - Events that it added.
bodies long - Texts that it added.
spark_version text - The version of Spark.
""",
)
