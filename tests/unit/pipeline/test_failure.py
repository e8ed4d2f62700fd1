from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.pipeline.failure import sentence


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[SOME_CLASS.SUB] A thing broke. SQLSTATE: 42703; line 2 pos 7;\n'Project\n+- x", "A thing broke."),
        (
            "\n[PARSE_ERROR] Error near 'x'. SQLSTATE: 42601 (line 2, pos 0)\n== SQL",
            "Error near 'x'.",
        ),
        ("plain", "plain."),
        ("really?", "really?"),
        ("", "RuntimeError."),
    ],
)
def test_one_line_for_a_person(said: str, told: str) -> None:
    assert sentence(RuntimeError(said)) == told
