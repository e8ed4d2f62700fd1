from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import annotated_types
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from manydesks.domain.errors import HomeError, SettingsError
from manydesks.settings.document import Document
from manydesks.settings.file import change_settings, dump_settings, edited, home_lock, replace_file
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings
from manydesks.settings.model import Settings, sections
from manydesks.settings.secrets import load_secrets, set_secret
from manydesks.testing.disk import fill


def test_a_change_keeps_comments_and_order(home: Home) -> None:
    home.settings_file.write_text(
        "# my office\n[limits]\nhops = 3 # careful\n\n[retry] # slow\njitter = 0.5\n# end\n[office]\n"
    )
    changed = change_settings(home, "limits.hops", 4)
    assert changed.limits.hops == 4
    change_settings(home, "retry.base_seconds", 1.5)
    change_settings(home, "delivery.max_attempts", 2)
    text = home.settings_file.read_text()
    assert text.startswith("# my office\n[limits]\nhops = 4 # careful\n\n[retry] # slow\njitter = 0.5\n# end\n")
    loaded = load_settings(home, {})
    assert (loaded.limits.hops, loaded.retry.base_seconds, loaded.retry.jitter) == (4, 1.5, 0.5)
    assert loaded.delivery.max_attempts == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        "[retry]\njitter = 0.5",
        "retry = { jitter = 0.5 } # x\n",
        "retry = {}\n",
        "retry.jitter = 0.5\n[limits]\nhops = 3\n",
        '["retry"]\r\n"jitter" = 0.5\r\n\r\n[limits]\r\nhops = 3\r\n',
    ],
)
def test_a_change_of_a_file_in_any_style(home: Home, text: str) -> None:
    home.settings_file.write_bytes(text.encode())
    before = load_settings(home, {}).model_dump()
    change_settings(home, "retry.base_seconds", 7.5)
    before["retry"]["base_seconds"] = 7.5
    assert load_settings(home, {}).model_dump() == before


def test_a_change_in_a_home_that_does_not_exist_yet(tmp_path: Path) -> None:
    home = Home(tmp_path / "new")
    change_settings(home, "limits.hops", 4)
    assert load_settings(home, {}).limits.hops == 4
    assert stat.S_IMODE(home.settings_file.stat().st_mode) == 0o600


def test_the_mode_of_an_existing_file_and_a_link_are_kept(home: Home, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("")
    real.chmod(0o640)
    home.settings_file.symlink_to(real)
    change_settings(home, "limits.hops", 4)
    assert home.settings_file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "hops = 4" in real.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the file of another user")
def test_a_change_by_root_leaves_the_file_to_its_owner(home: Home) -> None:
    home.settings_file.write_text("")
    os.chown(home.settings_file, 65534, 65534)
    change_settings(home, "limits.hops", 4)
    assert (home.settings_file.stat().st_uid, home.settings_file.stat().st_gid) == (65534, 65534)


def test_a_change_to_the_present_value_writes_nothing(home: Home) -> None:
    change_settings(home, "limits.hops", 4)
    before = home.settings_file.stat().st_ino
    change_settings(home, "limits.hops", 4)
    assert home.settings_file.stat().st_ino == before


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("retry.base_second", 1, "unknown key 'retry.base_second', the nearest name is 'retry.base_seconds'"),
        ("base_seconds", 1, "the nearest name is 'retry.base_seconds'"),
        ("retry", 1, "unknown key 'retry'"),
        ("retry.base_seconds.x", 1, "the nearest name is 'retry.base_seconds'"),
        ("retry.max_attempts", 0, "retry.max_attempts is 0, but must be a whole number from 1 up to 100"),
        ("retry.max_attempts", "5", 'retry.max_attempts is "5", but must be'),
        ("retry.base_seconds", float("nan"), "retry.base_seconds is nan, but must be"),
    ],
)
def test_a_wrong_change_is_refused_and_writes_nothing(home: Home, path: str, value: Any, told: str) -> None:
    home.settings_file.write_text("# mine\n")
    with pytest.raises(SettingsError, match=re.escape(told)):
        change_settings(home, path, value)
    assert home.settings_file.read_text() == "# mine\n"


@pytest.mark.parametrize(
    "raw", [b"[retry\njitter = 1", b"[retry]\njitter = 7\n", b"[retyr]\n", b"\xff", b"retry = 5\n"]
)
def test_a_broken_file_is_never_rewritten(home: Home, raw: bytes) -> None:
    home.settings_file.write_bytes(raw)
    with pytest.raises(SettingsError, match=r"settings\.toml, line \d+: "):
        change_settings(home, "limits.hops", 4)
    assert home.settings_file.read_bytes() == raw
    assert {path.name for path in home.path.iterdir() if path.is_file()} == {"settings.toml"}


