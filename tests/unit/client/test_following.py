"""When following gives up, and when it goes on."""

from __future__ import annotations

import ssl

import httpx
import pytest

from manydesks.client.following import LOOKS, Following
from manydesks.domain.errors import ApiRefused, OfficeError

URL = "http://office"


def following(*, wait: bool = False, asks: bool = False) -> Following:
    return Following(after=None, live=False, wait=wait, asks=asks)


def failed(kind: type[httpx.TransportError], cause: BaseException | None = None) -> httpx.TransportError:
    error = kind("it failed", request=httpx.Request("GET", f"{URL}/api/events/stream"))
    error.__cause__ = cause
    return error


NOBODY = failed(httpx.ConnectError)
#: the office was killed in the middle of a handshake
GONE = failed(httpx.ConnectError, ssl.SSLEOFError(8, "EOF occurred in violation of protocol"))
UNTRUSTED = failed(httpx.ConnectError, ssl.SSLCertVerificationError(1, "certificate verify failed"))


def stream() -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": "text/event-stream; charset=utf-8"})


@pytest.mark.parametrize("error", [NOBODY, GONE, failed(httpx.ReadTimeout), failed(httpx.RemoteProtocolError)])
def test_one_who_is_not_there_is_waited_for_if_it_was_there_before_or_that_was_wanted(
    error: httpx.TransportError,
) -> None:
    with pytest.raises(OfficeError, match=f"^The office does not answer at {URL}: "):
        following().lost(error)
    begun, patient = following(), following(wait=True)
    assert begun.begins(URL, stream())
    for _ in range(100):
        for one in (begun, patient):
            one.lost(error)
            one.refused(URL, httpx.Response(503))
    assert [patient.pause() for _ in range(7)] == [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 2.0]


def test_an_office_that_is_down_is_not_refusing() -> None:
    with pytest.raises(ApiRefused) as refused:
        following().refused(URL, httpx.Response(503))
    assert refused.value.status == 503


def test_one_who_is_there_and_is_another_is_not_waited_for() -> None:
    begun = following(wait=True)
    begun.begins(URL, stream())
    for one in (following(), begun):
        with pytest.raises(OfficeError, match="is not trusted"):
            one.lost(UNTRUSTED)
        with pytest.raises(OfficeError, match="is no office: its stream of events is text/html"):
            one.begins(URL, httpx.Response(200, html="<p>Welcome"))
        with pytest.raises(ApiRefused):
            one.refused(URL, httpx.Response(401))


def test_who_asks_the_office_where_it_is_asks_a_few_times_before_it_gives_up() -> None:
    one = following(asks=True)
    for _ in range(LOOKS):
        one.lost(NOBODY)
        one.pause()
    with pytest.raises(OfficeError, match="does not answer"):
        one.lost(NOBODY)
    # a new certificate after a long night is one that is not trusted yet
    one.begins(URL, stream())
    for _ in range(100):
        one.lost(NOBODY)
        one.pause()
    for _ in range(LOOKS):
        one.lost(UNTRUSTED)
    with pytest.raises(OfficeError, match="is not trusted"):
        one.lost(UNTRUSTED)


def test_too_many_requests_are_fewer_later() -> None:
    one = following()
    for said, seconds in (("7", 7.0), ("100000", 60.0), ("0", 0.2), ("tomorrow", 2.0)):
        one.refused(URL, httpx.Response(429, headers={"Retry-After": said}))
        assert one.pause() == seconds
