"""Runs as a process of its own between the office and a desk without a sandbox, so that the whole tree can be ended.

It adopts what its descendants orphan (the kernel hands it every daemon that left its parents), ends all of them when
the program ends, and also when the office does, however the office ended.

    python -I -m manydesks.desk.sandboxes.supervisor PARENT LIMITS PROGRAM ARGUMENT …
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from manydesks.desk.sandboxes import tree
from manydesks.desk.sandboxes.limits import Limits, apply

#: of `prctl`: a signal when the parent ends, no privileges from setuid programs, adopt orphans
_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _CHILD_SUBREAPER = 1, 38, 36
_HEARD = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
#: what a shell says for a program that it cannot start
_NOT_STARTED = 127


def main() -> int:
    parent, limits, argv = int(sys.argv[1]), Limits(**json.loads(sys.argv[2])), sys.argv[3:]
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    if sys.platform == "linux":
        control = ctypes.CDLL(None).prctl
        control(_CHILD_SUBREAPER, 1, 0, 0, 0)
        control(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        control(_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        return 128 + signal.SIGTERM
    program = os.fork()
    if program == 0:
        _become(argv, limits)
    code = _watch(program, parent)
    tree.end(lambda: tree.descendants(os.getpid()))
    return code


def _become(argv: list[str], limits: Limits) -> None:
    """Never returns."""
    try:
        apply(0, limits, count_tasks=False)
        with contextlib.suppress(OSError):  # if memory runs out, a desk goes before the office does
            Path("/proc/self/oom_score_adj").write_text("500")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, for itself
            signal.signal(ignored, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        sys.stderr.flush()
    finally:
        os._exit(_NOT_STARTED)


def _watch(program: int, parent: int) -> int:
    """Until the program ends, or the office does; signals of a living office are passed on."""
    while True:
        heard = signal.sigwait(_HEARD)
        if heard != signal.SIGCHLD:
            if os.getppid() != parent:
                return 128 + signal.SIGTERM
            tree.send(program, heard)
            continue
        # several children that end together are one signal; adopted ones are reaped here as well
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if ended[0] == program:
                    code = os.waitstatus_to_exitcode(ended[1])
                    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
