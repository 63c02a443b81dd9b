"""What commands and their options have in common: click, with help and errors in Weft's manner.

Each command stands beside its options, in the module that has its code; `weft.cli` lists them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from observe.errors import UsageError
from weft import console

EXIT_USAGE = 2
METRICS_PORT = 9464

F = TypeVar("F", bound=Callable[..., Any])

argument = click.argument


class NamedValue(click.Option):
    """An option whose value, if any, is after "="; its name is in it: "Werror=unused", "Werror"."""


class Command(click.Command):
    """A command: long options may be shortened to what is unique, examples stand as written."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Raises click.UsageError, also where an option stands for a value."""
        try:
            return super().parse_args(ctx, self._in_full(ctx, args))
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and exit codes, their lines kept."""
        if self.epilog:
            formatter.write(f"\n{inspect.cleandoc(self.epilog)}\n")

    def _in_full(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the words with the options' whole names."""
        parts = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        options = {name: part for part in parts for name in part.opts}
        words = list(args)
        waiting = ""  # the option whose value is next
        for place, word in enumerate(words):
            name, equals, value = word.partition("=")
            if waiting and (name in options or word.startswith("--")):
                raise click.BadOptionUsage(waiting, f"Option {waiting!r} requires an argument.")
            if waiting:
                waiting = ""
                continue
            if word == "--" or not (word.startswith("-") or ctx.allow_interspersed_args):
                break
            alike = [each for each in options if each.startswith(name)]
            if word.startswith("--") and name not in options and len(alike) == 1:
                name = alike[0]
            option = options.get(name)
            if isinstance(option, NamedValue):
                value, equals = name.lstrip("-") + equals * bool(value) + value, "="
            words[place] = name + equals + value
            if option and not equals and option.flag_activation_value is None:
                waiting = name
        return words


class Group(Command, click.Group):
    """A command of commands."""

    command_class = Command


def command(examples: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command; `examples` end its help as they are, and `weft.cli` begins it."""
    return click.command(cls=Command, epilog=examples, **settings)


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Declare an option as click does; "(default)" in `help` becomes "(default: ...)"."""
    if "default" in settings:
        text = f"(default: {settings['default']})"
        settings["help"] = settings["help"].replace("(default)", text)
    return click.option(*names, **settings)


def flag(*names: str, help: str) -> Callable[[F], F]:
    """Declare an option without a value."""
    return click.option(*names, is_flag=True, help=help)


def together(*parts: Callable[[F], F]) -> Callable[[F], F]:
    """Combine several options and arguments to one decorator, in this order."""

    def decorate(function: F) -> F:
        for part in reversed(parts):
            function = part(function)
        return function

    return decorate


def wrong(error: click.UsageError) -> str:
    """Return what is wrong with the arguments, in a line."""
    text = " ".join(error.format_message().split()).rstrip(".")
    return text[:1].lower() + text[1:]


def refuse(error: click.UsageError) -> int:
    """Say what is wrong with the arguments of a command, then how they are; return the code."""
    context = error.ctx
    assert context is not None  # of the commands here
    path = context.command_path
    usage = " ".join([path, *context.command.collect_usage_pieces(context)])
    console.error(f"{path}: {wrong(error)}", f"{usage}; see {path} --help")
    return EXIT_USAGE


def port_number(value: str | int) -> int:
    """Parse a TCP port, 0 for any that is free; a default is an int. Raises click.BadParameter."""
    text = str(value)
    if not text.isdecimal() or int(text) > 65535:
        raise click.BadParameter(f"{text!r} is not a port: it is a number from 0 to 65535")
    return int(text)


def write_new(out: Path, text: str) -> None:
    """Write what --out asks for, which must not be there yet. Raises UsageError."""
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"--out {out}: is there already; give a new name") from None
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None


as_json = flag("--json", "as_json", help="print the result as JSON")

_CORES = len(os.sched_getaffinity(0))
jobs_option = option("--jobs", default=_CORES, metavar="N",
                     help=f"programs at the same time (default: the cores, {_CORES})")  # fmt: skip

preprocessor = together(
    option("-I", "include", type=Path, multiple=True, metavar="DIR",
           help="also look for included files in DIR"),
    option("-D", "define", multiple=True, metavar="NAME[=V]",
           help="define a macro for the preprocessor"),
)  # fmt: skip

ways = together(
    option("--interfaces", type=click.Choice(("one", "all")), default="one",
           help="interfaces of each host that a queue pair uses (default)"),
    option("--reorder", metavar="T", help="selective-repeat: how far packets may overtake each "
           "other in fabric time without counting as lost, such as 10us"),
    flag("--failover", "failover", help="with all interfaces: treat them as planes with separate "
         "rates and losses, so that one that fails costs only its share"),
)  # fmt: skip

tls_files = together(
    option("--tls-ca", type=Path, metavar="FILE",
           help="TLS: the authority of the switch's certificate"),
    option("--tls-cert", type=Path, metavar="FILE",
           help="TLS: our own certificate, if the switch asks for one"),
    option("--tls-key", type=Path, metavar="FILE", help="TLS: its key"),
)  # fmt: skip
