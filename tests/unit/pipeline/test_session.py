from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.errors import BadInput, ExtraMissing
from manydesks.pipeline import session as module
from manydesks.pipeline.session import SparkOptions, require_extra


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGES", ("pytest", "no_such_package_at_all"))
    with pytest.raises(ExtraMissing, match=r"pip install 'manydesks\[pipeline\]'"):
        require_extra()


def test_no_partitions_are_refused() -> None:
    with pytest.raises(BadInput, match="must be 1 or more"):
        SparkOptions(shuffle_partitions=0)


def test_the_log_lies_in_the_folder_unless_named(tmp_path: Path) -> None:
    assert SparkOptions(folder=tmp_path).log_file == tmp_path / "spark.log"
    assert SparkOptions(folder=tmp_path, log=tmp_path / "other.log").log_file == tmp_path / "other.log"
