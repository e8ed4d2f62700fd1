"""A response as the pieces that a channel takes, in the words that it needs. Pure: the same every time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from manydesks.channels.base import Descriptor
from manydesks.domain.attachment import Attachment
from manydesks.domain.envelope import Parcel, Progress
from manydesks.domain.reading import readable, size
from manydesks.domain.splitting import split

#: what a long answer is called that also comes as a file
ANSWER = "answer.md"
#: a file that has all of the answer already
WHOLE = frozenset({ANSWER, "answer.txt"})


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What is sent at once."""

    parcel: Parcel
    #: how much of the response is out once this has arrived
    after: Progress
    last: bool


def wants_file(channel: Descriptor, file_over: int, *, operation: str, text: str, files: Iterable[str]) -> bool:
    """Whether the text should also come as a file; `files` are the names of those that go with it."""
    return (
        channel.long_as_file
        and channel.files != "none"
        and operation == "message"
        and len(text) > file_over
        and WHOLE.isdisjoint(files)
    )


def pieces(parcel: Parcel, channel: Descriptor) -> Iterator[Piece]:
    """Those that are not out yet, in order: at least one."""
    whole = in_its_words(parcel, channel)
    made = list(_made(whole, channel))
    for number, (piece, after) in enumerate(made, 1):
        yield Piece(parcel=piece, after=after, last=number == len(made))


def in_its_words(parcel: Parcel, channel: Descriptor) -> Parcel:
    """The same parcel, with what the channel cannot do said in words."""
    able = {
        "edit": channel.edits,
        "reaction": channel.reactions,
        "card": channel.cards,
        "ask_question": channel.buttons,
    }
    if not able.get(parcel.operation, True):
        question = parcel.metadata.get("question", {}).get("id")
        text = readable(operation=parcel.operation, text=parcel.text, question=question)
        parcel = replace(parcel, operation="message", text=text, target=None, metadata={})
    taken = [file for file in parcel.files if _refusal(file, channel) is None]
    lost = [f"({why})" for file in parcel.files if (why := _refusal(file, channel)) is not None]
    if not lost:
        return parcel
    return replace(parcel, files=tuple(taken), text="\n\n".join(filter(None, (parcel.text, "\n".join(lost)))))


def _refusal(file: Attachment, channel: Descriptor) -> str | None:
    if channel.files == "none":
        return f"The file '{file.name}' ({size(file.bytes)}) cannot be sent here: {channel.name} takes no files."
    if file.bytes > channel.file_bytes:
        limit = size(channel.file_bytes)
        return f"The file '{file.name}' ({size(file.bytes)}) is too large for {channel.name}, which takes {limit}."
    return None


def _made(parcel: Parcel, channel: Descriptor) -> Iterator[tuple[Parcel, Progress]]:
    out, files = parcel.progress, parcel.files[parcel.progress.files :]
    texts = _texts(parcel, channel, out.chars)
    if not texts and not files:
        texts = [(parcel.text[out.chars :], len(parcel.text))]
    along = channel.files == "along"
    for number, (text, chars) in enumerate(texts, 1):
        last = number == len(texts)
        piece = _with_operation(replace(parcel, text=text, files=()), first=number == 1 and out.chars == 0, last=last)
        if last and along:
            yield replace(piece, files=files), Progress(chars=chars, files=len(parcel.files))
            return
        yield piece, Progress(chars=chars, files=out.files)
    bare = replace(parcel, operation="message", text="", target=None, metadata={})
    if along and files:
        yield replace(bare, files=files), Progress(chars=len(parcel.text), files=len(parcel.files))
        return
    for number, file in enumerate(files, out.files + 1):
        yield replace(bare, files=(file,)), Progress(chars=len(parcel.text), files=number)


def _texts(parcel: Parcel, channel: Descriptor, start: int) -> list[tuple[str, int]]:
    """The text from there on in pieces that fit, each with where it ends."""
    if not parcel.text[start:].strip():
        return []
    if channel.longest is None:
        return [(parcel.text[start:], len(parcel.text))]
    markup = channel.markup != "plain"
    found = split(parcel.text, limit=channel.longest, unit=channel.unit, start=start, markup=markup)
    return [(piece.text, piece.end) for piece in found]


def _with_operation(piece: Parcel, *, first: bool, last: bool) -> Parcel:
    """An edit changes with its first piece what was there, buttons stand below the last; the others are messages."""
    keeps = first if piece.operation in ("edit", "reaction") else last
    return piece if keeps else replace(piece, operation="message", target=None, metadata={})
