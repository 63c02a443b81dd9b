"""`weft lab handout` and `weft lab new`: what learners get of a lab, and a lab to begin with."""

from __future__ import annotations

import json
from pathlib import Path

from experiments import handout as handouts
from experiments import loader, new_lab
from experiments.errors import LabError
from observe.errors import UsageError
from weft import console
from weft.command_line import argument, as_json, command, flag, option

labs_option = option("--labs", type=Path, default=loader.DIRECTORY, metavar="DIR",
                     help="look for labs in DIR/*/lab.yaml (default: those of Weft)")  # fmt: skip


@command(
    """
    examples:
      weft lab handout cnp-by-hand for-students         a folder: text, starter, pictures
      weft lab handout cnp-by-hand for-students --zip   the same as for-students.zip

    The folder has no reference, no section for teachers and no grader; its links hold there.
    Grade what comes back by `weft grade NAME --all DIR`.
    """,
    help="write the folder that a learner gets",
)
@argument("name", help="a name that `weft lab list` shows")
@argument("folder", type=Path, help="a new or empty folder")
@flag("--zip", "as_zip", help="write FOLDER.zip in place of the folder")
@labs_option
@as_json
def handout(name: str, folder: Path, as_zip: bool, labs: Path, as_json: bool) -> int:
    """`weft lab handout`; returns the exit code: 2 for wrong input."""
    try:
        made = handouts.pack(loader.load(name, labs), folder.absolute(), as_zip=as_zip)
    except LabError as error:
        console.report(error)
        return error.exit_code
    if as_json:
        print(json.dumps({"place": str(made.place), "files": list(made.files)}))
        return 0
    print(f"{_short(made.place)}: {', '.join(made.files)}")
    if not made.has_starter:
        print("no starter: in this lab learners run and read, and write nothing")
    return 0


@command(
    """
    examples:
      weft lab new two-queues                       labs/two-queues, which runs at once
      weft lab new two-queues --p4 mine.p4          with a variant that runs a program of yours
      weft lab new two-queues --labs ~/my-labs      in a folder of your own

    docs/first-lab.md goes on from there; docs/labs.md has all keys and functions.
    """,
    help="make the folder of a new lab, which runs at once",
)
@argument("name", help="the lab's name, which is its folder's")
@option("--p4", type=Path, metavar="FILE", help="a P4 program that one of the variants runs")
@option("--labs", type=Path, default=loader.DIRECTORY, metavar="DIR",
        help="make the lab in DIR (default: that of Weft's labs)")  # fmt: skip
def new(name: str, p4: Path | None, labs: Path) -> int:
    """`weft lab new`; returns the exit code: 2 for wrong input. Raises CompileError."""
    if p4 is not None and not p4.is_file():
        raise UsageError(f"--p4 {p4}: no such file")
    try:
        made = new_lab.make(name, labs, p4)
    except LabError as error:
        console.report(error)
        return error.exit_code
    for path in made:
        print(_short(path))
    own = "" if labs == loader.DIRECTORY else f" --labs {labs}"
    print(f"\nrun it: weft lab run {name}{own}")
    if p4 is not None:
        print(f"{new_lab.ENTRIES} has no entries yet: until it has, {p4.name} drops or ignores all")
    return 0


def _short(path: Path) -> str:
    path = path.absolute()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
