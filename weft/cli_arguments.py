"""Arguments that several commands have, and how modules of arguments add their commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

Add = Callable[..., argparse.ArgumentParser]
"""`weft.cli`'s, with the subparsers given: name, handler, text, examples."""


_DIAGNOSTICS = {
    "Wdisable": "don't report warnings (=KIND: of one kind, as `unused`)",
    "Wwarn": "report warnings (=KIND: also of one that is off unless asked for)",
    "Werror": "take warnings (=KIND: of one kind) for errors",
}


def add_json(command: argparse.ArgumentParser) -> None:
    """Add --json, for a command with one result."""
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def add_tls(command: argparse.ArgumentParser) -> None:
    """Add --tls-ca, --tls-cert and --tls-key, which `weft.tls_files.tls_of` reads."""
    for name, text in (
        ("ca", "the authority of the switch's certificate"),
        ("cert", "our own certificate, where the switch asks for one"),
        ("key", "its key"),
    ):
        command.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"TLS: {text}")


def id_number(text: str) -> int:
    """An argument that is an id of P4Runtime's, of 64 bits. Raises ArgumentTypeError."""
    if not text.isdecimal() or not int(text) < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {(1 << 64) - 1}")
    return int(text)


def add_diagnostics(command: argparse.ArgumentParser) -> None:
    """Add p4c's --Wdisable, --Wwarn and --Werror; `diagnostics` has them in the order given."""
    for name, text in _DIAGNOSTICS.items():
        command.add_argument(
            f"--{name}", dest="diagnostics", action=_Diagnostic, nargs="?", default=[],
            metavar="KIND", help=text,
        )  # fmt: skip


def without_kinds(argv: Sequence[str]) -> list[str]:
    """The arguments with `--Werror` alone as `--Werror=`: it takes no program for a KIND."""
    alone = {f"--{name}" for name in _DIAGNOSTICS}
    return [f"{each}=" if each in alone else each for each in argv]


class _Diagnostic(argparse.Action):
    """Appends `Werror` or `Werror=KIND`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        from compiler.passes.diagnostic_actions import DiagnosticActions, UnknownKind

        assert option_string is not None
        option = option_string.lstrip("-") + (f"={values}" if values else "")
        try:
            DiagnosticActions.of([option])
        except UnknownKind as error:
            raise argparse.ArgumentError(None, str(error)) from None
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), option])


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
