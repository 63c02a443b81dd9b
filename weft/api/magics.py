"""`%%p4`: a notebook's cell that is a P4 program. `%load_ext weft` adds it."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any, NoReturn

from experiments.interactive.errors import WeftError
from experiments.interactive.program import compile

_USAGE = "%%p4 NAME [-D NAME[=VALUE]] [-I FOLDER] [--Werror=KIND] [-q]"


class _Arguments(argparse.ArgumentParser):
    """The line behind `%%p4`; what is wrong with it is an exception, and no exit."""

    def error(self, message: str) -> NoReturn:
        raise WeftError(f"{_USAGE}: {message}")


def register(shell: Any) -> None:
    """Add the cell to a shell of IPython's."""
    shell.register_magic_function(lambda line, cell: p4(shell, line, cell), "cell", "p4")


def p4(shell: Any, line: str, cell: str) -> Any:
    """Compile a cell and bind the `weft.Program` to a name; show it, and warnings.

    %%p4 router
    #include <core.p4>
    ...

    Raises CompileError, which shows each mistake with its line of the cell and a mark.
    """
    parser = _Arguments(prog="%%p4", add_help=False)
    parser.add_argument("name")
    parser.add_argument("-D", dest="defines", action="append", default=[])
    parser.add_argument("-I", dest="include", action="append", default=[])
    parser.add_argument("-q", dest="quiet", action="store_true")
    try:
        given, others = parser.parse_known_args(shlex.split(line))
    except ValueError as error:
        raise WeftError(f"{_USAGE}: {error}") from None
    wrong = [each for each in others if not each.startswith("--W")]
    if wrong or not given.name.isidentifier():
        raise WeftError(f"{_USAGE}: {(wrong or [given.name])[0]!r} is not one of these")
    program = compile(
        f"{cell.rstrip()}\n",
        defines=given.defines,
        include=given.include,
        diagnostics=[each.removeprefix("--") for each in others],
        name=f"{given.name}.p4",
    )
    shell.push({given.name: program})
    for warning in program.warnings:
        print(warning, file=sys.stderr)
    return None if given.quiet else program
