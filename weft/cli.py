"""The `weft` command: which commands there are, where each stands, and how they end.

Exit codes: 0 done; 1 it failed, and said why; 2 the arguments are wrong; 70 a bug of ours;
130 interrupted. A command's module is imported when it is asked for: `weft --help` needs none.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import click

from experiments.our_errors import is_ours
from observe.errors import UsageError
from weft import console, full_disk
from weft.command_line import EXIT_USAGE, Group, as_json, command, flag, refuse

ROOT = Path(__file__).resolve().parent.parent

EXIT_FAILED = 1
EXIT_BUG = 70
EXIT_INTERRUPTED = 130

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run-topo": ("weft.run_topo:run",
        "start a topology in real time and test it with real traffic"),
    "stop": ("weft.stop:stop", "end the current run and remove exactly what it created"),
    "clean": ("weft.stop:clean", "remove what a crashed run left behind, and nothing else"),
    "compile": ("weft.compile_command:run",
        "compile a P4_16 program to BMv2 JSON, P4Info and machine code"),
    "parity": ("compat.commands.parity:run",
        "run a program on every available pairing of {our compiler, p4c} and {our switch, BMv2} "
        "and compare"),
    "topo": ("weft.topo:run",
        "check, draw, create or import a topology, or list those that come with Weft"),
    "trace": ("weft.trace:run",
        "show what happens to each packet inside a switch of the running fabric"),
    "path": ("weft.path:run",
        "show the path of a flow, hop by hop, and where its packets are lost"),
    "top": ("weft.top:run",
        "show rates, load, queue, drops and marks of every port, live"),
    "web": ("weft.serve:web",
        "serve a live page of the running fabric, on this machine only"),
    "metrics": ("weft.serve:metrics",
        "serve Prometheus metrics of the running fabric, on this machine only"),
    "bench": ("weft.bench:run", "measure the speed of the switch and compare it with its targets"),
    "doctor": ("weft.cli:doctor",
        "check this machine: what is missing, what that costs, and the command that installs it"),
    "uninstall": ("weft.cli:uninstall",
        "list everything that Weft has installed here and remove it; the clone itself stays"),
    "bound": ("weft.bound:run",
        "compute the least time in which any routing could deliver a run's messages"),
    "dcqcn": ("weft.dcqcn:run",
        "print the fixed point and stability margin of each DCQCN parameter set"),
    "validate": ("compat.commands.validate:run",
        "run flows whose results in ns-3 are recorded, and compare"),
    "drop-in": ("compat.dropin.drop_in:run",
        "create p4c-bm2-ss, p4c, simple_switch_grpc, simple_switch and simple_switch_CLI that "
        "run Weft, for existing scripts"),
    "grade": ("weft.grade:run",
        "grade an answer to a lab: marks, and the reason for each one that is missing"),
    "lab": ("weft.lab:lab",
        "list the labs, or run one: its variants, checks and report"),
    "agent": ("weft.agent:run",
        "show the state that the hosts' eBPF keeps for every RoCE queue pair, live"),
    "exec": ("weft.remote:execute", "run a command on a host of the running fabric"),
    "link": ("weft.remote:link", "unplug a cable of the running fabric, or plug it in again"),
    "job": ("weft.job:job",
        "start and end jobs whose paths the controller of the running fabric plans"),
    "reload": ("weft.remote:reload",
        "compile a changed P4 program and load it into running switches"),
    "setup-p4rt-shell": ("weft.p4rt_shell:setup",
        "install p4runtime-shell, which the prompt's `p4rt-shell` starts"),
    "perf": ("weft.perf:run",
        "measure RDMA bandwidth and latency between hosts, with perftest's columns"),
    "plot": ("weft.plot:run", "draw figures from the results of a simulation"),
    "lint": ("weft.lint:run",
        "check programs, topologies and run files for mistakes that only show at run time"),
    "sim": ("weft.sim:run", "run a topology with its traffic in virtual time"),
    "stf": ("compat.commands.stf:run",
        "run a test in p4c's simple test format (STF)"),
    "conformance": ("compat.commands.conformance:run",
        "run p4c's own tests on our compiler and switch and compare the results with p4c's"),
    "corpus": ("compat.commands.corpus:run",
        "compile every v1model program of a folder: verdict, time, and agreement with p4c"),
    "sweep": ("weft.sweep_command:run",
        "run one run file with many parameters and seeds and find the best"),
    "setup-dask": ("weft.sweep_command:setup_dask",
        "install Dask, which `weft sweep --scheduler` and its workers need"),
    "notebook": ("weft.notebook:run",
        "open the notebooks that come with Weft in Jupyter"),
    "setup-notebook": ("weft.notebook:setup",
        "install Jupyter and pandas, which `weft notebook` and `Result.pandas` need"),
    "setup-torch": ("weft.torch_setup:setup",
        "install PyTorch, which the ranks of `weft train` run"),
    "train": ("weft.train:run",
        "train a PyTorch model on the hosts of a fabric while its switches add up the gradients"),
    "cli": ("compat.bmv2_cli.main:run",
        "run simple_switch_CLI's commands on a switch: tables, registers, multicast"),
    "lab-files": ("compat.dropin.lab_files:run",
        "run every file of simple_switch_CLI commands in a folder, each with its program"),
}  # fmt: skip
"""Each command's place, MODULE:NAME, and what it does."""

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Getting started": ("doctor", "topo", "run-topo", "sim", "lab"),
    "A running fabric": (
        "exec",
        "link",
        "reload",
        "job",
        "perf",
        "train",
        "cli",
        "stop",
        "clean",
    ),
    "Observing it": ("top", "web", "trace", "path", "agent", "metrics"),
    "P4 programs": ("compile", "lint", "stf", "parity", "drop-in", "lab-files"),
    "Simulation and results": ("plot", "sweep", "bound", "dcqcn", "validate"),
    "Teaching": ("grade", "notebook"),
    "Weft itself": (
        "bench",
        "conformance",
        "corpus",
        "setup-p4rt-shell",
        "setup-dask",
        "setup-notebook",
        "setup-torch",
        "uninstall",
    ),
}
"""The commands as help shows them: what one needs first comes first."""

