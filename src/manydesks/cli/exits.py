"""Exit codes: the first three are every Unix command's, the others follow their best-known users."""

from __future__ import annotations

#: it was done, or it is so
OK = 0
#: it was not done, or it is not so
FAILED = 1
#: the command line or the input is not allowed; nothing was changed
USAGE = 2
#: a fault of ManyDesks itself (sysexits' EX_SOFTWARE)
INTERNAL = 70
#: somebody else is at it; later it can be done (sysexits' EX_TEMPFAIL)
BUSY = 75
#: the time given was over first (as timeout(1))
TIMED_OUT = 124
#: stopped by Ctrl-C (128 + SIGINT)
INTERRUPTED = 130
#: whoever read the output went away (128 + SIGPIPE)
OUTPUT_CLOSED = 141
