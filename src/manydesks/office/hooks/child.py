"""What runs in a plugin's process: loads the plugin, says what it has, and calls its functions one after the other.

A line of JSON in is a call, a line out its answer, with the call's number. What the plugin prints goes to standard
error, where the office keeps it as the plugin's log. Only the process that the office started is on the line: one that
the plugin forks has no part in it. Standard library only, and nothing of the office.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from manydesks.office.hooks.base import Answer, Event, Message, Refused, Spec, specs
from manydesks.office.hooks.permission import NotTrusted, read_source

GIVEN: dict[str, type[Message] | type[Answer] | type[Event]] = {"incoming": Message, "outgoing": Answer, "on": Event}
PR_SET_PDEATHSIG = 1
#: the number of what it says when it was loaded; calls begin above it
LOADED = 0
#: of a reason
MOST = 500


def main(arguments: list[str]) -> None:
    """`file PATH` or `module NAME`, and the office's process."""
    kind, where, office = arguments
    _die_with(int(office))
    calls, answers = _lines()
    with _alone():
        hooks, failed = _loaded(kind, where)
    if failed is not None:
        _say(answers, LOADED, {"failed": failed})
        return
    _say(answers, LOADED, {"hooks": [asdict(spec) for spec, _ in hooks]})
    known = {(spec.hook, spec.name): (spec, function) for spec, function in hooks}
    with asyncio.Runner() as runner:
        for line in calls:
            call = json.loads(line)
            with _alone():
                answer = _answer(runner, *known[call["hook"], call["name"]], call["given"])
            _say(answers, call["number"], answer)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Around a stranger's code: a process that it forked ends here, however it got here."""
    ours = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != ours:
            # not the interpreter's own end: the loop's descriptors are those of the process that it is a copy of
            try:
                sys.stdout.flush()
            finally:
                os._exit(0)


def _loaded(kind: str, where: str) -> tuple[list[tuple[Spec, Callable[..., Any]]], str | None]:
    """Its hooks, or why there are none."""
    try:
        hooks = specs(list(vars(_load(kind, where)).items()))
    except NotTrusted as refused:
        return [], str(refused)
    except Exception as error:  # noqa: BLE001  # whatever a stranger's code raises is told to the office
        traceback.print_exc()
        return [], f"it cannot be loaded, {_words(error)}"
    return hooks, None if hooks else "it has no function with @incoming, @outgoing or @on"


def _load(kind: str, where: str) -> ModuleType:
    if kind == "module":
        return importlib.import_module(where)
    path = Path(where)
    source = read_source(path)
    module = ModuleType(f"manydesks_plugin_{path.stem.replace('-', '_')}")
    module.__file__ = where
    # dataclasses and the like look their module up
    sys.modules[module.__name__] = module
    exec(compile(source, where, "exec"), vars(module))
    return module


def _answer(runner: asyncio.Runner, spec: Spec, function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    thing = GIVEN[spec.hook](**given)
    try:
        result = function(thing)
        if inspect.iscoroutine(result):
            result = runner.run(result)
    except Refused as refused:
        if spec.hook == "incoming":
            return {"refused": str(refused)}
        return {"failed": "only @incoming can refuse"}
    except Exception as error:  # noqa: BLE001  # as above
        traceback.print_exc()
        return {"failed": _words(error)}
    if isinstance(thing, Event):
        return {}
    if isinstance(result, str):
        thing.text = result
    elif result is not None and result is not thing:
        return {"failed": f"it returned a {type(result).__name__}; a hook returns nothing, or a text"}
    return {"text": thing.text, "metadata": thing.metadata}


def _say(answers: BinaryIO, number: int, answer: dict[str, Any]) -> None:
    try:
        line = json.dumps({"number": number, **answer}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        line = json.dumps({"number": number, "failed": f"what it gave back is not JSON, {_words(error)}"})
    answers.write(line.encode() + b"\n")
    answers.flush()


def _words(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    # half a character would be refused by whoever stores the sentence
    return text[:MOST].encode(errors="replace").decode()


def _lines() -> tuple[BinaryIO, BinaryIO]:
    """The office's two pipes, out of the plugin's reach: what it prints or reads is something else."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    os.register_at_fork(after_in_child=partial(_hang_up, calls.fileno(), answers.fileno()))
    return calls, answers


def _hang_up(*line: int) -> None:
    """In a process that the plugin forked: the numbers stay taken, so that nothing else can come to stand there."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in line:
        os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _die_with(office: int) -> None:
    """A plugin that hangs sees no end of its input: the kernel ends it with the office. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != office:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    # threads that the plugin began keep nobody waiting
    os._exit(0)
