"""What is said of answers that did not come."""

from __future__ import annotations

import httpx
import pytest

from manydesks.client.failure import is_hopeless, lost, unsent


def failed(kind: type[httpx.TransportError], words: str, url: str = "http://office:3777") -> httpx.TransportError:
    return kind(words, request=httpx.Request("GET", f"{url}/api/status?secret=1"))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (failed(httpx.ConnectError, "Connection refused"), "Connection refused."),
        (failed(httpx.ReadTimeout, ""), "ReadTimeout."),
        (
            failed(httpx.RemoteProtocolError, "Server disconnected without sending a response."),
            "it hung up (Server disconnected without sending a response); is it https there?",
        ),
        # an answer that has begun was one
        (failed(httpx.RemoteProtocolError, "peer closed connection."), "peer closed connection."),
    ],
)
def test_nobody_answers_at_an_address(error: httpx.TransportError, sentence: str) -> None:
    assert str(lost(error)) == f"The office does not answer at http://office:3777: {sentence}"
    assert not is_hopeless(error)


def test_a_password_in_an_address_is_not_shown() -> None:
    assert "kX2t" not in str(lost(failed(httpx.ConnectError, "Connection refused", "http://me:kX2t@office")))


def test_whether_a_message_is_stored_is_said_with_its_id() -> None:
    error = failed(httpx.ConnectError, "Connection refused")
    assert str(unsent(error, "m", perhaps=False)).endswith("refused. The message 'm' was not sent.")
    assert "'m' may have been stored" in str(unsent(error, "m", perhaps=True))
    assert unsent(error, "m", perhaps=True).details == {"message": "m"}
