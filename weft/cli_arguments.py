"""Arguments that several commands have, and how modules of arguments add their commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Add = Callable[..., argparse.ArgumentParser]
"""`weft.cli`'s, with the subparsers given: name, handler, text, examples."""


def add_json(command: argparse.ArgumentParser) -> None:
    """Add --json, for a command with one result."""
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def add_preprocessor(command: argparse.ArgumentParser) -> None:
    """Add -I (`include`, paths) and -D (`define`, NAME[=V]), for a command that compiles."""
    command.add_argument(
        "-I", dest="include", type=Path, action="append", default=[], metavar="DIR",
        help="look for included files in DIR too",
    )  # fmt: skip
    command.add_argument(
        "-D", dest="define", action="append", default=[], metavar="NAME[=V]",
        help="define a macro for the preprocessor",
    )  # fmt: skip
