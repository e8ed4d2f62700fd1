from __future__ import annotations

import errno
from pathlib import Path

import pytest

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.disk import disk_refusals, is_full


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "/the/lake cannot be used, the disk is full."),
        (OSError(errno.EROFS, "Read-only", "/the/lake/.lock"), "/the/lake/.lock cannot be used, the file system is"),
        (
            OSError("Generic error\n  ↳ No space left on device (os error 28)\n"),
            "/the/lake cannot be used, the disk is",
        ),
        (OSError("two\n  lines"), "/the/lake cannot be used, two lines."),
    ],
)
def test_a_refusal_is_one_sentence(error: OSError, told: str) -> None:
    with pytest.raises(PipelineError) as refused, disk_refusals(Path("/the/lake")):
        raise error
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_broken_connection_is_no_matter_of_the_disk() -> None:
    with pytest.raises(BrokenPipeError), disk_refusals(Path("/the/lake")):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_disk_with_room_is_not_full(tmp_path: Path) -> None:
    assert not is_full(tmp_path)
    assert not is_full(tmp_path / "not there")
