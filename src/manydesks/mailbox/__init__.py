"""The file pair between the host and a desk: `in/inbound.db` and `out/outbound.db`.

Both sides use the standard library's SQLite and nothing else: POSIX locks belong to the process, so a second SQLite
library on the same file in one process would silently drop the first one's locks.
"""
