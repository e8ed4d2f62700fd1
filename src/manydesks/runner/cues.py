"""A script for the provider `rehearsal`: cues, and what the agent does when it hears one.

    # a comment
    ? sprint blockers
    !sleep 1.5
    !say No blockers.
    ?
    !say Ask me about the sprint.

A line `? words` begins a cue: it fits a message in which all its words occur, whatever their case and order; without
words it fits every message. The first that fits is played: its lines, each with a `!`, are obeyed in the place of the
message. A message that no cue fits is obeyed or echoed as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from manydesks.domain.errors import BadInput
from manydesks.mailbox import walk

#: the option that names the script
SCRIPT = "script"
MAX_BYTES = 1 << 20

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cue:
    #: in lower case; all must occur
    words: frozenset[str]
    lines: tuple[str, ...]


def script_of(options: Mapping[str, Any]) -> str | None:
    """The script's path in the workspace; None: there is none. Raises `BadInput` if that is no path."""
    path = options.get(SCRIPT)
    if path is None:
        return None
    if not isinstance(path, str) or not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise BadInput(reason=f"the option '{SCRIPT}' must be the path of a file in the agent's workspace.")
    return path


def read_cues(text: str) -> tuple[Cue, ...]:
    """Raises `BadInput` for a line that belongs to no cue, or is not one to be obeyed."""
    cues: list[tuple[frozenset[str], list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("?"):
            cues.append((_words(line), []))
        elif line.startswith("!") and cues:
            cues[-1][1].append(line)
        else:
            raise BadInput(f"line {number} is neither '? words', nor a line with '!' below one, nor a comment with '#'")
    return tuple(Cue(words=words, lines=tuple(lines)) for words, lines in cues)


def played(cues: Sequence[Cue], message: str) -> str:
    """What is obeyed: the lines of the first cue that fits, else the message itself."""
    heard = _words(message)
    return next(("\n".join(cue.lines) for cue in cues if cue.words <= heard and cue.lines), message)


def load_cues(workspace: Path, path: str) -> tuple[Cue, ...]:
    """Raises `BadInput` with a sentence. Blocks."""
    try:
        with (
            walk.opened(workspace, PurePosixPath(path).parts) as handle,
            os.fdopen(handle, "rb", closefd=False) as file,
        ):
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadInput(f"it has more than {MAX_BYTES} bytes")
        return read_cues(data.decode(errors="replace"))
    except BadInput as error:
        raise BadInput(f"The script '{path}' cannot be played: {error}.") from None
    except OSError as error:
        raise BadInput(f"The script '{path}' cannot be read ({error.strerror}).") from None


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))
