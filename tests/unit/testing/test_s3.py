from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from manydesks.testing.s3 import ACCESS_KEY, S3, serve

KNOWN = {"Authorization": f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/us-east-1/s3/aws4_request"}


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3]:
    with serve(tmp_path, page=2) as started:
        started.bucket("box")
        yield started


@pytest.fixture
def client(s3: S3) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=s3.url, headers=KNOWN, trust_env=False) as made:
        yield made


def texts(answer: httpx.Response, name: str) -> list[str]:
    return [found.text or "" for found in ElementTree.fromstring(answer.content).iter(name)]


def test_an_object_is_a_plain_file(s3: S3, client: httpx.Client) -> None:
    put = client.put("/box/a/b%20c", content=b"0123456789")
    assert put.status_code == 200
    assert (s3.folder / "box" / "a" / "b c").read_bytes() == b"0123456789"
    got = client.get("/box/a/b%20c")
    assert (got.content, got.headers["ETag"]) == (b"0123456789", put.headers["ETag"])
    seen = client.head("/box/a/b%20c")
    assert (seen.headers["Content-Length"], seen.content) == ("10", b"")

    (s3.folder / "box" / "there").write_text("before anybody asked")
    assert client.get("/box/there").text == "before anybody asked"
    assert client.delete("/box/a/b%20c").status_code == 204
    assert client.delete("/box/a/b%20c").status_code == 204
    assert [path.name for path in (s3.folder / "box").iterdir()] == ["there"]
    assert client.get("/box/a/b%20c").status_code == client.head("/box/a").status_code == 404


@pytest.mark.parametrize(
    ("wanted", "status", "content"),
    [("0-3", 206, b"0123"), ("7-", 206, b"789"), ("-2", 206, b"89"), ("4-99", 206, b"456789"), ("10-", 416, None)],
)
def test_ranges(client: httpx.Client, wanted: str, status: int, content: bytes | None) -> None:
    client.put("/box/x", content=b"0123456789")
    got = client.get("/box/x", headers={"Range": f"bytes={wanted}"})
    assert got.status_code == status
    assert content is None or got.content == content


def test_only_if_there_is_none(client: httpx.Client) -> None:
    alone = {"If-None-Match": "*"}
    assert client.put("/box/x", content=b"first", headers=alone).status_code == 200
    assert client.put("/box/x", content=b"second", headers=alone).status_code == 412
    assert client.get("/box/x").content == b"first"
    assert client.put("/box/x", content=b"third").status_code == 200
    assert client.get("/box/x").content == b"third"


def test_lists_turn_their_pages(client: httpx.Client) -> None:
    for name in ("a/1", "a/2", "a/b/3", "a/c/4", "d"):
        client.put(f"/box/{name}", content=b"x")
    found, token = [], ""
    while True:
        page = client.get("/box", params={"list-type": "2", **({"continuation-token": token} if token else {})})
        keys = texts(page, "Key")
        assert len(keys) <= 2
        found += keys
        if texts(page, "IsTruncated") == ["false"]:
            break
        [token] = texts(page, "NextContinuationToken")
    assert found == ["a/1", "a/2", "a/b/3", "a/c/4", "d"]

    asked = {"list-type": "2", "prefix": "a/", "delimiter": "/"}
    first = client.get("/box", params=asked)
    assert texts(first, "Key") == ["a/1", "a/2"]
    second = client.get("/box", params={**asked, "continuation-token": texts(first, "NextContinuationToken")[0]})
    assert texts(second, "Prefix") == ["a/", "a/b/", "a/c/"]
    assert texts(client.get("/box", params={"list-type": "2", "start-after": "a/c/4"}), "Key") == ["d"]
    assert client.get("/other", params={"list-type": "2"}).status_code == 404


def test_several_go_at_once(client: httpx.Client) -> None:
    for name in ("a", "b", "c"):
        client.put(f"/box/{name}", content=b"x")
    body = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>"
    assert texts(client.post("/box?delete", content=body), "Key") == ["a", "b"]
    assert texts(client.get("/box", params={"list-type": "2"}), "Key") == ["c"]


def test_an_upload_in_parts_is_there_as_a_whole(client: httpx.Client) -> None:
    [upload] = texts(client.post("/box/big?uploads"), "UploadId")
    for number, part in ((2, b"second"), (1, b"first ")):
        client.put("/box/big", params={"partNumber": number, "uploadId": upload}, content=part)
    assert client.head("/box/big").status_code == 404
    parts = "".join(f"<Part><PartNumber>{number}</PartNumber></Part>" for number in (1, 2))
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
    assert client.post("/box/big", params={"uploadId": upload}, content=body).status_code == 200
    assert client.get("/box/big").content == b"first second"

    [upload] = texts(client.post("/box/gone?uploads"), "UploadId")
    assert client.delete("/box/gone", params={"uploadId": upload}).status_code == 204
    assert client.post("/box/gone", params={"uploadId": upload}, content=body).status_code == 404


def test_strangers_and_ways_out_are_refused(s3: S3, client: httpx.Client) -> None:
    (s3.folder / "outside").write_text("hush")
    assert client.get("/box/%2e%2e/outside").status_code == 400
    assert client.get("/.uploads/x").status_code == 400
    assert httpx.get(f"{s3.url}/box/x", trust_env=False).status_code == 403
    s3.refuse("SlowDown")
    assert client.get("/box/x").status_code == 503
    s3.refuse(None)
    assert client.get("/box/x").status_code == 404
    assert s3.asked()[-1].key == "x"