_ALIASES = {"run": "run-topo"}

# Of OSErrors that name a file, those that say something about the user's machine.
_USERS_FILES = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENOSPC}
    | {errno.EROFS, errno.EEXIST, errno.ENAMETOOLONG}
)


class _Commands(Group):
    """All of them, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names, in the order of help."""
        return [name for names in _GROUPS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import a command. Raises click.NoSuchCommand."""
        name = _ALIASES.get(cmd_name, cmd_name)
        if name not in _COMMANDS:
            text = f"invalid choice: there is no command {cmd_name!r}."
            raise click.exceptions.NoSuchCommand(cmd_name, text, _COMMANDS, ctx)
        place, text = _COMMANDS[name]
        module, _, attribute = place.partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        found.help = f"{text[0].upper()}{text[1:]}."
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the tables; nothing is imported for them."""
        aliases = {name: f" ({alias})" for alias, name in _ALIASES.items()}
        width = max(len(name + aliases.get(name, "")) for name in _COMMANDS)
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name}{aliases.get(name, '')}".ljust(width), _COMMANDS[name][1])
                        for name in names
                    ]
                )


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # for this alone

        try:
            number = metadata.version("weft")
        except metadata.PackageNotFoundError:
            number = "(not installed: make setup)"
        print(f"weft {number}, Python {sys.version.split()[0]}, {ROOT}")
        ctx.exit()


_WEFT = _Commands(
    "weft",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="print the version, Python's version and Weft's folder",
        )
    ],
    help="P4/eBPF prototypes of AI-cluster (RoCEv2) networks, on one machine.",
    epilog="weft COMMAND --help describes a command, with examples.",
    no_args_is_help=False,
    subcommand_metavar="COMMAND ...",
    options_metavar="[-h] [--version]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (default: the process's arguments) asks for.

    Returns the exit code. No exception leaves it, but with WEFT_DEBUG=1 what a command raised.
    """
    try:
        words = sys.argv[1:] if argv is None else argv
        code = _run(words or ["--help"])
        sys.stdout.flush()
        return code
    except click.UsageError as error:
        return refuse(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nothing more to say to it.
        _drop_output()
        return EXIT_FAILED
    except Exception as error:
        if os.environ.get("WEFT_DEBUG"):
            raise
        return report(error)


def _run(argv: Sequence[str]) -> int:
    # Not click's own `main`: it has exit codes of its own for Ctrl-C and a reader that has gone.
    try:
        with _WEFT.make_context("weft", list(argv)) as context:
            return int(_WEFT.invoke(context))
    except click.exceptions.Exit as done:  # --help
        return done.exit_code


@command("""
    examples:
      weft doctor
      weft doctor --json
    """)
@as_json
def doctor(as_json: bool) -> int:
    """Run `weft doctor`; return the exit code."""
    from weft import doctor as checks  # it runs without click, too, where nothing is installed

    return checks.run(as_json)


@command("""
    examples:
      weft uninstall --dry-run      list it and remove nothing
      weft uninstall --yes
      make uninstall                the same; works even if Weft is no longer installed
    """)
@flag("--yes", help="do not ask")
@flag("--dry-run", help="list everything and remove nothing")
@as_json
def uninstall(yes: bool, dry_run: bool, as_json: bool) -> int:
    """Run `weft uninstall`; return the exit code. Raises UninstallError, EmulationError."""
    from weft import uninstall as removal  # it runs without click, too, as doctor does

    return removal.run(yes=yes, dry_run=dry_run, as_json=as_json)


def report(error: Exception) -> int:
    """Say what ended a command, in a line; of a bug also where its trace is. Returns its code."""
    if is_ours(error):
        console.report(error)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    if full := full_disk.said_of(error):
        console.error(*full)
        _drop_output()
        return EXIT_FAILED
    if isinstance(error, OSError) and error.filename and error.errno in _USERS_FILES:
        console.error(f"{error.filename}: {error.strerror}")
        return EXIT_FAILED
    if isinstance(error, MemoryError):
        console.error("out of memory", "end other programs, or ask for less at once")
        return EXIT_FAILED
    where = _log_traceback(error)
    text = str(error).strip().splitlines()
    first = f": {text[0]}" if text else ""
    console.error(
        f"this is a bug in Weft ({type(error).__name__}{first})",
        f"please report it with {where}" if where else "please report it; WEFT_DEBUG=1 shows more",
    )
    return EXIT_BUG


def _drop_output() -> None:
    """Let Python's own flush at the end not fail where ours has."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _log_traceback(error: Exception) -> Path | None:
    """Write the trace where the user can find it; None when nowhere can be written."""
    import tempfile  # these three for a bug alone
    import time
    import traceback

    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    text = f"weft {' '.join(sys.argv[1:])}\n\n{''.join(traceback.format_exception(error))}"
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for directory in (state / "weft", Path(tempfile.gettempdir())):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        except OSError:
            continue
        return directory / name
    return None


if __name__ == "__main__":
    sys.exit(main())
