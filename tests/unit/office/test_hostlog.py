from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from manydesks.office.hostlog import HostLog

SAYING = """
import logging
from manydesks.office import hostlog
hostlog.set_up("info", lambda: {"key": "sk-secret-1234"})
logging.getLogger("httpx").info("HTTP Request: POST http://desk/v1/messages")
logging.getLogger("httpcore.connection").info("connect_tcp.started")
logging.getLogger("manydesks.x").info("the key is %s", "sk-secret-1234")
try:
    raise ValueError("sk-secret-1234 is no key")
except ValueError:
    logging.getLogger("manydesks.x").exception("It failed")
"""


def test_lines_hold_no_secrets_and_none_for_each_call() -> None:
    said = subprocess.run([sys.executable, "-c", SAYING], capture_output=True, text=True, check=True).stderr
    assert "INFO manydesks.x: the key is ***\n" in said
    assert "ValueError: *** is no key" in said
    assert "sk-secret" not in said
    assert "HTTP Request" not in said
    assert "connect_tcp" not in said


def opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def test_a_file_that_has_grown_is_renamed_and_both_streams_go_on_in_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "host.log"
    out, err = opened(path), opened(path)
    try:
        log = HostLog(path, file_bytes=10, kept=2, streams=(out, err))
        for number in range(4):
            os.write(out, b"o" * 6)
            log.look()
            assert path.stat().st_size == 6
            os.write(err, b"%d" % number * 6)
            log.look()
            assert (path.stat().st_size, stat.S_IMODE(path.stat().st_mode)) == (0, 0o600)
    finally:
        os.close(out)
        os.close(err)
    assert {name.name: name.read_bytes() for name in tmp_path.iterdir()} == {
        "host.log": b"",
        "host.log.1": b"oooooo333333",
        "host.log.2": b"oooooo222222",
    }


def test_a_file_that_the_streams_do_not_lead_to_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.log"
    other = opened(tmp_path / "terminal")
    try:
        log = HostLog(path, file_bytes=10, streams=(other,))
        log.look()  # there is none yet
        path.write_bytes(b"x" * 100)
        log.look()
    finally:
        os.close(other)
    assert sorted(name.name for name in tmp_path.iterdir()) == ["host.log", "terminal"]
