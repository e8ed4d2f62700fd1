"""The token of the API: made once, the owner's alone, never repeated in an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.errors import SettingsError
from manydesks.settings.home import Home
from manydesks.settings.token import read_token, rotate_token, token_of


def test_it_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert read_token(home) is None
    token = token_of(home)
    assert token_of(home) == token == read_token(home)
    assert home.token_file.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 43
    assert rotate_token(home) != token


def test_one_that_others_may_read_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    token = token_of(home)
    home.token_file.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600") as refused:
        token_of(home)
    assert token not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 600, b"with blanks " * 8, b"\xff" * 40])
def test_what_is_no_token_is_refused_and_not_repeated(tmp_path: Path, content: bytes) -> None:
    home = Home(tmp_path)
    home.token_file.write_bytes(content)
    home.token_file.chmod(0o600)
    with pytest.raises(SettingsError, match="token rotate"):
        read_token(home)
    assert read_token(home) if rotate_token(home) else False
