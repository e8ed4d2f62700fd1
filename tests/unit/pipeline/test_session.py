from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput, ExtraMissing
from manydesks.pipeline import session as module
from manydesks.pipeline.session import SparkOptions, require_extra
from manydesks.settings.model import PipelineSettings


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGES", ("pytest", "no_such_package_at_all"))
    with pytest.raises(ExtraMissing, match=r"pip install 'manydesks\[pipeline\]'"):
        require_extra()


@pytest.mark.parametrize(("environ", "set_to"), [
    ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}),
    ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, {"LC_ALL": "C.UTF-8"}),
    ({"LC_ALL": "tr_TR.UTF-8"}, {}),
    ({"LANG": "C"}, {}),
    ({}, {}),
])  # fmt: skip
def test_java_finds_names_that_are_not_ascii(environ: dict[str, str], set_to: dict[str, str]) -> None:
    """Python itself sees to it where only LANG or nothing is set."""
    assert module._locale(environ) == set_to


def test_no_partitions_are_refused() -> None:
    with pytest.raises(BadInput, match="must be 1 or more"):
        SparkOptions(shuffle_partitions=0)


def test_the_log_lies_in_the_folder_unless_named(tmp_path: Path) -> None:
    assert SparkOptions(folder=tmp_path).log_file == tmp_path / "spark.log"
    assert SparkOptions(folder=tmp_path, log=tmp_path / "other.log").log_file == tmp_path / "other.log"


def test_further_options_are_not_shown_and_cannot_change_the_rules() -> None:
    assert "hush" not in repr(SparkOptions(further={"spark.authenticate.secret": "hush"}))
    for name in module.FIXED:
        with pytest.raises(BadInput, match=f"pipeline.spark has '{name}'"):
            SparkOptions(further={name: "x"})


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("spark.driver.memory", "there; the setting pipeline.memory is for that."),
        ("spark.master", "there; the setting pipeline.master is for that."),
        ("spark.sql.shuffle.partitions", "there; the setting pipeline.shuffle_partitions is for that."),
        ("spark.sql.session.timeZone", "which is not for choosing there."),
    ],
)
def test_an_option_with_a_setting_of_its_own_names_it(name: str, end: str) -> None:
    with pytest.raises(BadInput) as told:
        SparkOptions(further={name: "1k"})
    assert str(told.value).endswith(end)
    settings = PipelineSettings.model_fields
    assert {setting.removeprefix("pipeline.") for setting in module.SETTINGS.values()} <= settings.keys()
    assert module.SETTINGS.keys() <= set(module.FIXED)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[2,1,1024]"])
def test_spark_listens_on_this_machine_alone_and_to_nobody_else(master: str, tmp_path: Path) -> None:
    options = module._configuration(SparkOptions(master=master, folder=tmp_path), tmp_path)
    assert options["spark.driver.host"] == options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.authenticate"] == "true"


def test_the_driver_of_a_cluster_can_be_reached(tmp_path: Path) -> None:
    further = {"spark.driver.host": "10.0.0.2", "spark.pyspark.python": "/opt/python"}
    options = SparkOptions(master="spark://h:7077", folder=tmp_path, further=further)
    assert "spark.driver.host" not in module._configuration(options, tmp_path)  # Spark has it from the file
    assert module._hidden(options) == further
    assert module._surroundings(options) == {"PYSPARK_PYTHON": "/opt/python"}


@pytest.mark.parametrize(("master", "interval"), [("local[2]", "1s"), ("spark://h:7077", None)])
def test_tasks_of_this_machine_tell_more_often_how_far_they_are_to_who_looks_on(
    master: str, interval: str | None, tmp_path: Path
) -> None:
    options = SparkOptions(master=master, folder=tmp_path)
    name = "spark.executor.heartbeatInterval"
    assert name not in module._configuration(options, tmp_path)
    assert module._configuration(replace(options, followed=True), tmp_path).get(name) == interval


def test_much_work_is_cut_for_java_to_compile_and_little_takes_little_memory(tmp_path: Path) -> None:
    little, much = (module._configuration(SparkOptions(folder=tmp_path, bulk=bulk), tmp_path) for bulk in (False, True))
    assert little.items() - much.items() >= {("spark.buffer.pageSize", "1m")}
    assert much.items() - little.items() >= {("spark.sql.codegen.hugeMethodLimit", "8000")}
    name = "spark.driver.extraJavaOptions"
    assert (module.JAVA_BRIEF in little[name], module.JAVA_BRIEF in much[name]) == (True, False)


def test_each_local_cluster_has_a_secret_of_its_own(tmp_path: Path) -> None:
    options = SparkOptions(master="local-cluster[2,1,1024]", folder=tmp_path)
    name = "spark.authenticate.secret"
    assert name not in module._configuration(options, tmp_path)
    assert len({module._hidden(options)[name] for _ in range(3)}) == 3


@pytest.mark.parametrize(("letters", "there"), [(61, True), (62, False)])
def test_java_and_python_talk_through_files_unless_their_path_is_too_long(
    letters: int, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path("/" + "x" * (letters - 1))
    name = "spark.python.unix.domain.socket.enabled"
    monkeypatch.delenv(module.LENT, raising=False)
    assert (name in module._configuration(SparkOptions(master="local[2]"), own)) is there
    # the machines of a cluster have other folders
    assert name not in module._configuration(SparkOptions(master="spark://h:7077"), own)
    monkeypatch.setenv(module.LENT, "1")
    assert name not in module._configuration(SparkOptions(master="local[2]"), own)
