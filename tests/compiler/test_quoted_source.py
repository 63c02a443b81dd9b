"""Diagnostics with the line that they are about."""

from __future__ import annotations

from pathlib import Path

from compiler.quoted_source import quoted, with_source


def test_each_place_is_quoted_and_other_lines_stay(tmp_path: Path) -> None:
    file = tmp_path / "a b.p4"
    file.write_text("one\n\ttwo three\n")
    text = f"{file}:2:6: error: what is three?\n{file}:1:1: note: one is here\nmore"
    assert with_source(text).splitlines() == [
        f"{file}:2:6: error: what is three?",
        "\ttwo three",
        "\t    ^",
        f"{file}:1:1: note: one is here",
        "one",
        "^",
        "more",
    ]


def test_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "short.p4"
    file.write_text("one\n")
    assert quoted(str(file), 7, 1) == ""
    assert quoted(str(tmp_path / "gone.p4"), 1, 1) == ""
    assert with_source(f"{file}:9:1: error: the end is missing").count("\n") == 0
    assert with_source("<built-in>: error: nowhere") == "<built-in>: error: nowhere"
