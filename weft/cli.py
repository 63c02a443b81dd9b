"""The `weft` command: which commands there are, their arguments, and how they end.

Exit codes: 0 done; 1 it failed, and said why; 2 the arguments are wrong; 70 a bug of ours;
130 interrupted. Packages are imported by the command that needs them: `weft --help` needs none.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from observe.errors import UsageError
from weft import (
    cli_conformance,
    cli_corpus,
    cli_dcqcn,
    cli_drop_in,
    cli_grade,
    cli_lab,
    cli_live,
    cli_perf,
    cli_results,
    cli_sim,
    cli_stf,
    cli_sweep,
    cli_switch,
)
from weft.cli_arguments import (
    add_diagnostics,
    add_json,
    add_preprocessor,
    add_tls,
    without_kinds,
)

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130

METRICS_PORT = 9464
WEB_PORT = 9480

# An exception of a class made here is a message for the user; any other one is a bug.
_OUR_PACKAGES = frozenset(
    {"weft", "labs", "emulation", "simulator", "controller", "hostagent", "topologies"}
    | {"compat", "experiments", "observe", "mechanisms", "workloads"}
    | {"softswitch", "compiler", "protocols"}
)

# Of OSErrors that name a file, those that say something about the user's machine.
_USERS_FILES = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENOSPC}
    | {errno.EROFS, errno.EEXIST, errno.ENAMETOOLONG}
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (default: the process's arguments) asks for.

    Returns the exit code. No exception leaves it but argparse's SystemExit.
    """
    try:
        arguments = _parser().parse_args(without_kinds(sys.argv[1:] if argv is None else argv))
        module, _, function = arguments.handler.partition(":")
        code = getattr(import_module(module), function)(arguments)
        sys.stdout.flush()
        return int(code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except Exception as error:
        if os.environ.get("WEFT_DEBUG"):
            raise
        return report(error)


def doctor(arguments: argparse.Namespace) -> int:
    """`weft doctor`; returns the exit code."""
    from weft import doctor as doctor_command

    return doctor_command.run(arguments.json)


def report(error: Exception) -> int:
    """Say what ended a command, in a line; of a bug also where its trace is. Returns its code."""
    from weft import console

    if _is_ours(error):
        console.report(error)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
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


def _is_ours(error: Exception) -> bool:
    return any(kind.__module__.partition(".")[0] in _OUR_PACKAGES for kind in type(error).__mro__)


def _log_traceback(error: Exception) -> Path | None:
    """Write the trace where the user can find it; None when nowhere can be written."""
    import tempfile
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weft",
        description="P4/eBPF prototypes of AI-cluster (RoCEv2) networks, on one machine.",
        epilog="weft COMMAND --help tells more about a command, with examples.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run_topo(commands)
    _add_stop(commands)
    _add_clean(commands)
    _add_compile(commands)
    _add_parity(commands)
    _add_topo(commands)
    _add_trace(commands)
    _add_top(commands)
    _add_web(commands)
    _add_metrics(commands)
    _add_bench(commands)
    _add_doctor(commands)
    cli_dcqcn.add_commands(partial(_add, commands))
    cli_drop_in.add_commands(partial(_add, commands))
    cli_grade.add_commands(partial(_add, commands))
    cli_lab.add_commands(partial(_add, commands))
    cli_live.add_commands(partial(_add, commands))
    cli_perf.add_commands(partial(_add, commands))
    cli_results.add_commands(partial(_add, commands))
    cli_sim.add_commands(partial(_add, commands))
    cli_stf.add_commands(partial(_add, commands))
    cli_conformance.add_commands(partial(_add, commands))
    cli_corpus.add_commands(partial(_add, commands))
    cli_sweep.add_commands(partial(_add, commands))
    cli_switch.add_commands(partial(_add, commands))
    return parser


_Commands = argparse._SubParsersAction  # the only name argparse gives it


def _add(
    commands: _Commands[argparse.ArgumentParser],
    name: str,
    handler: str,
    text: str,
    examples: str,
    aliases: Sequence[str] = (),
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        aliases=list(aliases),
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(handler=handler)
    return command


def _add_run_topo(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "run-topo",
        "weft.run_topo:run",
        "bring a topology up with p4src/fabric.p4 and show on real traffic that it works",
        "  sudo weft run-topo                        the default fabric, its results, and down\n"
        "  sudo weft run-topo --cli                  the same, then a prompt\n"
        "  sudo weft run-topo my/net.yaml --json     another topology, for a program to read\n",
        aliases=["run"],
    )
    command.add_argument(
        "topology",
        nargs="?",
        default="leafspine",
        metavar="TOPO",
        help="a name that `weft topo list` shows, or a YAML file (default: %(default)s)",
    )
    command.add_argument(
        "--target",
        choices=("softswitch", "bmv2"),
        default="softswitch",
        help="what plays the switches: ours, or simple_switch_grpc (default: %(default)s)",
    )
    command.add_argument("--cli", action="store_true", help="give a prompt after the results")
    command.add_argument(
        "--seconds",
        type=int,
        choices=range(1, 3601),
        default=2,
        metavar="N",
        help="how long the TCP transfer lasts (default: %(default)s)",
    )
    command.add_argument(
        "--metrics",
        type=_port,
        nargs="?",
        const=METRICS_PORT,
        metavar="PORT",
        help=f"serve Prometheus metrics on 127.0.0.1 while it is up (PORT: {METRICS_PORT})",
    )
    command.add_argument(
        "--keep-logs", action="store_true", help="never prune the logs of this run"
    )
    add_json(command)


def _add_stop(commands: _Commands[argparse.ArgumentParser]) -> None:
    _add(
        commands,
        "stop",
        "weft.stop:stop",
        "end the run that is up and remove exactly what runs made",
        "  sudo weft stop\n",
    )


def _add_clean(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "clean",
        "weft.stop:clean",
        "remove what a crashed run left, and nothing else",
        "  sudo weft clean\n  sudo weft clean --logs      the logs of past runs too\n",
    )
    command.add_argument("--logs", action="store_true", help="remove the logs of past runs too")


def _add_compile(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "compile",
        "weft.compile:run",
        "compile a P4_16 program to BMv2 JSON, P4Info and machine code",
        "  weft compile p4src/fabric.p4 -o build/p4\n"
        "  weft compile -I p4src/include -D PORTS=64 prog.p4 -o out --time\n"
        "  weft compile --no-p4info prog.p4 -o out         JSON alone\n"
        "  weft compile --compiler p4c prog.p4 -o out      with p4c-bm2-ss, where installed\n",
    )
    command.add_argument("program", type=Path, metavar="PROG.p4", help="the program")
    command.add_argument(
        "-o", dest="out", type=Path, required=True, metavar="DIR", help="where the files go"
    )
    add_preprocessor(command)
    add_diagnostics(command)
    command.add_argument(
        "--std", choices=("p4-16",), default="p4-16", help="the language (default: %(default)s)"
    )
    command.add_argument(
        "--compiler",
        choices=("weft", "p4c"),
        default="weft",
        help="ours, or p4c-bm2-ss on PATH (default: %(default)s)",
    )
    command.add_argument(
        "--no-p4info", dest="with_p4info", action="store_false",
        help="JSON alone, also of a program that P4Info can't describe, as p4c-bm2-ss without "
        "--p4runtime-files",
    )  # fmt: skip
    command.add_argument("--time", action="store_true", help="show how long each phase took")
    add_json(command)


def _add_parity(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "parity",
        "compat.commands.parity:run",
        "run a program on every pairing of {our compiler, p4c} and {our switch, BMv2} there is, "
        "and compare",
        "  weft parity p4src/fabric.p4\n"
        "  weft parity prog.p4 --packets 10000 --seed 7\n"
        "  weft parity prog.p4 --entries tables.json         with entries of your own\n"
        "  weft parity prog.p4 --replay build/parity/prog.x.vectors.json\n",
    )
    command.add_argument("program", type=Path, metavar="PROG.p4", help="the program")
    add_preprocessor(command)
    command.add_argument(
        "--packets", type=int, default=1000, metavar="N", help="how many (default: %(default)s)"
    )
    command.add_argument(
        "--live-packets",
        type=int,
        default=300,
        metavar="N",
        help="how many of them on running switches, which are slow; 0: none (default: %(default)s)",
    )
    command.add_argument(
        "--seed", type=int, default=1, metavar="N",
        help="the same seed makes the same packets and entries (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--entries", type=Path, metavar="FILE", help="take the entries from a JSON file"
    )
    command.add_argument(
        "--replay", type=Path, metavar="FILE", help="run a vector file's entries and packets"
    )
    command.add_argument(
        "--daemon", action="store_true", help="run our switch as a daemon too, on real links"
    )
    command.add_argument(
        "-o", dest="out", type=Path, default=Path("build/parity"), metavar="DIR",
        help="where vector files of differences go (default: %(default)s)",
    )  # fmt: skip
    add_json(command)


def _add_topo(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "topo",
        "weft.topo:run",
        "find what is wrong with a topology, draw it, list those that come with Weft",
        "  weft topo list\n"
        "  weft topo check my/net.yaml           errors, warnings, and what would be right\n"
        "  weft topo check my/net.yaml --strict  warnings fail too\n"
        "  weft topo show rail                   in the terminal\n"
        "  weft topo show rail --png rail.png --svg rail.svg\n",
    )
    command.add_argument("action", choices=("check", "show", "list"), help="what to do")
    command.add_argument("topology", nargs="?", metavar="TOPO", help="a name or a YAML file")
    command.add_argument("--strict", action="store_true", help="check: warnings fail too")
    command.add_argument("--png", type=Path, metavar="FILE", help="show: draw it into FILE.png")
    command.add_argument("--svg", type=Path, metavar="FILE", help="show: draw it into FILE.svg")
    command.add_argument(
        "--tables", action="store_true", help="show: list every node and link of a large one too"
    )
    add_json(command)


def _add_trace(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "trace",
        "weft.trace:run",
        "show what happens to each packet inside a switch of the running fabric",
        "  weft trace s1                                 all packets, until Ctrl-C\n"
        "  weft trace s1 --filter 'udp dst port 4791'    those that a pcap filter takes\n"
        "  weft trace s1 --port 1 --port 2 --count 10    ten that arrive at port 1 or 2\n"
        "  weft trace 127.0.0.1:9559 --json              any softswitch, an object a line\n"
        "  weft trace 10.0.0.7:9559 --tls-ca ca.pem      one with --grpc-server-ssl\n",
    )
    command.add_argument(
        "switch", metavar="SWITCH", help="a switch of the run, or HOST:PORT of any softswitch"
    )
    command.add_argument(
        "--filter", metavar="EXPR", help="pcap filter on the packet as the switch receives it"
    )
    command.add_argument(
        "--port", type=int, action="append", metavar="N", help="only packets received at port N"
    )
    command.add_argument(
        "--count", type=_positive, metavar="N", help="end after N packets (default: go on)"
    )
    add_tls(command)
    add_json(command)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return number


def _add_top(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "top",
        "weft.top:run",
        "show what every port of the running fabric carries: rates, load, queue, drops, marks",
        "  weft top                      all ports, each second, until Ctrl-C\n"
        "  weft top s1 h3 --sort load    the ports of s1 and those to h3, the fullest first\n"
        "  weft top --once --json        one look, for a program to read\n",
    )
    command.add_argument(
        "only", nargs="*", metavar="WHERE", help="switches, hosts or ports (s1:3); default: all"
    )
    command.add_argument(
        "--interval", default="1s", metavar="T", help="time between looks (default: %(default)s)"
    )
    command.add_argument("--once", action="store_true", help="one look after one interval")
    command.add_argument(
        "--sort",
        default="name",
        help="what ports are sorted by, highest first (default: %(default)s)",
    )
    add_json(command)


def _add_web(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "web",
        "observe.web.server:run",
        "serve a page, on this machine only, that shows the running fabric live",
        "  weft web                 then open the address that it prints\n"
        "  weft web --port 0        on any free port\n",
    )
    _add_port(command, WEB_PORT)
    command.add_argument(
        "--interval", default="1s", metavar="T", help="time between looks (default: %(default)s)"
    )


def _add_metrics(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "metrics",
        "observe.metrics:run",
        "serve Prometheus metrics of the running fabric, on this machine only",
        "  weft metrics                                  until Ctrl-C, run after run\n"
        f"  curl -s http://127.0.0.1:{METRICS_PORT}/metrics        what Prometheus scrapes\n",
    )
    _add_port(command, METRICS_PORT)


def _add_port(command: argparse.ArgumentParser, default: int) -> None:
    command.add_argument(
        "--port",
        type=_port,
        default=default,
        metavar="N",
        help="TCP port of 127.0.0.1, 0 for any that is free (default: %(default)s)",
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: it is a number from 0 to 65535")
    return int(text)


def _add_bench(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "bench",
        "weft.bench:run",
        "measure what the switch can do, and compare it with its goals",
        "  sudo weft bench\n  sudo weft bench --quick --json\n",
    )
    command.add_argument("--quick", action="store_true", help="short rounds, for a first look")
    add_json(command)


def _add_doctor(commands: _Commands[argparse.ArgumentParser]) -> None:
    command = _add(
        commands,
        "doctor",
        "weft.cli:doctor",
        "say what this machine has, what each missing thing costs, and what mends it",
        "  weft doctor\n  weft doctor --json\n",
    )
    add_json(command)


if __name__ == "__main__":
    sys.exit(main())
