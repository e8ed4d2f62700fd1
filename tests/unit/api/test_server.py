"""The socket that the API listens at."""

from __future__ import annotations

import socket

import pytest

from manydesks.api.server import listen, port_of


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_no_connection_holds_back_the_end_of_an_answer(host: str) -> None:
    with listen(host, 0) as listener:
        listener.setblocking(True)
        with socket.create_connection((host, port_of(listener))):
            connection, _ = listener.accept()
            with connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
