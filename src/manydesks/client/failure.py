"""What it means that no answer came, or none that an office gives; one sentence for each."""

from __future__ import annotations

import ssl

import httpx

from manydesks.domain.errors import OfficeError

#: no answer came: the office may or may not have done it
NO_ANSWER = (httpx.TransportError,)
#: of these it was not even asked
NOT_ASKED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
#: the other side has gone in the middle of a handshake, which says nothing about who it is
_GONE = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def is_hopeless(error: BaseException) -> bool:
    """Whether somebody is there who will not be this office, however often it is tried: no TLS, no certificate that is
    trusted, no HTTP."""
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return True
    if isinstance(error, httpx.RemoteProtocolError):
        return "illegal" in str(error)  # what HTTP's own grammar says of another language
    return (refused := _handshake(error)) is not None and not isinstance(refused, _GONE)


def lost(error: httpx.TransportError) -> OfficeError:
    """Nobody is there, or the connection was lost, or whoever is there is not to be talked with."""
    asked = error.request.url
    url = f"{asked.scheme}://{asked.netloc.decode()}"
    refused = _handshake(error)
    if isinstance(refused, ssl.SSLCertVerificationError):
        return OfficeError(f"The certificate of whoever answers at {url} is not trusted: {_words(error)}.")
    if refused is not None and not isinstance(refused, _GONE):
        return OfficeError(f"What answers at {url} does not speak TLS as it should: {_words(error)}; is it http there?")
    if is_hopeless(error):
        return no_office(url, f"it does not speak HTTP, {_words(error)}")
    # who speaks TLS only does so; as does an office that ends just now
    if url.startswith("http:") and (isinstance(error, httpx.ReadError) or "without sending a response" in str(error)):
        return OfficeError(f"The office does not answer at {url}: it hung up ({_words(error)}); is it https there?")
    return OfficeError(f"The office does not answer at {url}: {_words(error)}.")


def unsent(error: httpx.TransportError, message: str, *, perhaps: bool) -> OfficeError:
    """`perhaps`: it may have been stored. The id is in the error's `details` too, as `message`."""
    stands = (
        f"The message '{message}' may have been stored; sent again with this id (`message_id`) it is not stored twice."
        if perhaps
        else f"The message '{message}' was not sent."
    )
    return OfficeError(f"{lost(error)} {stands}", message=message)


def unheard(error: httpx.TransportError, message: str) -> OfficeError:
    """The message is stored, and what became of it is not known."""
    return OfficeError(f"{lost(error)} The message '{message}' is stored; `wait` waits for it.", message=message)


def no_office(url: str, why: str) -> OfficeError:
    return OfficeError(f"What answers at {url} is no office: {why}.")


def closed() -> OfficeError:
    return OfficeError("This client was closed, and asks nothing more; make a new one.")


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__).rstrip(".")


def _handshake(error: BaseException) -> ssl.SSLError | None:
    """What TLS said, below what the libraries made of it."""
    below: BaseException | None = error
    while below is not None and not isinstance(below, ssl.SSLError):
        below = below.__cause__ or below.__context__
    return below
