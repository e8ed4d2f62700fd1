"""Messages that show what the example office can do."""

from __future__ import annotations

#: three answers, worked on at the same time
SPRINT = (
    "Sprint ends Friday, 3 open bugs. Reply with: (1) status (2) blockers (3) next step. "
    "[@coder: Also list any PRs you have open.] [@reviewer: Also flag any PRs waiting on you.] "
    "[@tester: Also report test coverage for the auth module.]"
)
#: one after the other, each with the answer before it
CHAIN = (
    "[@coder: Draft the fix for the login timeout.] -> [@reviewer: Review the draft.] "
    "-> [@writer: Write a line for the changelog.]"
)
#: two at the same time, then one who gets both answers
JOIN = (
    "Can the auth module ship? [@tester: What is its test coverage?] [@reviewer: Which open reviews are there?] "
    "=> [@lead: Decide.]"
)
#: an agent that hands work on by itself
PLAN = "@lead Plan the release."
#: to everyone in the team's room
STANDUP = "[#product: Standup: one line each, please.]"

#: (what it shows, the message)
MESSAGES = (
    ("three agents at the same time", SPRINT),
    ("a chain", CHAIN),
    ("a join", JOIN),
    ("an agent that hands work on", PLAN),
    ("a post in the team's room", STANDUP),
)
