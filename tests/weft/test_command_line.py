"""What all commands have in common: help, defaults, shortened options, wrong arguments."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from weft import cli
from weft.cli import _COMMANDS, _GROUPS, _WEFT
from weft.compile_command import run as compile_command


def test_every_command_is_in_one_group_of_help() -> None:
    grouped = [name for names in _GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(_COMMANDS)


@pytest.mark.parametrize("name", _COMMANDS)
def test_help_has_examples_and_defaults_are_values(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"weft {name}" in shown.partition("examples:\n")[2]
    context = click.Context(_WEFT.get_command(click.Context(_WEFT), name))
    for parameter in context.command.params:
        if not parameter.required:
            parameter.process_value(context, parameter.get_default(context))


def test_the_list_of_commands_imports_none() -> None:
    code = (
        "import sys; from weft import cli\n"
        f"places = {sorted({place.partition(':')[0] for place, _ in _COMMANDS.values()})}\n"
        "assert cli.main(['--help']) == 0\n"
        "print('loaded:', [name for name in places if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: ['weft.cli']"


WRONG = {
    "a misspelt command": ("run-tpo", "no command 'run-tpo'. Did you mean 'run-topo'?"),
    "a misspelt option": ("topo list --jsn", "weft topo: no such option '--jsn'. (Did you mean"),
    "an option for a value": ("compile x.p4 -o --time", "weft compile: option '-o' requires"),
    "a long option, cut": ("lint x --p4 --str", "weft lint: option '--p4' requires"),
    "not clear": ("sweep --m goodput", "weft sweep: no such option '--m'"),
    "a value too many": ("doctor --json=1", "weft doctor: option '--json' does not take a value"),
    "no number": ("sim two-flows --seed x", "weft sim: invalid value for '--seed': 'x' is not"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_error_with_a_remedy(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words, said = WRONG[name]
    assert cli.main(words.split()) == 2
    error, remedy = capsys.readouterr().err.splitlines()
    assert error.startswith("error: weft") and said in error
    assert remedy.startswith("remedy: weft") and remedy.endswith("--help")


def test_a_long_option_may_be_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["topo", "list", "--js"]) == 0
    assert capsys.readouterr().out.startswith("[")


def test_kinds_of_diagnostics_keep_their_order_and_take_no_program() -> None:
    words = ["--Werror", "x.p4", "-o", "out", "--Wdisable=unused", "--Werr=shadow"]
    with compile_command.make_context("compile", words) as context:
        kinds = context.params["diagnostics"]
    assert kinds == ("Werror", "Wdisable=unused", "Werror=shadow")
