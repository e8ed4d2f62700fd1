"""Times, durations, counts, sizes and money as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(milliseconds: int | None) -> str:
    """A moment in the local zone."""
    if milliseconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"  # outside the calendar: show what is stored


def duration(milliseconds: int | None) -> str:
    """A length of time, in the two units that matter."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def count(number: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def cost(usd: float | None) -> str:
    """An unknown cost is not a cost of nothing."""
    return "cost unknown" if usd is None else f"${usd:.4f}"


def size(amount: float) -> str:
    """An amount of bytes."""
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:,.0f} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} GiB"
