"""An S3 server over a folder, on this machine's loopback: enough of the protocol for what reads and writes a lake.

A bucket is a folder and an object a plain file in it, so that whoever else has the folder sees the same. It knows GET
and HEAD with ranges, PUT (also with `If-None-Match: *`, which is atomic), copies, lists (version 2), deletes, also
several at once, and uploads in parts. It knows one access key and verifies no signature: for tests, never for data.

It is a process of its own: delta-rs keeps the interpreter to itself while it waits for an answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

ACCESS_KEY = "a-key-for-tests"
SECRET_KEY = "a-secret-for-tests"

#: keys that a list has at most
PAGE = 1_000
#: where uploads lie until they are whole; no bucket can have this name
UPLOADS = ".uploads"
#: what was asked, a line each; and the error that every request gets, if the file is there
ASKED, REFUSES = ".asked.jsonl", ".refuses"

_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/")
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class _Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request, as a test may want to know of it."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]


class S3:
    """A server that runs; `serve` starts one."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    @property
    def environ(self) -> dict[str, str]:
        """What a client has to find in its environment."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }

    def bucket(self, name: str) -> Path:
        """Makes the bucket; its folder."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def asked(self) -> list[Asked]:
        """Every request so far."""
        lines = (self.folder / ASKED).read_text(encoding="utf-8").splitlines()
        return [Asked(**json.loads(line)) for line in lines]

    def refuse(self, code: str | None) -> None:
        """Every request is answered by this error from now on, `AccessDenied` or another; None: by none."""
        path = self.folder / REFUSES
        if code is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(code)


