"""`weft lab-files`: a folder of an old lab, its files of commands with their programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat.dropin.lab_files import commands_of, find, programs_for
from compat.dropin.lab_files_bmv2 import same_lines
from compiler import compile_p4

LAB = Path(__file__).parent / "switch_cli_lab"


def lab_files(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft.cli", "lab-files", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def labs(tmp_path: Path) -> Path:
    """Return a lab with its program a folder above, one that has none, and a text that is no
    lab.
    """
    lab = tmp_path / "routing"
    (lab / "commands").mkdir(parents=True)
    (lab / "lab.p4").write_text((LAB / "lab.p4").read_text())
    (lab / "commands" / "s1-commands.txt").write_text(
        "// routes\ntable_set_default lpm drop\n\ntable_add lpm forward 10.0.1.1/32 => 1 2\n"
        "mc_mgrp_create 1\nmc_node_create 0 1 2 3\nmc_node_associate 1 0\n"
    )
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "s1-commands.txt").write_text("table_set_default lpm drop\n")
    (tmp_path / "readme.txt").write_text("table_add adds an entry.\nThis is\nprose.\n")
    return tmp_path


def test_files_and_their_programs_are_found(labs: Path) -> None:
    found = list(find(labs))
    assert [str(path.relative_to(labs)) for path in found] == [
        "alone/s1-commands.txt",
        "routing/commands/s1-commands.txt",
    ]
    assert programs_for(found[0], labs) == []
    assert programs_for(found[1], labs) == [labs / "routing" / "lab.p4"]
    assert len(commands_of(found[1].read_text())) == 5


def test_what_works_is_counted_and_what_does_not_run_is_said(labs: Path) -> None:
    done = lab_files(str(labs))
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "alone/s1-commands.txt: not run: there is no program with it",
        "2 files, 1 run with their programs: 5 commands, 0 refused",
    ]


def test_bmv2_json_serves_where_there_is_no_p4(labs: Path) -> None:
    alone = labs / "alone"
    (alone / "lab.json").write_text(compile_p4(LAB / "lab.p4").json_text)
    (alone / "other.json").write_text("{}")
    assert programs_for(alone / "s1-commands.txt", labs) == [alone / "lab.json"]
    done = lab_files(str(labs))
    assert done.stdout == "2 files, 2 run with their programs: 6 commands, 0 refused\n"


def test_what_is_no_file_is_no_program(labs: Path) -> None:
    commands = labs / "routing" / "commands"
    (commands / "gone.p4").symlink_to("nowhere.p4")
    (commands / "folder.p4").mkdir()
    (commands / "gone.json").symlink_to("nowhere.json")
    (commands / "folder.json").mkdir()
    assert programs_for(commands / "s1-commands.txt", labs) == [labs / "routing" / "lab.p4"]


def test_a_refused_command_is_told_with_its_line(labs: Path) -> None:
    with (labs / "routing" / "commands" / "s1-commands.txt").open("a") as file:
        file.write("table_add lpm fly 10.0.0.0/8 =>\n")
        for word in ("!", "shell "):
            file.write(f"{word}touch {labs}/ran\n")
    done = lab_files(str(labs), "--json")
    assert done.returncode == 1
    assert not (labs / "ran").exists()  # a folder of files by others does what nobody has read
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["totals"] == {
        "files": 2, "ran": 1, "commands": 6, "refused": 1, "as BMv2": 0,
    }  # fmt: skip
    assert result["files"][1]["refused"] == [
        "line 8: table_add lpm fly 10.0.0.0/8 =>: Error: Table lpm has no action fly"
    ]


def test_a_folder_without_any_is_wrong_usage(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        done = lab_files(str(folder))
        assert done.returncode == 2
        assert str(folder) in done.stderr and "Traceback" not in done.stderr


def test_texts_are_compared_without_prompts_and_beginning() -> None:
    bmv2 = "Obtaining JSON\nRuntimeCmd: RuntimeCmd: 1\nRuntimeCmd: \n"
    assert same_lines(bmv2, "RuntimeCmd: 1\n\nRuntimeCmd: ") == []
    assert same_lines(bmv2, "RuntimeCmd: 2\n") == ["-1", "+2"]
