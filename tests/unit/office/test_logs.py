"""Logs of several files, read as one."""

from __future__ import annotations

from pathlib import Path

from manydesks.office.logs import Source, everything, merged, naming, of_run


def at(second: int, text: str) -> str:
    return f"2026-01-01 00:00:{second:02d},000 INFO {text}"


def texts(lines: object) -> list[str]:
    return [line.text for line in lines]  # type: ignore[attr-defined]


def test_the_last_lines_reach_into_older_files(tmp_path: Path) -> None:
    log = tmp_path / "host.log"
    (tmp_path / "host.log.2").write_text("a\nb\n")
    (tmp_path / "host.log.1").write_text("c\n")
    log.write_text("d\ne\n")
    assert texts(Source("office", log, everything).last(100)) == ["a", "b", "c", "d", "e"]
    assert texts(Source("office", log, everything).last(2)) == ["d", "e"]
    assert Source("office", log, everything).last(0) == []


def test_following_goes_on_in_the_new_file(tmp_path: Path) -> None:
    log = tmp_path / "host.log"
    log.write_text("one\n")
    source = Source("office", log, everything)
    assert texts(source.last(10)) == ["one"]
    assert texts(source.more()) == []
    with log.open("a") as file:
        file.write("two\nthr")
    assert texts(source.more()) == ["two"]
    with log.open("a") as file:
        file.write("ee\nfour\n")
    log.rename(tmp_path / "host.log.1")
    assert texts(source.more()) == ["three", "four"]
    log.write_text("five\n")
    assert texts(source.more()) == ["five"]
    with log.open("a") as file:
        file.write("without an end")
    log.rename(tmp_path / "host.log.1")
    log.write_text("six\n")
    assert texts(source.more()) == ["without an end", "six"]
    source.close()


def test_a_file_that_comes_later(tmp_path: Path) -> None:
    source = Source("office", tmp_path / "desks" / "s.log", everything)
    assert source.last(10) == []
    (tmp_path / "desks").mkdir()
    (tmp_path / "desks" / "s.log").write_text("here\n")
    assert texts(source.more()) == ["here"]
    source.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of somebody\n")
    (tmp_path / "host.log").symlink_to(tmp_path / "secret")
    assert Source("office", tmp_path / "host.log", everything).last(10) == []


def test_the_lines_of_several_are_in_the_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join([at(1, "first"), "  its trace", at(3, "third"), ""]))
    (tmp_path / "b.log").write_text(at(2, "second") + "\n")
    sources = [Source(name, tmp_path / f"{name}.log", everything) for name in "ab"]
    found = list(merged([source.last(10) for source in sources]))
    assert [line.text.split()[-1] for line in found] == ["first", "trace", "second", "third"]
    assert [line.source for line in found] == ["a", "a", "b", "a"]


def test_lines_that_name_somebody_keep_what_follows_them(tmp_path: Path) -> None:
    log = tmp_path / "host.log"
    lines = [at(1, "coder failed"), "Traceback", "  File x", at(2, "encoder is fine"), "x", at(3, "the coder: again")]
    log.write_text("\n".join(lines) + "\n")
    found = texts(Source("office", log, naming("coder")).last(10))
    assert found == [lines[0], lines[1], lines[2], lines[5]]


def test_a_line_without_a_time_that_names_somebody_takes_no_others_along(tmp_path: Path) -> None:
    log = tmp_path / "host.log"
    lines = [at(1, "ada is here"), "coder → ada: answered m_1", "writer → ben: answered m_2", at(2, "coder"), "  more"]
    log.write_text("\n".join(lines) + "\n")
    assert texts(Source("office", log, naming("coder")).last(10)) == [lines[1], lines[3], lines[4]]


def test_what_lies_between_the_ends_of_a_run(tmp_path: Path) -> None:
    log = tmp_path / "s.log"
    says = " manydesks.runner.runs: "
    lines = [
        "before",
        f"t INFO{says}run run_a begins: m1",
        "of a",
        f"t INFO{says}run run_a ends",
        "between",
        f"t INFO{says}run run_b begins: m2",
        "of b, which was killed",
        f"t INFO{says}run run_c begins: m3",
        "of c",
    ]
    log.write_text("\n".join(lines) + "\n")
    assert texts(Source("s", log, of_run("run_a")).last(10)) == lines[1:4]
    assert texts(Source("s", log, of_run("run_b")).last(10)) == lines[5:7]
    assert texts(Source("s", log, of_run("run_c")).last(10)) == lines[7:]
