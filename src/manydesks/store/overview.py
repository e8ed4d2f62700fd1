"""What a person should know at a glance, and what was said before: statements for the reader."""

from __future__ import annotations

from manydesks.store.bodies import shown

#: held messages by reason; the index has just them. One whose chain broke waits for a person, other chains for agents
HOLDS = """
select coalesce(case when j.state = 3 then 'broken ' || j.kind end, m.hold_reason, ''), count(*)
from messages m indexed by messages_held left join joins j on j.message = m.message_id
where m.state = 2 group by 1
"""
RESPONSES = "select state, sum(n) from counters where scope = 'responses' group by state"
QUESTIONS = "select count(*) from questions where state = 0"

#: the rows of one agent are found by its index, newest first
SAID_BY_ONE = f"""
select a.id, a.agent_id, a.role, a.sender, a.message_id, {shown("b")}, a.created_at
from agent_messages a join bodies b on b.id = a.body
where a.agent_id = ?1 and a.channel = ?2 order by a.id desc limit ?3
"""
#: those of all are looked for among the newest rows only: an office that hears much elsewhere has many
SAID_BY_ALL = f"""
select a.id, a.agent_id, a.role, a.sender, a.message_id, {shown("b")}, a.created_at
from (select * from agent_messages order by id desc limit 1000) a join bodies b on b.id = a.body
where a.channel = ?1 order by a.id desc limit ?2
"""
SAID = ("id", "agent", "role", "sender", "messageId", "text", "at")
