from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from manydesks.settings.model import PipelineSettings, Settings, UpstreamSettings, allowed, named_tables, sections
from manydesks.settings.problems import check


def test_the_defaults() -> None:
    assert Settings().model_dump() == {
        "office": {"default_agent": "assistant", "durability": "power", "log_level": "info", "offer_model": True},
        "retry": {"base_seconds": 5.0, "max_attempts": 5, "jitter": 0.1},
        "limits": {
            "message_bytes": 262144,
            "hops": 12,
            "trace_messages": 64,
            "pair_per_minute": 20,
            "run_messages": 200,
            "same_calls": 8,
            "wait_seconds": 86400,
        },
        "dispatch": {"batch": 10, "desks": 64, "provider_desks": 64, "provider_limits": {}},
        "runner": {
            "run_seconds": 3600,
            "idle_seconds": 1800,
            "warm": 16,
            "silence_seconds": 900,
            "heartbeat_seconds": 60,
            "stop_seconds": 10,
        },
        "sandbox": {
            "kind": "auto",
            "memory_mib": 4096,
            "tasks": 1024,
            "tmp_mib": 512,
            "open_files": 4096,
            "file_mib": 4096,
        },
        "proxy": {"body_mib": 32, "connections": 64, "calls": 16, "connect_seconds": 10, "upstream_seconds": 600},
        "budget": {
            "time_zone": "UTC",
            "per_agent_day_usd": 0.0,
            "per_agent_day_tokens": 0,
            "per_agent_day_runs": 0,
            "per_day_usd": 0.0,
            "per_day_tokens": 0,
            "per_day_runs": 0,
            "per_trace_usd": 0.0,
            "per_trace_tokens": 0,
            "per_trace_runs": 0,
            "first_reserve_usd": 0.1,
            "first_reserve_tokens": 20000,
        },
        "delivery": {"timeout_seconds": 30, "max_attempts": 5, "max_age_hours": 12.0, "file_over": 4000},
        "api": {
            "enabled": True,
            "host": "127.0.0.1",
            "port": 3777,
            "auth": "token",
            "names": [],
            "origins": [],
            "tls_certificate": "",
            "tls_key": "",
            "body_bytes": 1_048_576,
            "per_minute": 600,
            "readers": 1000,
        },
        "hooks": {"enabled": True, "disabled": [], "timeout_seconds": 2.0},
        "retention": {"days": 30.0, "require_archive": True},
        "pipeline": {
            "auto": "nightly",
            "nightly_at": "03:00",
            "master": "local[*]",
            "memory": "2g",
            "lake": "",
            "shuffle_partitions": 8,
            "spark": {},
        },
        "upstreams": {},
        "prices": {},
        "providers": {},
        "channels": {},
    }


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().retry.max_attempts = 3


def test_every_key_has_a_meaning_and_says_what_is_allowed() -> None:
    for field in Settings.model_fields.values():
        assert field.description
    for section in sections().values():
        for name, field in section.model_fields.items():
            assert field.description, name
            assert field.description.endswith("."), name
            assert allowed(field) not in ("", "a text", "a number", "a whole number"), f"{name} has no bounds"


@pytest.mark.parametrize(
    ("section", "key", "words"),
    [
        ("office", "durability", '"power" or "crash"'),
        ("office", "log_level", '"debug", "info", "warning" or "error"'),
        ("retry", "base_seconds", "a number above 0 up to 3600"),
        ("limits", "hops", "a whole number from 1 up to 1000"),
        ("pipeline", "memory", 'a size in megabytes or gigabytes such as "800m" or "2g", "512m" or more'),
    ],
)
def test_what_is_allowed_in_words(section: str, key: str, words: str) -> None:
    assert allowed(sections()[section].model_fields[key]) == words


