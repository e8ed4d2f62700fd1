"""Files of a workspace on their way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.attachment import MAX_FILES
from manydesks.runner.sending import with_files
from manydesks.runner.tools.base import Means


@pytest.fixture
def means(tmp_path: Path) -> Means:
    for folder in ("workspace/sub", "out/outbox"):
        (tmp_path / folder).mkdir(parents=True)
    return Means(workspace=tmp_path / "workspace", outbox=tmp_path / "out" / "outbox")


def put(means: Means, name: str, text: str) -> None:
    assert means.workspace is not None
    (means.workspace / name).write_text(text)


def lies(means: Means) -> dict[str, str]:
    assert means.outbox is not None
    return {path.name: path.read_text() for path in means.outbox.glob("out_1/*")}


async def test_a_file_goes_along_and_the_text_says_so(means: Means) -> None:
    put(means, "a.txt", "tea")
    assert await with_files("see [send_file: a.txt].", means, "out_1") == ("see (file: a.txt).", ["a.txt"])
    assert lies(means) == {"a.txt": "tea"}


async def test_the_same_file_is_sent_once_and_others_keep_their_own_names(means: Means) -> None:
    put(means, "a.txt", "one")
    put(means, "sub/a.txt", "two")
    text = "[send_file: a.txt] [send_file: a.txt] [send_file: sub/a.txt]"
    said, names = await with_files(text, means, "out_1")
    assert said == "(file: a.txt) (file: a.txt) (file: a (2).txt)"
    assert names == ["a.txt", "a (2).txt"]
    assert lies(means) == {"a.txt": "one", "a (2).txt": "two"}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../a.txt", "'..' is not allowed in a path; name the file from your workspace"),
        ("/etc/passwd", "only files of your workspace and of your outbox can be sent"),
        ("link", "'link' is a symbolic link"),
        ("through/passwd", "'through' is a symbolic link"),
        ("missing", "there is no"),
        ("sub", "regular file"),
        ("", "a path names a file"),
    ],
)
async def test_what_is_not_sent_is_said(means: Means, path: str, why: str) -> None:
    assert means.workspace is not None
    (means.workspace / "link").symlink_to("/etc/passwd")
    (means.workspace / "through").symlink_to("/etc")
    said, names = await with_files(f"see [send_file: {path}]", means, "out_1")
    assert said.startswith(f"see (The file '{path}' was not sent: ")
    assert why in said
    assert (names, lies(means)) == ([], {})


async def test_no_more_than_a_message_takes(means: Means) -> None:
    for number in range(MAX_FILES + 1):
        put(means, f"{number}.txt", "x")
    tags = "".join(f"[send_file: {number}.txt]" for number in range(MAX_FILES + 1))
    said, names = await with_files(tags, means, "out_1")
    assert len(names) == MAX_FILES
    assert said.endswith(f"(The file '10.txt' was not sent: at most {MAX_FILES} files go with one message.)")


async def test_a_desk_without_a_workspace(means: Means) -> None:
    said, names = await with_files("[send_file: a]", Means(), "out_1")
    assert (said, names) == ("(The file 'a' was not sent: files cannot be sent from this desk.)", [])


async def test_an_escaped_tag_is_text(means: Means) -> None:
    assert await with_files(r"write \[send_file: a]", means, "out_1") == ("write [send_file: a]", [])
