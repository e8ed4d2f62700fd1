"""Whether the files for HTTPS can be used, before anybody relies on them: for the API when it opens, and `doctor`."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from manydesks.settings.home import reason_of

if TYPE_CHECKING:
    from manydesks.settings.model import ApiSettings

ENCRYPTED = "the key is encrypted; give one without a pass phrase"
#: of what OpenSSL says, that which is not plain enough
WORDS = {
    "KEY_VALUES_MISMATCH": "the key is not the one of the certificate",
    "KEY_TYPE_MISMATCH": "the key is not the one of the certificate",
}


def fault_of(api: ApiSettings) -> str | None:
    """What is wrong with the certificate and the key, as the end of a sentence; None: nothing, or there are none.

    Reads both; asks nobody for a pass phrase.
    """
    if not api.tls_certificate or not api.tls_key:
        return None
    for file in (api.tls_certificate, api.tls_key):
        # a pipe would be waited for
        if Path(file).exists() and not Path(file).is_file():
            return f"{file} is not a file"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(api.tls_certificate, api.tls_key, _no_pass_phrase)
    except _Encrypted:
        return ENCRYPTED
    except ssl.SSLError as error:
        known = WORDS.get(error.reason or "")
        return known or f"they do not hold a certificate and its key in PEM ({error.reason or 'not readable'})"
    except OSError as error:
        return _unreadable(api, error)
    return None


class _Encrypted(Exception):
    """Somebody would have been asked for a pass phrase."""


def _no_pass_phrase() -> str:
    # without this OpenSSL asks at the terminal, and everything waits
    raise _Encrypted


def _unreadable(api: ApiSettings, error: OSError) -> str:
    """OpenSSL does not say which of them it was."""
    for file in (api.tls_certificate, api.tls_key):
        try:
            with Path(file).open("rb"):
                pass
        except OSError as found:
            return f"{file}: {reason_of(found)}"
    return reason_of(error)