@pytest.mark.parametrize(
    ("section", "key", "good", "bad"),
    [
        ("office", "default_agent", ["assistant", "a", "qa-2"], ["", "A", "a b", "../x", "system", 7]),
        ("retry", "base_seconds", [0.001, 1, 3600], [0, -1, 3601, float("nan"), float("inf"), "5", True]),
        ("retry", "max_attempts", [1, 100], [0, 101, 2.5, "5", True]),
        ("retry", "jitter", [0, 1, 0.25], [-0.1, 1.1]),
        (
            "pipeline",
            "master",
            ["local", "local[4]", "local[*]", "spark://h:7077", "yarn"],
            ["", "local[0]", "lokal", "spark://me:pw@h:7077"],
        ),
        ("pipeline", "master", ["local-cluster[2,1,1024]", "k8s://https://h"], ["local-cluster", "local-cluster[2,1]"]),
        (
            "pipeline",
            "spark",
            [{}, {"spark.executor.memory": "4g"}, {"spark.authenticate.secret": "secret:cluster"}],
            [{"executor.memory": "4g"}, {"spark.a": 4}, {"spark.a": "b\n"}, {"spark.authenticate.secret": "hush"}],
        ),
        ("pipeline", "memory", ["512m", "1g", "2g"], ["1m", "256m", "511m", "2", "0g", "2 g", "2gb", "2g\n", 2]),
        (
            "pipeline",
            "lake",
            ["", "/srv/lake"],
            ["lake", "~/lake", "/a\0b", "file://lake", "file:///%00"],
        ),
        (
            "pipeline",
            "lake",
            ["s3://bucket/lake", "s3a://b/a/lake/", "gs://b/lake", "hdfs://node:9000/lake", "hdfs://name/year=1/lake"],
            ["s3://bucket", "s3:///lake", "s3://b/../lake", "s3://b/a b", "s3://b/%41", "http://b/lake", "az://b/lake"],
        ),
        (
            "pipeline",
            "lake",
            ["abfss://container@account.dfs.core.windows.net/lake"],
            ["s3://key:secret@b/lake", "s3://key@b/lake", "s3://b/lake?sig=1", "s3://b/lake#1", "abfss://a:b@c/lake"],
        ),
    ],
)
def test_bounds(section: str, key: str, good: list[object], bad: list[object]) -> None:
    for value in good:
        assert getattr(getattr(Settings.model_validate({section: {key: value}}), section), key) == value
    for value in bad:
        with pytest.raises(ValidationError):
            Settings.model_validate({section: {key: value}})


def test_named_tables_are_told_apart_from_sections() -> None:
    assert set(sections()) | set(named_tables()) == set(Settings.model_fields)
    assert not set(sections()) & set(named_tables())


def test_upstreams_of_the_file_go_before_the_known_ones() -> None:
    own = UpstreamSettings(kind="anthropic", base_url="https://example.org", key="mine")
    everyone = Settings(upstreams={"anthropic": own, "lm": own}).all_upstreams()
    assert set(everyone) == {"anthropic", "openai", "lm"}
    assert everyone["anthropic"].key == "mine"


def test_a_lake_that_is_given_as_a_uri_is_a_path() -> None:
    for text in ("file:///srv/my%20lake", "file://localhost/srv/my lake", "/srv/my lake"):
        assert PipelineSettings(lake=text).lake == "/srv/my lake"


@pytest.mark.parametrize("lake", ["s3://key:hush@bucket/lake", "s3://bucket/lake?sig=hush", "abfss://a:hush@c/lake"])
def test_credentials_in_a_uri_are_refused_and_not_repeated(lake: str) -> None:
    found = check({"pipeline": {"lake": lake}})
    assert isinstance(found, list)
    assert "a URI without credentials" in found[0].words
    assert "hush" not in found[0].words


def test_the_folder_of_a_lake_on_this_machine() -> None:
    own = Path("/home/lake")
    assert PipelineSettings().lake_folder(own) == own
    assert PipelineSettings(lake="/srv/lake").lake_folder(own) == Path("/srv/lake")
    assert PipelineSettings(lake="s3://bucket/lake").lake_folder(own) == own
