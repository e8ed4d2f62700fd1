from __future__ import annotations

import os
from pathlib import Path

import pytest

from manydesks.domain.errors import HomeError, SettingsError
from manydesks.settings.document import read_document


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.toml"


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ("# a comment\n\n[retry]\n# another\njitter = 1\n", ("retry", "jitter"), 5),
        ("[retry]\njitter = 1\n", ("retry",), 1),
        ("x = 1\nretry.jitter = 1\n", ("retry", "jitter"), 2),
        ("x = 1\nretry = { base = 2, jitter = 1 }", ("retry", "jitter"), 2),
        ('a = """\n[retry]\njitter = 1\n"""\n\n[ "retry" ]\n"jitter" = 1', ("retry", "jitter"), 7),
        ("a = [\n  1,\n  2,\n]\nb = [\n3]\n", ("b",), 5),
        ("[[retry]]\njitter = 1\n", ("retry",), 1),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
        ("a = 1\n", ("b",), None),
        ("a = 1\n", ("a", "b"), None),
    ],
)
def test_the_line_on_which_a_key_is_set(path: Path, text: str, key: tuple[str, ...], line: int | None) -> None:
    path.write_bytes(text.encode())
    assert read_document(path).line_of(key) == line


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"a = 1\n[retry\n", 2),
        (b"a = 1\n\nb =\n", 3),
        (b"a = 1\na = 2\n", 2),
        (b"a = 1\nb = [1,\n2", 3),
        (b"a = 1\nb = '\xff'\n", 2),
        (b"a = 1\n\nb = 1" + b"0" * 5000 + b"\n", 3),
        (b"a = 1\nb = " + b"[" * 5000 + b"\n", 2),
        (b"\xef\xbb\xbfa = 1\n", 1),
    ],
)
def test_a_broken_file_is_reported_with_its_line_and_left_as_it_is(path: Path, raw: bytes, line: int) -> None:
    path.write_bytes(raw)
    with pytest.raises(SettingsError) as caught:
        read_document(path)
    assert f"{path}, line {line}: " in str(caught.value)
    assert str(caught.value).endswith("; the file was left as it is.")
    assert path.read_bytes() == raw
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("raw", [b'key = "hush-hush\n', b"hush-hush", b"a = 1\n[hush-hush]\n[hush-hush]", b"hush-\xff"])
def test_a_private_file_is_not_quoted_not_even_by_a_chained_error(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    with pytest.raises(SettingsError) as caught:
        read_document(path, private=True)
    assert "hush" not in str(caught.value)
    assert caught.value.__context__ is None


def test_the_repr_shows_no_content(path: Path) -> None:
    path.write_text("a = 'hush-hush'")
    assert "hush" not in repr(read_document(path))


def test_a_missing_file_is_empty(path: Path) -> None:
    document = read_document(path)
    assert (document.data, document.text, document.mode) == ({}, "", None)


def test_a_link_to_nowhere_is_not_a_missing_file(path: Path) -> None:
    path.symlink_to("unmounted/some.toml")
    with pytest.raises(SettingsError, match="is a link to a file that does not exist"):
        read_document(path)


def test_what_is_no_file_is_refused_without_waiting(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(SettingsError, match="is not a file"):
        read_document(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingsError, match="is not a file"):
        read_document(path)


def test_a_file_that_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeError, match="cannot be read, a part of the path is not a folder"):
        read_document(tmp_path / "file" / "some.toml")
