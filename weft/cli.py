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
        "bring a topology up with p4src/fabric.p4 and show on real traffic that it works"),
    "stop": ("weft.stop:stop", "end the run that is up and remove exactly what runs made"),
    "clean": ("weft.stop:clean", "remove what a crashed run left, and nothing else"),
    "compile": ("weft.compile_command:run",
        "compile a P4_16 program to BMv2 JSON, P4Info and machine code"),
    "parity": ("compat.commands.parity:run",
        "run a program on every pairing of {our compiler, p4c} and {our switch, BMv2} there "
        "is, and compare"),
    "topo": ("weft.topo:run",
        "find what is wrong with a topology, draw it, list those that come with Weft"),
    "trace": ("weft.trace:run",
        "show what happens to each packet inside a switch of the running fabric"),
    "path": ("weft.path:run",
        "show which way a flow takes, hop by hop, and where its packets vanish"),
    "top": ("weft.top:run",
        "show what every port of the running fabric carries: rates, load, queue, drops, marks"),
    "web": ("weft.serve:web",
        "serve a page, on this machine only, that shows the running fabric live"),
    "metrics": ("weft.serve:metrics",
        "serve Prometheus metrics of the running fabric, on this machine only"),
    "bench": ("weft.bench:run", "measure what the switch can do, and compare it with its goals"),
    "doctor": ("weft.cli:doctor",
        "say what this machine has, what each missing thing costs, and what mends it"),
    "uninstall": ("weft.cli:uninstall",
        "say what Weft has on this machine, and remove it; the clone itself stays"),
    "bound": ("weft.bound:run",
        "say how soon any split over paths could finish a run's messages, with a proof"),
    "dcqcn": ("weft.dcqcn:run",
        "say where DCQCN's parameter sets rest, and whether they do, by the published fluid model"),
    "validate": ("compat.commands.validate:run",
        "run flows of which another simulator's numbers are recorded, and compare"),
    "drop-in": ("compat.dropin.drop_in:run",
        "make p4c-bm2-ss, p4c, simple_switch_grpc, simple_switch and simple_switch_CLI of "
        "this installation, for others' scripts"),
    "grade": ("weft.grade:run",
        "judge what was written for a lab, P4 or other: marks, and the reason for each missing "
        "one"),
    "lab": ("weft.lab:lab",
        "list the labs, or run one: all its variants, its checks and its report"),
    "agent": ("weft.agent:run",
        "show live what the hosts' eBPF keeps of every RoCE queue pair: rate, alpha, CNPs"),
    "exec": ("weft.remote:execute", "run a command in a host of the run that is up"),
    "link": ("weft.remote:link", "pull a cable of the run that is up, or plug it in again"),
    "job": ("weft.job:job",
        "start and end jobs on the run that is up, whose flows its controller plans"),
    "reload": ("weft.remote:reload",
        "compile a changed P4 program and load it into switches of the run that is up"),
    "setup-p4rt-shell": ("weft.p4rt_shell:setup",
        "install p4runtime-shell, which the prompt's `p4rt-shell` starts"),
    "perf": ("weft.perf:run",
        "measure bandwidth and latency of RDMA between hosts, with perftest's columns"),
    "plot": ("weft.plot:run", "draw figures from the results of a simulation"),
    "lint": ("weft.lint:run",
        "check programs, topologies and run files for what goes wrong only when it runs"),
    "sim": ("weft.sim:run", "run a topology with its traffic in virtual time"),
    "stf": ("compat.commands.stf:run",
        "run a test in p4c's simple test format: packets in, packets expected, digit by digit"),
    "conformance": ("compat.commands.conformance:run",
        "p4c's own test programs and packets through our compiler and switch, beside p4c"),
    "corpus": ("compat.commands.corpus:run",
        "every v1model program of a checkout: does it compile, how fast, as with p4c, same "
        "packets"),
    "sweep": ("weft.sweep_command:run",
        "run one run file over many parameters and seeds, and say which are the best"),
    "setup-dask": ("weft.sweep_command:setup_dask",
        "install Dask, which `weft sweep --scheduler` and its workers need"),
    "notebook": ("weft.notebook:run",
        "open the notebooks that come with Weft in Jupyter"),
    "setup-notebook": ("weft.notebook:setup",
        "install Jupyter and pandas, which `weft notebook` and `Result.pandas` need"),
    "setup-torch": ("weft.torch_setup:setup",
        "install PyTorch, which the ranks of `weft train` run"),
    "train": ("weft.train:run",
        "train a model by PyTorch's DDP on hosts of a fabric, whose switches add the gradients up"),
    "cli": ("compat.bmv2_cli.main:run",
        "take simple_switch_CLI's commands for a running switch: tables, registers, multicast"),
    "lab-files": ("compat.dropin.lab_files:run",
        "run every file of simple_switch_CLI's commands in a folder, each with its program"),
}  # fmt: skip
"""Each command's place, MODULE:NAME, and what it does."""

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "To begin with": ("doctor", "topo", "run-topo", "sim", "lab"),
    "A fabric that is up": (
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
    "Watching it": ("top", "web", "trace", "path", "agent", "metrics"),
    "P4 programs": ("compile", "lint", "stf", "parity", "drop-in", "lab-files"),
    "Virtual time and its results": ("plot", "sweep", "bound", "dcqcn", "validate"),
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
            help="print the version, Python's, and where Weft lies",
        )
    ],
    help="P4/eBPF prototypes of AI-cluster (RoCEv2) networks, on one machine.",
    epilog="weft COMMAND --help tells more about a command, with examples.",
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
      weft uninstall --dry-run      what there is, and nothing more
      weft uninstall --yes
      make uninstall                the same, also where nothing is installed any more
    """)
@flag("--yes", help="do not ask")
@flag("--dry-run", help="say it, and remove nothing")
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
