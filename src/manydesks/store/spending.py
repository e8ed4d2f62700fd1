"""What was spent and is reserved, by scope and day: rows that are kept in the transactions that they count."""

from __future__ import annotations

from manydesks.domain.budget import Amounts, Book, Scope
from manydesks.store.ledger import OfficeTransaction

FIND = """
select spent_usd, spent_tokens, spent_runs, reserved_usd, reserved_tokens, reserved_runs, extra, asked
from spending where scope = ? and subject = ? and day = ?
"""
RESERVE = """
insert into spending (scope, subject, day, reserved_usd, reserved_tokens, reserved_runs) values (?, ?, ?, ?, ?, ?)
on conflict (scope, subject, day) do update set reserved_usd = reserved_usd + excluded.reserved_usd,
  reserved_tokens = reserved_tokens + excluded.reserved_tokens, reserved_runs = reserved_runs + excluded.reserved_runs
"""
#: a sum that left 64 bits would be refused, and with it the end of the run: it stays at the largest instead
SETTLE = """
insert into spending (scope, subject, day, spent_usd, spent_tokens, spent_runs) values (?1, ?2, ?3, ?4, ?5, 1)
on conflict (scope, subject, day) do update set
  spent_usd = min(spent_usd + excluded.spent_usd, 9000000000000000000),
  spent_tokens = min(spent_tokens + excluded.spent_tokens, 9000000000000000000), spent_runs = spent_runs + 1,
  reserved_usd = reserved_usd - ?6, reserved_tokens = reserved_tokens - ?7, reserved_runs = reserved_runs - ?8
"""


#: what was spent without a run
BOOK = """
insert into spending (scope, subject, day, spent_usd, spent_tokens) values (?, ?, ?, ?, ?)
on conflict (scope, subject, day) do update set
  spent_usd = min(spent_usd + excluded.spent_usd, 9000000000000000000),
  spent_tokens = min(spent_tokens + excluded.spent_tokens, 9000000000000000000)
"""


def book_of(tx: OfficeTransaction, scope: Scope, subject: str, day: str, cap: Amounts) -> Book:
    row = tx.one(FIND, (scope, subject, day))
    if row is None:
        return Book(scope=scope, subject=subject, day=day, cap=cap)
    spent, kept = Amounts(usd=row[0], tokens=row[1], runs=row[2]), Amounts(usd=row[3], tokens=row[4], runs=row[5])
    return Book(scope=scope, subject=subject, day=day, cap=cap, spent=spent, reserved=kept, extra=row[6], asked=row[7])


def paused_by_budget(tx: OfficeTransaction) -> dict[str, str]:
    """Agents that a budget keeps from working, with its sentence."""
    return dict(tx.all("select id, pause_reason from agents where paused >= 2"))


def allow_again(tx: OfficeTransaction, scope: str, subject: str, day: str) -> None:
    """The owner lets this scope have as much again as its cap."""
    tx.run(
        "insert into spending (scope, subject, day, extra) values (?, ?, ?, 1) "
        "on conflict (scope, subject, day) do update set extra = extra + 1",
        (scope, subject, day),
    )
    tx.event("budget_raised", agent=subject if scope == "agent" else None, trace=subject if scope == "trace" else None,
             scope=scope, subject=subject, day=day)  # fmt: skip


def allow_trace_again(tx: OfficeTransaction, trace: str) -> None:
    """The owner lets a message of the trace go on; the next one that was held with it needs no more than that."""
    if tx.one("select 1 from spending where scope = 'trace' and subject = ? and asked > extra", (trace,)) is not None:
        allow_again(tx, "trace", trace, "")


def first_word(tx: OfficeTransaction, book: Book) -> bool:
    """Whether nobody was told yet that this much of it is used up; from now on somebody was."""
    if book.asked > book.extra:
        return False
    tx.run(
        "insert into spending (scope, subject, day, asked) values (?, ?, ?, ?) "
        "on conflict (scope, subject, day) do update set asked = excluded.asked",
        (book.scope, book.subject, book.day, book.extra + 1),
    )
    return True


def about_of(book: Book) -> str:
    return f"{book.scope}/{book.subject}/{book.day}"