@pytest.mark.parametrize("text", ["[limits]\nhops = 3\n", "[limits\n"])
def test_an_edit_that_would_say_something_else_is_refused(home: Home, text: str) -> None:
    """The editor and the reader are two parsers: here they disagree about what the text says."""
    document = Document(path=home.settings_file, text=text, data={"limits": {"hops": 4}}, mode=None)
    with pytest.raises(SettingsError, match=r"retry\.jitter must be changed by hand"):
        edited(document, ("retry", "jitter"), 0.5)


def test_a_held_lock_is_waited_for_and_then_told(home: Home) -> None:
    class Impatient:
        """A clock on which every look takes four seconds."""

        def __init__(self) -> None:
            self.at = 0

        def now(self) -> int:
            return self.at

        def monotonic(self) -> int:
            self.at += 4000
            return self.at

    clock = Impatient()
    with (
        home_lock(home),
        pytest.raises(HomeError, match=r"another process has held .*settings\.lock for 10 s"),
        home_lock(home, clock),
    ):
        pass
    assert clock.at == 16_000


def test_the_lock_is_free_after_an_error_inside_it(home: Home) -> None:
    with pytest.raises(ZeroDivisionError), home_lock(home):
        raise ZeroDivisionError
    with (home.run / "settings.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_full_disk_is_one_sentence_and_loses_nothing(disk: Callable[[str], Path]) -> None:
    folder = disk("size=128k")
    home = Home(folder / "home")
    change_settings(home, "limits.hops", 4)
    set_secret(home, "api_key", "hush-hush")
    settings_before, secrets_before = home.settings_file.read_bytes(), home.secrets_file.read_bytes()
    ballast = fill(folder)
    with pytest.raises(HomeError) as caught:
        change_settings(home, "limits.hops", 5)
    assert str(caught.value) == (
        f"The home {home.path} cannot be used: {home.settings_file} cannot be written, the disk is full; "
        "it was left as it was."
    )
    with pytest.raises(HomeError, match=r"secrets\.toml cannot be written, the disk is full") as caught:
        set_secret(home, "api_key", "new-hush-hush")
    assert "hush" not in str(caught.value)
    assert home.settings_file.read_bytes() == settings_before
    assert home.secrets_file.read_bytes() == secrets_before
    assert {path.name for path in home.path.iterdir() if path.is_file()} == {"settings.toml", "secrets.toml"}
    ballast.unlink()
    assert change_settings(home, "limits.hops", 5).limits.hops == 5


def test_a_read_only_disk_is_one_sentence_and_can_still_be_read(disk: Callable[[str], Path]) -> None:
    home = Home(disk("size=1m"))
    change_settings(home, "limits.hops", 4)
    set_secret(home, "api_key", "hush-hush")
    subprocess.run(["mount", "-o", "remount,ro", str(home.path)], check=True)
    for act in (lambda: change_settings(home, "limits.hops", 5), lambda: set_secret(home, "api_key", "other-value")):
        with pytest.raises(HomeError, match="the file system is read-only"):
            act()
    assert load_settings(home, {}).limits.hops == 4
    assert load_secrets(home, {})["api_key"] == "hush-hush"


def test_a_failed_rename_leaves_the_old_file_and_no_other(home: Home) -> None:
    target = home.path / "name"
    target.mkdir()
    with home_lock(home), pytest.raises(HomeError, match="name cannot be written"):
        replace_file(home, target, b"data")
    assert target.is_dir()
    assert [path for path in home.path.iterdir() if path.is_file()] == []


KILL = """
import os, signal, sys, json
from pathlib import Path
from manydesks.settings import file
from manydesks.settings.home import Home

home = Home(Path(sys.argv[1]))
file.change_settings(home, "limits.hops", 1)
old = home.settings_file.read_bytes()
seen = []
for step in range(1000):
    home.settings_file.write_bytes(old)
    child = os.fork()
    if child == 0:
        calls = 0
        def count(frame, event, function):
            # before every built-in that the writing module calls, and every step inside pathlib
            global calls
            name = frame.f_code.co_filename
            if (event == "c_call" and name == file.__file__) or (event == "call" and "pathlib" in name):
                if calls == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                calls += 1
        sys.setprofile(count)
        file.change_settings(home, "limits.hops", 2)
        sys.setprofile(None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    seen.append([os.WIFSIGNALED(status), home.settings_file.read_text()])
    if not os.WIFSIGNALED(status):
        break
print(json.dumps(seen))
"""


def test_a_kill_at_any_step_leaves_the_old_or_the_new_file(home: Home) -> None:
    done = subprocess.run([sys.executable, "-c", KILL, str(home.path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    old, new = "[limits]\nhops = 1\n", "[limits]\nhops = 2\n"
    assert seen[-1] == [False, new]
    killed = [text for was_killed, text in seen if was_killed]
    assert set(killed) == {old, new}
    turn = killed.index(new)
    assert killed == [old] * turn + [new] * (len(killed) - turn)
    assert len(killed) > 30
    assert change_settings(home, "limits.hops", 3).limits.hops == 3
    assert {path.name for path in home.path.iterdir() if path.is_file()} == {"settings.toml"}


WRITER = """
import sys
from pathlib import Path
from manydesks.settings.file import change_settings
from manydesks.settings.home import Home
from manydesks.settings.load import load_settings

home, key = Home(Path(sys.argv[1])), sys.argv[2]
section, name = key.split(".")
print("ready", flush=True)
sys.stdin.readline()
for value in range(1, 26):
    change_settings(home, key, value)
    found = getattr(getattr(load_settings(home, {}), section), name)
    assert found == value, f"{key} is {found}, not {value}"
"""


def test_writers_in_several_processes_lose_nothing(home: Home) -> None:
    home.settings_file.write_text("# mine\n")
    keys = ["retry.max_attempts", "limits.hops", "limits.trace_messages", "dispatch.desks", "runner.idle_seconds"]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home.path), key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for key in keys
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.communicate()[1] for writer in writers] == [""] * len(keys)
    loaded = load_settings(home, {}).model_dump()
    assert [loaded[key.split(".")[0]][key.split(".")[1]] for key in keys] == [25] * len(keys)
    assert home.settings_file.read_text().startswith("# mine\n")


def values_of(field: FieldInfo) -> st.SearchStrategy[Any]:
    if get_origin(field.annotation) is Literal:
        return st.sampled_from(get_args(field.annotation))
    if field.annotation is bool:
        return st.booleans()
    if get_origin(field.annotation) is list:
        return st.lists(st.from_regex("[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?", fullmatch=True), max_size=4)
    if get_origin(field.annotation) is dict:
        return st.dictionaries(st.sampled_from(["claude", "openai", "a.b", "é"]), st.integers(1, 1024))
    bounds = {type(mark): mark for mark in field.metadata}
    if field.annotation is str:
        patterns = [mark.pattern for mark in field.metadata if getattr(mark, "pattern", None)]
        pattern = patterns[0] if patterns else "^[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?$"
        return st.from_regex(pattern.removeprefix("^").removesuffix("$"), fullmatch=True)
    high = bounds[annotated_types.Le].le
    if annotated_types.Gt in bounds:
        return st.floats(bounds[annotated_types.Gt].gt, high, exclude_min=True)
    low = bounds[annotated_types.Ge].ge
    return st.integers(low, high) if field.annotation is int else st.floats(low, high)


VALUES = {
    f"{section}.{key}": values_of(field)
    for section, model in sections().items()
    for key, field in model.model_fields.items()
} | {
    **dict.fromkeys(
        (f"budget.per_{whose}_usd" for whose in ("agent_day", "day", "trace")), st.just(0.0) | st.floats(1e-6, 1e9)
    ),
    "api.host": st.sampled_from(["127.0.0.1", "::1", "0.0.0.0"]),
    "api.names": st.lists(st.sampled_from(["office.lan", "desk"]), max_size=3),
    "api.origins": st.lists(st.sampled_from(["https://desk.example", "http://[::1]:80"]), max_size=3),
    "budget.time_zone": st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
    "pipeline.memory": st.sampled_from(["512m", "99999m", "1g"]),
    "pipeline.spark": st.dictionaries(
        st.sampled_from(["spark.a", "spark.a.b", "spark.driver.host"]), st.sampled_from(["", " x", '"é\\', "secret:s"])
    ),
}
ANY_SETTINGS = st.fixed_dictionaries(
    {
        section: st.fixed_dictionaries({}, optional={key: VALUES[f"{section}.{key}"] for key in model.model_fields})
        for section, model in sections().items()
    }
).filter(lambda data: data["office"].get("default_agent") not in ("default", "everyone", "host", "system", "user"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=ANY_SETTINGS)
def test_any_valid_settings_survive_dump_and_load(home: Home, data: dict[str, dict[str, Any]]) -> None:
    wanted = Settings.model_validate(data)
    home.settings_file.write_bytes(dump_settings(wanted).encode())
    assert load_settings(home, {}) == wanted


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=ANY_SETTINGS)
def test_any_valid_settings_can_be_made_by_changes(home: Home, data: dict[str, dict[str, Any]]) -> None:
    home.settings_file.write_bytes(b"# mine\n[retry]\njitter = 0.1\n")
    for section, values in data.items():
        for key, value in values.items():
            change_settings(home, f"{section}.{key}", value)
    data["retry"].setdefault("jitter", 0.1)
    assert load_settings(home, {}) == Settings.model_validate(data)
