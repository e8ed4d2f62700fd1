"""Gold: what people ask of the history, worked out. It is made of silver alone, day by day, and never folded.

The day of a row is that of its subject, by its own time: a message is of the day on which it was stored, a run of the
day on which it began, a response of the day on which it was stored; all days are UTC. A message of today may belong to
a trace of yesterday. What is not known is NULL and is counted as unknown, never taken for 0.

Percentiles (`…_p50_ms` and so on, the value at that share of the group, between two values in proportion) are exact for
groups of up to 10,000 values. Of a larger group each value is first rounded to four significant digits, so that a
percentile is off by 0.05 % of itself at most; unlike a sketch, that does not depend on the order of the rows.
"""

from __future__ import annotations

from manydesks.pipeline.columns import TableSpec, table

#: the percentiles that there are
SHARES = (50, 95, 99)


def _percentiles(prefix: str, of: str) -> str:
    return "".join(
        f"{prefix}_p{share}_ms real - Percentile {share} of how long {of} took; NULL: there were none.\n"
        for share in SHARES
    )


AGENT_DAILY = table(
    "agent_daily",
    "gold/agent_daily",
    "What each agent had to do each day, and how it went.",
    f"""
day text! - The day.
agent text! - The agent.
messages long! - Messages stored for it.
completed long! - Of these, how many are completed.
dead long! - Of these, how many are dead.
cancelled long! - Of these, how many are cancelled.
retries long! - Of these messages, attempts that failed and were followed by another.
runs long! - Runs it began.
failed_runs long! - Of these, how many failed.
handoffs_in long! - Messages that other agents handed to it.
handoffs_out long! - Messages that it handed to others.
input_tokens long - Tokens that its runs read, as far as known; NULL: of none is it known.
output_tokens long - Tokens that its runs wrote, as far as known; NULL: of none is it known.
cost_usd real - What its runs cost in dollars, as far as known; NULL: of none is it known.
unknown_cost_runs long! - Runs that have ended and whose cost is not known.
{_percentiles("queue", "its messages' waits until they were first taken")}\
{_percentiles("run", "its runs that have ended")}\
{_percentiles("delivery", "its responses that were delivered")}
""",
)

CHANNEL_DAILY = table(
    "channel_daily",
    "gold/channel_daily",
    "What came and went through each channel each day.",
    f"""
day text! - The day.
channel text! - The channel.
messages long! - Messages that people sent through it, one for each agent that was addressed.
responses long! - Responses stored for it.
delivered long! - Of these, how many it has.
dead long! - Of these, how many could not be delivered.
unsure long! - Of these, of how many nobody knows whether they arrived.
expired long! - Of these, how many were not delivered in time.
{_percentiles("delivery", "these that were delivered")}
""",
)

HANDOFF_MATRIX = table(
    "handoff_matrix",
    "gold/handoff_matrix",
    "Who gave work to whom, each day.",
    """
day text! - The day.
from_agent text! - Who handed over.
to_agent text! - To whom.
handoffs long! - How many messages.
""",
)

TRACE_SUMMARY = table(
    "trace_summary",
    "gold/trace_summary",
    "Each arrival and what followed from it, in one row.",
    """
day text! - The day of its first event.
trace text! - The trace.
channel text - The channel it came through.
messages long! - Its messages.
agents long! - Agents that had one of them.
hops long! - The longest way, in hand-offs.
fan_out long! - The most messages that followed from one message, or from the arrival itself.
runs long! - Runs that worked on its messages.
failed_runs long! - Of those that began with one of its messages, how many failed.
dead long! - Of its messages, how many are dead.
started_at long! - When its first event happened.
ended_at long - When its last span so far ended; if it has none, its last message.
total_ms long - From one to the other; NULL: nothing of it has ended, or by the clock it did before it began.
critical_path_ms long - Time that lies in a span of the critical path; the rest of the total is waiting for a try.
critical_path text - The spans that its end followed from, first to last, each with its milliseconds.
cost_usd real - What runs that began with one of its messages cost in dollars, as far as known; NULL: of none is it.
unknown_cost_runs long! - Of those runs, how many have ended and have no cost that is known.
status text! - open: a message has not ended; dead: one is dead; done: the rest.
""",
)

COST_DAILY = table(
    "cost_daily",
    "gold/cost_daily",
    "What runs used each day, by agent, provider and model.",
    """
day text! - The day on which the runs began.
agent text! - The agent.
provider text - What drove it.
model text - The model that the usage was booked for, else the one that was asked for.
runs long! - Runs that have ended.
unknown_cost_runs long! - Of these, of how many the cost is not known.
input_tokens long - Tokens read, as far as known; NULL: of none is it known.
output_tokens long - Tokens written, as far as known; NULL: of none is it known.
cache_read_tokens long - Tokens read from a cache, as far as known; NULL: of none is it known.
cache_write_tokens long - Tokens written to a cache, as far as known; NULL: of none is it known.
cost_usd real - Dollars, as far as known; NULL: of none is it known.
""",
)

DEAD_LETTERS = table(
    "dead_letters",
    "gold/dead_letters",
    "Every message that ever died.",
    """
day text! - The day on which it first died.
message_id text! - The message.
trace text - Its trace.
agent text - Whom it was for.
reason text - Why it died last.
failure_class text - The class of that failure.
attempts long - Attempts begun.
died_at long! - When it first died.
deaths long! - How often it died.
still_dead flag! - Whether it is dead now.
""",
)

BUSY_HOURS = table(
    "busy_hours",
    "gold/busy_hours",
    "When messages come, over the whole history.",
    """
weekday long! - 1: Monday, to 7: Sunday; UTC.
hour long! - 0 to 23; UTC.
agent text! - The agent.
messages long! - Messages stored for it.
""",
)

TERMS_DAILY = table(
    "terms_daily",
    "gold/terms_daily",
    "The words of each agent's messages each day, counted: what `topics_daily` is made of. It is not published.",
    """
day text! - The day.
agent text! - The agent.
term text! - The word, or two words.
words long! - 1 or 2.
messages long! - Messages that have it.
count long! - How often it was said.
""",
    making=2,
)

TOPICS_DAILY = table(
    "topics_daily",
    "gold/topics_daily",
    "What people and other agents spoke of to each agent each day, most unusual first: at most 50 terms.",
    """
day text! - The day.
agent text! - The agent.
term text! - A word, or two words that stand side by side.
words long! - 1 or 2.
messages long! - Messages that have it.
count long! - How often it was said.
expected real! - How often on a day, on average over the 28 before, from its agent's first message on; to four places.
burst real! - (count - expected) / sqrt(expected + 1), to four places: 0 is as usual.
""",
)

SLO = table(
    "slo",
    "gold/slo",
    "How often each agent was quick enough, each day.",
    """
day text! - The day.
agent text! - The agent.
target text! - `answered within 60 s`, from a message's storing to its end; `delivered within 30 s`, of responses.
good long! - How many were.
total long! - Of how many: messages that are completed or dead; responses delivered, dead, expired or unsure.
ratio real! - good / total.
""",
)

GOLD: tuple[TableSpec, ...] = (
    AGENT_DAILY,
    CHANNEL_DAILY,
    HANDOFF_MATRIX,
    TRACE_SUMMARY,
    COST_DAILY,
    DEAD_LETTERS,
    BUSY_HOURS,
    TERMS_DAILY,
    TOPICS_DAILY,
    SLO,
)
