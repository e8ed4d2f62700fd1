"""What stands between the office and a command of the pipeline: it makes the process a modest one that does not outlive
the office, and becomes the command.

Standard library only. The arguments are the office's process and the command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
#: messages go first
NICE = 10


def main(arguments: list[str]) -> None:
    office, *command = arguments
    os.nice(NICE)
    if sys.platform == "linux":  # elsewhere `--parent` ends a watch; a run goes on to its end
        # kept over the exec: the command hears of the office's end as it hears of a wish to end
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != int(office):
        return
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
