"""A client of the office's API: send, wait for the answer, follow what happens, deal with dead letters.

    from manydesks.client import Client

    with Client() as office:
        print(office.ask("@coder what is new?"))

`Client` blocks, `AsyncClient` is the same for coroutines. Both find the office of this machine and its token by
themselves; `Client("http://…", token="…")` names another, with its token.
"""

from __future__ import annotations

from manydesks.client.asynchronous import AsyncClient
from manydesks.client.blocking import Client
from manydesks.client.values import Event, Sent

__all__ = ["AsyncClient", "Client", "Event", "Sent"]
