"""The files for HTTPS: what is wrong with them is said in words, and nobody is asked for a pass phrase."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from manydesks.office.encryption import ENCRYPTED, fault_of
from manydesks.settings.model import ApiSettings


def made(folder: Path, name: str, *options: str) -> tuple[Path, Path]:
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", *(options or ("-nodes",)), "-days", "2",
         "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def fault(certificate: Path, key: Path) -> str | None:
    return fault_of(ApiSettings(tls_certificate=str(certificate), tls_key=str(key)))


def test_what_fits_has_no_fault(tmp_path: Path) -> None:
    assert fault(*made(tmp_path, "a")) is None
    assert fault_of(ApiSettings()) is None


def test_a_key_with_a_pass_phrase_is_refused_and_nobody_asked(tmp_path: Path) -> None:
    assert fault(*made(tmp_path, "a", "-passout", "pass:open sesame")) == ENCRYPTED


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    certificate, key = made(tmp_path, "a")
    assert fault(certificate, made(tmp_path, "b")[1]) == "the key is not the one of the certificate"
    (tmp_path / "text").write_text("hello")
    for pair in ((tmp_path / "text", key), (certificate, tmp_path / "text")):
        assert "do not hold a certificate and its key in PEM" in (fault(*pair) or "")


@pytest.mark.parametrize("number", [0, 1])
def test_the_file_that_is_not_there_is_named(tmp_path: Path, number: int) -> None:
    files = list(made(tmp_path, "a"))
    files[number] = tmp_path / "nothing"
    assert (fault(*files) or "").startswith(f"{tmp_path / 'nothing'}: ")
    os.mkfifo(tmp_path / "nothing")
    assert fault(*files) == f"{tmp_path / 'nothing'} is not a file"
