"""A durable queue in one SQLite file, for any Python program: on the lanes and claims that carry the office's messages.

q = Queue("jobs.db", "emails")
q.send({"to": "a@b"})
if m := q.receive():
    ...
    q.complete(m)
"""

from __future__ import annotations

from manydesks.queue.async_queue import AsyncQueue
from manydesks.queue.message import Job, Message
from manydesks.queue.processor import Processor
from manydesks.queue.queue import Queue
from manydesks.queue.round import Permanent

__all__ = ["AsyncQueue", "Job", "Message", "Permanent", "Processor", "Queue"]
