"""What a runner sets up for the programs of its provider: the desk's tools over loopback, and a port to the model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.runner.orders import Orders
from manydesks.runner.providers.base import Descriptor, Station

if TYPE_CHECKING:
    from manydesks.runner.toolserver import ToolServer


@dataclass(frozen=True, kw_only=True, slots=True)
class Equipment:
    #: the desk as the provider finds it
    station: Station
    #: serves the tools to programs; None: the provider calls them directly
    tools: ToolServer | None


@asynccontextmanager
async def equipped(descriptor: Descriptor, orders: Orders) -> AsyncIterator[Equipment]:
    """All of it while it lasts; nothing that the descriptor does not ask for is made, or imported."""
    async with AsyncExitStack() as made:
        server, url, port = None, None, None
        if descriptor.program is not None:
            from manydesks.runner.toolserver import ToolServer

            server = ToolServer()
            url = await server.start()
            made.push_async_callback(server.close)
        if descriptor.needs_tcp and orders.endpoint is not None:
            from manydesks.runner.forwarder import Forwarder

            forwarder = Forwarder(Path(orders.endpoint["socket"]))
            await forwarder.start()
            made.push_async_callback(forwarder.stop)
            port = forwarder.port
        yield Equipment(station=orders.station(tools_url=url, port=port), tools=server)
