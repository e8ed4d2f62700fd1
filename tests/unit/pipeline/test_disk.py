from __future__ import annotations

import errno
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'manydesks[pipeline]'")

from deltalake.exceptions import CommitFailedError, DeltaError

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.disk import disk_refusals, is_full

#: as delta-rs has it before each cause
ARROW = "\x1b[31m↳\x1b[0m"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "/the/lake cannot be used, the disk is full."),
        (OSError(errno.EROFS, "Read-only", "/the/lake/.lock"), "/the/lake/.lock cannot be used, the file system is"),
        (
            OSError("Generic error\n  ↳ No space left on device (os error 28)\n"),
            "/the/lake cannot be used, the disk is",
        ),
        (
            OSError(
                f"Generic S3 error\n  {ARROW} Error performing list request\n    {ARROW} Error performing GET"
                f" http://host/b?sig=hush in 3ms - Server returned non-2xx status code\n  {ARROW} 403 Forbidden\n"
                f'  {ARROW} <?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>No</Message></Error>\n'
            ),
            "/the/lake cannot be used, Generic S3 error: Server returned non-2xx status code: 403 Forbidden: AccessDen",
        ),
        (
            OSError(
                "Kernel error -> Generic S3 error\n  ↳ Error performing GET http://host/b in 205ms, after 2 retries,"
                " max_retries\n  ↳ 2, retry_timeout\n  ↳ 5s  - HTTP error\n  ↳ error sending request\n"
            ),
            "/the/lake cannot be used, Kernel error -> Generic S3 error: HTTP error: error sending request.",
        ),
        (
            OSError("Operation not supported: an error occurred while loading credentials: failed to load IMDS"),
            "/the/lake cannot be used, it takes no request without credentials, which the environment has to have",
        ),
        (
            OSError(f"Generic GCS error\n  {ARROW} Error performing token request\n  {ARROW} 403 Forbidden\n"),
            "(for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for Google GOOGLE_SERVICE_ACCOUNT, for Azure AZURE_S",
        ),
        (OSError("two\n  lines"), "/the/lake cannot be used, two lines."),
    ],
)
def test_a_refusal_is_one_sentence(error: OSError, told: str) -> None:
    with pytest.raises(PipelineError) as refused, disk_refusals(Path("/the/lake")):
        raise error
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [DeltaError, CommitFailedError])
def test_a_full_disk_is_told_also_where_delta_has_its_own_error(kind: type[DeltaError]) -> None:
    said = "Kernel error: Generic LocalFileSystem error: Unable to copy data to file: No space left on device"
    with (
        pytest.raises(PipelineError, match="/the/lake cannot be used, the disk is full"),
        disk_refusals(Path("/the/lake")),
    ):
        raise kind(f"{said} (os error 28)")


@pytest.mark.parametrize("error", [DeltaError("Kernel error: (os error 2)"), ValueError("(os error 28)")])
def test_what_is_of_no_full_disk_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, disk_refusals(Path("/the/lake")):
        raise error
    assert raised.value is error


def test_a_broken_connection_is_no_matter_of_the_disk() -> None:
    with pytest.raises(BrokenPipeError), disk_refusals(Path("/the/lake")):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_disk_with_room_is_not_full(tmp_path: Path) -> None:
    assert not is_full(tmp_path)
    assert not is_full(tmp_path / "not there")