@contextmanager
def serve(folder: Path, *, page: int = PAGE) -> Iterator[S3]:
    """A server over the folder, whose folders are buckets. `page`: keys of a list at most, fewer to make it turn."""
    command = [sys.executable, "-m", __name__, str(folder), str(page)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield S3(folder, process.stdout.readline().strip())
        finally:
            process.kill()


def main(folder: Path, page: int) -> None:
    """Serves until its stdin is closed: it ends with whoever started it, however that ended."""
    (folder / UPLOADS).mkdir(parents=True, exist_ok=True)
    (folder / ASKED).touch()
    handler = type("Handler", (_Handler,), {"folder": folder, "page": page, "writing": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # head and body in one packet, and at once: or else each answer waits for the client to have seen its first half
    wbufsize = -1
    disable_nagle_algorithm = True
    folder: Path
    page: int
    writing: threading.Lock

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._answer(lambda asked, body: self._list(asked) if not asked.key else self._get(asked))

    def do_HEAD(self) -> None:
        self._answer(lambda asked, body: self._get(asked))

    def do_PUT(self) -> None:
        self._answer(self._put)

    def do_DELETE(self) -> None:
        self._answer(lambda asked, body: self._delete(asked))

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, work: Callable[[Asked, bytes], None]) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = urlsplit(self.path)
        bucket, _, key = unquote(target.path).lstrip("/").partition("/")
        query = dict(parse_qsl(target.query, keep_blank_values=True))
        asked = Asked(method=self.command, bucket=bucket, key=key, query=query)
        with self.writing, (self.folder / ASKED).open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(asked)) + "\n")
        try:
            known = _CREDENTIAL.match(self.headers.get("Authorization") or "")
            if known is None or known[1] != ACCESS_KEY:
                raise _Refused(403, "InvalidAccessKeyId")
            with suppress(FileNotFoundError):
                code = (self.folder / REFUSES).read_text()
                raise _Refused(403 if code == "AccessDenied" else 503, code)
            work(asked, body)
        except _Refused as refused:
            self._xml(f"<Error><Code>{refused.code}</Code></Error>", refused.status)

    def _get(self, asked: Asked) -> None:
        try:
            with self._path(asked.bucket, asked.key).open("rb") as file:
                at = os.fstat(file.fileno())
                first, last = _span(self.headers.get("Range"), at.st_size)
                file.seek(first)
                data = file.read(last - first + 1) if self.command == "GET" else b""
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise _Refused(404, "NoSuchKey") from None
        headers = {
            "ETag": _etag(at),
            "Last-Modified": formatdate(at.st_mtime, usegmt=True),
            "Content-Length": str(last - first + 1),
        }
        if self.headers.get("Range"):
            headers["Content-Range"] = f"bytes {first}-{last}/{at.st_size}"
        self._send(206 if self.headers.get("Range") else 200, headers, data)

    def _put(self, asked: Asked, body: bytes) -> None:
        if upload := asked.query.get("uploadId"):
            part = self._upload(upload) / f"{int(asked.query['partNumber']):05d}"
            part.write_bytes(body)
            self._send(200, {"ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"', "Content-Length": "0"})
            return
        if source := self.headers.get("x-amz-copy-source"):
            bucket, _, key = unquote(source).lstrip("/").partition("/")
            try:
                body = self._path(bucket, key).read_bytes()
            except FileNotFoundError:
                raise _Refused(404, "NoSuchKey") from None
        fresh = self.folder / UPLOADS / uuid.uuid4().hex
        fresh.write_bytes(body)
        etag = self._place(fresh, asked)
        if source:
            self._xml(f"<CopyObjectResult><ETag>{escape(etag)}</ETag></CopyObjectResult>")
        else:
            self._send(200, {"ETag": etag, "Content-Length": "0"})

    def _post(self, asked: Asked, body: bytes) -> None:
        if "delete" in asked.query:
            keys = [found.text or "" for found in ElementTree.fromstring(body).iter() if _tag(found) == "Key"]
            for key in keys:
                self._remove(asked.bucket, key)
            gone = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
            self._xml(f"<DeleteResult>{gone}</DeleteResult>")
        elif "uploads" in asked.query:
            upload = uuid.uuid4().hex
            (self.folder / UPLOADS / upload).mkdir()
            self._xml(f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>")
        else:
            folder = self._upload(asked.query.get("uploadId", ""))
            numbers = [
                int(found.text or 0) for found in ElementTree.fromstring(body).iter() if _tag(found) == "PartNumber"
            ]
            whole = folder / "whole"
            with whole.open("wb") as file:
                for number in numbers:
                    file.write((folder / f"{number:05d}").read_bytes())
            etag = self._place(whole, asked)
            shutil.rmtree(folder)
            self._xml(
                f"<CompleteMultipartUploadResult><ETag>{escape(etag)}</ETag></CompleteMultipartUploadResult>",
            )

    def _delete(self, asked: Asked) -> None:
        if upload := asked.query.get("uploadId"):
            shutil.rmtree(self._upload(upload))
        else:
            self._remove(asked.bucket, asked.key)
        self._send(204, {})

    def _list(self, asked: Asked) -> None:
        query, bucket = asked.query, self._path(asked.bucket, "")
        if not bucket.is_dir():
            raise _Refused(404, "NoSuchBucket")
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = min(int(query.get("max-keys") or self.page), self.page)
        found: dict[str, os.stat_result | None] = {}
        for key, at in sorted(_objects(bucket, prefix), key=lambda one: one[0]):
            part = delimiter and delimiter in key[len(prefix) :]
            shown = key[: key.index(delimiter, len(prefix)) + len(delimiter)] if part else key
            if shown > after:
                found[shown] = None if part else at
        page = dict(islice(found.items(), most))
        parts = [f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"]
        more = len(found) > len(page)
        parts.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        if more:
            parts.append(f"<NextContinuationToken>{escape(list(page)[-1])}</NextContinuationToken>")
        for shown, kept in page.items():
            if kept is None:
                parts.append(f"<CommonPrefixes><Prefix>{escape(shown)}</Prefix></CommonPrefixes>")
                continue
            moment = datetime.fromtimestamp(kept.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            parts.append(
                f"<Contents><Key>{escape(shown)}</Key><LastModified>{moment}</LastModified>"
                f"<ETag>{escape(_etag(kept))}</ETag><Size>{kept.st_size}</Size></Contents>"
            )
        self._xml(f"<ListBucketResult>{''.join(parts)}</ListBucketResult>")

    def _place(self, fresh: Path, asked: Asked) -> str:
        """One file becomes the object, at once; if the request says so, only if there is none."""
        path = self._path(asked.bucket, asked.key)
        if not self._path(asked.bucket, "").is_dir():
            raise _Refused(404, "NoSuchBucket")
        etag = _etag(fresh.stat())
        while True:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                if self.headers.get("If-None-Match") == "*":
                    os.link(fresh, path)
                    fresh.unlink()
                else:
                    fresh.replace(path)
            except FileExistsError:
                raise _Refused(412, "PreconditionFailed") from None
            except FileNotFoundError:  # the folder was empty, and somebody has just removed it
                continue
            return etag

    def _remove(self, bucket: str, key: str) -> None:
        path, top = self._path(bucket, key), self._path(bucket, "")
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
        with suppress(OSError):  # there are no folders in S3; those that hold something stay
            for folder in path.parents:
                if folder == top:
                    break
                folder.rmdir()

    def _path(self, bucket: str, key: str) -> Path:
        parts = [bucket, *key.split("/")] if key else [bucket]
        if bucket.startswith(".") or any(part in ("", ".", "..") for part in parts):
            raise _Refused(400, "InvalidArgument")
        return self.folder.joinpath(*parts)

    def _upload(self, name: str) -> Path:
        folder = self.folder / UPLOADS / name
        if not re.fullmatch(r"[0-9a-f]{32}", name) or not folder.is_dir():
            raise _Refused(404, "NoSuchUpload")
        return folder

    def _xml(self, text: str, status: int = 200) -> None:
        data = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
        self._send(status, {"Content-Type": "application/xml", "Content-Length": str(len(data))}, data)

    def _send(self, status: int, headers: dict[str, str], data: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _objects(bucket: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    begin = bucket / prefix.rpartition("/")[0]
    for folder, _, names in os.walk(begin):
        for name in names:
            path = Path(folder, name)
            key = path.relative_to(bucket).as_posix()
            with suppress(FileNotFoundError):
                if key.startswith(prefix):
                    yield key, path.stat()


def _span(wanted: str | None, size: int) -> tuple[int, int]:
    """The first and the last byte that are asked for."""
    if wanted is None:
        return 0, size - 1
    found = _RANGE.fullmatch(wanted)
    if found is None or found[1] == found[2] == "":
        raise _Refused(400, "InvalidArgument")
    first = int(found[1]) if found[1] else max(size - int(found[2]), 0)
    last = min(int(found[2]), size - 1) if found[1] and found[2] else size - 1
    if first > last:
        raise _Refused(416, "InvalidRange")
    return first, last


def _etag(at: os.stat_result) -> str:
    return f'"{at.st_mtime_ns:x}-{at.st_size:x}"'


def _tag(found: ElementTree.Element) -> str:
    return found.tag.rpartition("}")[2]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
