"""An example plugin: says when nobody reads, keeps card numbers inside, and notes what failed.

Copy it into the `plugins/` folder of your office, change it, and `manydesks restart`.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from manydesks.office.hooks import Answer, Event, Message, Refused, incoming, on, outgoing

CARD = re.compile(r"\b(?:\d[ -]?){13,16}\b")


@incoming(order=10)
def no_card_numbers(message: Message) -> None:
    """What looks like a card number is not even stored."""
    if CARD.search(message.text):
        raise Refused("This looks like a card number; please send it another way.")


@incoming
def note_the_hour(message: Message) -> None:
    """The answer will know whether it was asked at night."""
    message.metadata["at_night"] = not 8 <= datetime.now().astimezone().hour < 20


@outgoing
def hide_card_numbers(answer: Answer) -> None:
    answer.text = CARD.sub("[a card number]", answer.text)
    if answer.asked.get("at_night"):
        answer.text += "\n\n(A person reads this in the morning.)"
    answer.metadata["checked"] = True


@on("message_dead", "response_dead")
def write_down(event: Event) -> None:
    """Beside this file; an event may come twice, so its number goes along."""
    with Path(__file__).with_suffix(".log").open("a") as log:
        print(event.seq, event.kind, event.agent, event.data.get("reason"), file=log)
