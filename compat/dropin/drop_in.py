"""`weft drop-in`: a folder of programs with p4lang's names that are this installation.

With the folder first on PATH, scripts that start `p4c-bm2-ss` or `simple_switch_grpc` get ours.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from compat.dropin import p4lang_python
from observe.errors import UsageError
from weft import console
from weft.cli import main
from weft.command_line import argument, command, flag

MARK = "# Made by `weft drop-in`; the same command makes it again."
"""What says that a file is ours to replace."""

PROGRAMS: Mapping[str, str] = {
    "p4c-bm2-ss": "from compat.dropin.p4c import main as run",
    "p4c": "from compat.dropin.p4c import driver_main as run",
    "simple_switch_grpc": "from compat.dropin.simple_switch import simple_switch_grpc as run",
    "simple_switch": "from compat.dropin.simple_switch import simple_switch as run",
    "simple_switch_CLI": "from compat.dropin.drop_in import simple_switch_cli as run",
}
"""What each program runs."""

SCRIPT_PROGRAMS = ("python3", "ptf")
"""What --python adds: a Python that has what p4lang's scripts import, and its `ptf`."""


class DropInError(Exception):
    """A program can't be put into the folder."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def simple_switch_cli() -> int:
    """Run as `simple_switch_CLI`, which finds a switch by its Thrift port; return the code."""
    own = sys.argv[1:]
    named = any(word.partition("=")[0] in ("--thrift-port", "--help", "-h") for word in own)
    return main(["cli", *([] if named else ["--thrift-port", "9090"]), *own])


@command("""
    examples:
      eval "$(weft drop-in ~/weft-bin)"             then they are first on PATH
      weft drop-in ~/weft-bin --python              python3 and ptf too, with all that the
                                                    scripts of p4lang/tutorials import
    """)
@argument("directory", type=Path, metavar="DIR", help="the folder, created if it does not exist")
@flag("--python", "with_python",
      help="add python3 and ptf with the modules that p4lang's scripts import")  # fmt: skip
def run(directory: Path, with_python: bool) -> int:
    """Run `weft drop-in DIR`; return the exit code. Raises DropInError, UsageError, OSError."""
    texts = {name: _script(sys.executable, code) for name, code in PROGRAMS.items()}
    if with_python:
        python = p4lang_python.ensure()
        texts["python3"] = _wrapper(f'{shlex.quote(str(python))} "$@"')
        ptf = python.with_name("ptf")
        texts["ptf"] = _wrapper(f'{shlex.quote(str(python))} {shlex.quote(str(ptf))} "$@"')
    folder = make(directory, texts)
    print(f"export PATH={shlex.quote(str(folder))}:$PATH")
    if sys.stdout.isatty():
        console.notice(f"{', '.join(texts)}: with this line they are first on PATH")
    return 0


def make(directory: Path, texts: Mapping[str, str]) -> Path:
    """Write the programs `texts` into `directory`, all or none; return its absolute path.

    Raises DropInError where one would replace what is not ours, UsageError, OSError.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory}: is a file; give a folder")
    for name in texts:
        _check_ours(directory / name)
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = directory / name
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return directory.resolve()


def _check_ours(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        ours = False
    elif not path.exists():
        return
    else:
        with path.open("rb") as file:
            ours = MARK.encode() in file.read(512)
    if not ours:
        raise DropInError(
            f"{path} is there already, and `weft drop-in` has not made it",
            "choose another folder, or remove the file yourself",
        )


def _script(python: str, code: str) -> str:
    # -I: neither the current folder nor PYTHONPATH may put a module in front of ours.
    command = f"import sys; {code}; sys.exit(run())"
    return _wrapper(f'{shlex.quote(python)} -I -c {shlex.quote(command)} "$@"')


def _wrapper(command: str) -> str:
    # exec: a script that kills the process it started hits ours.
    return f"#!/bin/sh\n{MARK}\nexec {command}\n"
