"""Loads the XDP program of a run's hosts and attaches it in their network namespaces.

    agent = Agent.load(pins)                    # compiles, takes up or makes the pinned maps
    agent.attach(pid, "h1-eth0")                # in that process's namespace, or a namespace's file
    agent.close()                               # the program and its maps stay

One program and one set of maps serve all hosts. Nothing has to keep running: what is attached
stays attached, state is pinned. Loading compiles the program again and takes up the maps;
attaching it then puts it in the other one's place between two packets.

As a process of its own (`python -m hostagent.agent --pins DIR --attach NAMESPACE:INTERFACE ...`)
it prints one line of JSON and ends, so that the compiler's memory goes with it: `command` says how
to start it, `read_report` what it said, `run` does both.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hostagent import kernel_headers
from hostagent import pins as pinned

BPF_DIRECTORY = Path(__file__).resolve().parent / "bpf"
SOURCE = BPF_DIRECTORY / "roce.bpf.c"
INCLUDE = BPF_DIRECTORY.parent / "include"
ROOT = BPF_DIRECTORY.parent.parent
PROGRAM = "roce_xdp"
CPU_S = 120  # of processor time: fifty times what it takes, however busy the machine is
TIMEOUT_S = 600.0  # for one that waits forever
OTHERS_S = 300.0  # for another agent that loads into the same pins

_CLONE_NEWNET = 0x40000000
_GENERIC, _NATIVE = 1 << 1, 1 << 2  # XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE

Result = TypeVar("Result")


class AgentError(Exception):
    """The host agent can't be loaded or attached; the message says why."""


class VerifierRefusal(AgentError):
    """The kernel's verifier refuses the program: the message is its reason and where."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


@dataclass(frozen=True)
class Attached:
    """An interface with the program; `native`: in the driver, else in the generic path."""

    namespace: str
    interface: str
    native: bool


@dataclass
class Report:
    """What became of a load: `error` None is success."""

    pins: str
    attached: list[Attached] = field(default_factory=list)
    error: str | None = None
    log: str | None = None


class Agent:
    """A loaded program. Root only."""

    def __init__(self, pins: Path, bpf: Any, program: Any) -> None:
        self.pins = pins
        self._bpf = bpf
        self._program = program

    @classmethod
    def load(cls, pins: Path, source: Path = SOURCE, include: Path = INCLUDE) -> Agent:
        """Compile and load, with the maps that are pinned in `pins`; makes those that are not.

        `include`: the shared headers, with the list of algorithms (hostagent.own_algorithm).
        Raises AgentError, VerifierRefusal, OSError.
        """
        try:
            pinned.mount()
            pinned.check(pins)
        except pinned.PinsError as error:
            raise AgentError(str(error)) from None
        kernel_headers.export()
        try:
            from bcc import BPF  # a Debian package, which may be missing
        except ImportError as error:
            raise AgentError(f"{error}: install Debian's python3-bpfcc") from None
        pins.mkdir(exist_ok=True)
        pinned.mark(pins)
        flags = [f"-I{BPF_DIRECTORY}", f"-I{include}", f'-DPINS="{pins}"']
        said = Captured()
        try:
            with said:
                bpf = BPF(src_file=str(source).encode(), cflags=flags)
        except Exception:  # bcc raises bare Exception
            raise AgentError(f"{source.name} does not compile: {first_error(said.text)}") from None
        try:
            with said:
                program = bpf.load_func(PROGRAM.encode(), BPF.XDP)
        except Exception:
            raise VerifierRefusal(
                f"the kernel refuses {source.name}: {refusal(said.text)}", said.text
            ) from None
        return cls(pins, bpf, program)

    def attach(self, namespace: int | Path, interface: str) -> Attached:
        """Attach to an interface in a network namespace; replaces what is there.

        The namespace is a process's that is in it, or a file such as /run/netns/NAME. Native where
        the driver takes it, else in the generic path. Raises AgentError.
        """
        from bcc import lib  # as in Agent.load

        def attach_here() -> bool:
            name = interface.encode()
            for flags in (_NATIVE, _GENERIC):
                said = Captured()
                with said:
                    failed = lib.bpf_attach_xdp(name, self._program.fd, flags)
                if failed >= 0:
                    return flags == _NATIVE
            reason = os.strerror(-failed) if failed < -1 else said.text.strip() or "refused"
            raise AgentError(f"XDP can't be attached to {interface}: {reason}")

        return Attached(str(namespace), interface, in_namespace(namespace, attach_here))

    @property
    def program_fd(self) -> int:
        """The loaded program, for `bpf_test_run`."""
        return int(self._program.fd)

    def close(self) -> None:
        """Let go of the program; attached it lives on, and so do the maps."""
        self._bpf.cleanup()


def detach(namespace: int | Path, interface: str) -> None:
    """Take the XDP program off an interface in a network namespace. Raises AgentError."""
    from bcc import lib  # as in Agent.load

    def detach_here() -> None:
        for flags in (_NATIVE, _GENERIC):
            with Captured():
                lib.bpf_attach_xdp(interface.encode(), -1, flags)

    in_namespace(namespace, detach_here)


def in_namespace(namespace: int | Path, action: Callable[[], Result]) -> Result:
    """Do something in a network namespace (a process's, or a file), in a thread of its own.

    Raises AgentError if there is no such namespace, and what `action` raises.
    """
    path = Path(f"/proc/{namespace}/ns/net") if isinstance(namespace, int) else namespace
    outcome: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            with path.open("rb") as file:
                if libc.setns(file.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            outcome.append(action())
        except OSError as error:
            errors.append(AgentError(f"no way into the namespace {path}: {error.strerror}"))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]


class Captured:
    """What is written to descriptor 2 meanwhile: bcc's compiler and loader write there."""

    def __init__(self) -> None:
        self.text = ""

    def __enter__(self) -> Captured:
        sys.stderr.flush()
        self._file = tempfile.TemporaryFile()
        self._saved = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._file.seek(0)
        self.text += self._file.read().decode(errors="replace")
        self._file.close()


def first_error(text: str) -> str:
    """Return the compiler's first error of what it wrote."""
    lines = [line.strip() for line in text.splitlines() if "error:" in line]
    return lines[0] if lines else (text.strip().splitlines() or ["no reason given"])[-1]


_NOISE = re.compile(
    r"processed \d+ insns|^stack depth|^max_states|^verification time|^\s*$|^bpf: "
    r"|^(?:cur|old) state: "
)
_COUNTED = re.compile(r"too large \((\d+) insns\), at most (\d+) insns")  # bcc for any E2BIG
_LOOP = re.compile(r" (infinite loop detected at insn \d+)")  # in the instruction's own line
_PLACE = re.compile(r" @ \S+:\d+$")  # of what bcc made of the source, not of the file
_INSTRUCTION = re.compile(r"^\s*(\d+): \(")


def refusal(log: str) -> str:
    """Shorten a verifier's log to its reason, the instruction, and the line of source it is of."""
    lines = [line.rstrip() for line in log.splitlines()]
    counted = _COUNTED.search(log)
    if counted is not None and int(counted[1]) <= int(counted[2]):  # so its length is not why
        return (
            f"too complex for the kernel's verifier: {counted[1]} instructions, but more than it "
            "follows along all paths and through all rounds of loops"
        )
    limits = [line for line in lines if "too large" in line or "too complex" in line]
    if limits:
        return limits[-1].strip()
    said = [line for line in lines if line and not _NOISE.search(line)]
    if not said:
        return "no reason given"
    last = next((n for n in reversed(range(len(said))) if _INSTRUCTION.match(said[n])), None)
    if last is None:
        return said[-1].strip()
    sources = [line for line in said[:last] if line.lstrip().startswith(";")]
    reasons = [
        line.strip()
        for line in said[last + 1 :]
        if not line.startswith(("from ", "R", " R", ";")) or "invalid" in line or "!" in line
    ]
    instruction = said[last].strip()
    loop = _LOOP.search(instruction)
    if loop is not None:
        reasons, instruction = [loop[1]], instruction.replace(loop[0], "")
    reason = reasons[0] if reasons else said[-1].strip()
    where = f"at instruction {instruction}"
    if sources:
        source = _PLACE.sub("", sources[-1].strip().lstrip("; "))
        where += f", for the source line `{source}`"
    return f"{reason} ({where})"


# --- as a process -------------------------------------------------------------------------------


def command(pins: Path, log: Path | None = None) -> list[str]:
    """Return the command that loads, then attaches to what it reads: `attach_lines`, and ends."""
    words = [sys.executable, "-m", "hostagent.agent", "--pins", str(pins), "--attach", "-"]
    return words if log is None else [*words, "--log", str(log)]


def attach_lines(hosts: Iterable[tuple[int | Path, str]]) -> str:
    """Return what to write to that command for (namespace, interface) each."""
    return "".join(f"{namespace}:{interface}\n" for namespace, interface in hosts)


def read_report(pins: Path, output: str, errors: str, code: int = 0) -> Report:
    """Return what that process said, which ended with `code`. Never raises: see `Report.error`."""
    if code == -signal.SIGXCPU:
        error = f"the compiler was not done after {CPU_S} s of processor time"
        return Report(str(pins), error=error)
    try:
        data = json.loads(output.splitlines()[-1])
        attached = [Attached(**each) for each in data.pop("attached")]
        return Report(attached=attached, **data)
    except (ValueError, IndexError, KeyError, TypeError):
        lines = errors.strip().splitlines() or ["the agent ended without a word"]
        return Report(str(pins), error=lines[-1])


def run(pins: Path, hosts: Iterable[tuple[int | Path, str]], log: Path | None = None) -> Report:
    """Load and attach in a process of its own, which ends. Never raises: see `Report.error`."""
    try:
        done = subprocess.run(
            command(pins, log),
            input=attach_lines(hosts),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Report(str(pins), error=f"the agent did not end within {TIMEOUT_S:.0f} s")
    except OSError as error:
        return Report(str(pins), error=f"the agent can't be started: {error.strerror}")
    return read_report(pins, done.stdout, done.stderr, done.returncode)


def load_and_attach(
    pins: Path,
    hosts: Iterable[tuple[int | Path, str]],
    log: Path | None,
    source: Path = SOURCE,
    include: Path = INCLUDE,
) -> Report:
    """Load the program and attach it to `hosts`, which are first read when the program is loaded.

    The verifier's whole log goes to `log`. All hosts get the program or, where nothing was pinned
    before, none does and nothing is left pinned. A second agent that loads meanwhile waits.
    """
    report = Report(str(pins))
    try:
        with pinned.locked(pins, OTHERS_S):
            there = pinned.check(pins)
            _load_and_attach(report, hosts, log, lambda: Agent.load(pins, source, include))
            if report.error and not there:
                for each in report.attached:
                    detach(_namespace(each.namespace), each.interface)
                report.attached.clear()
                pinned.remove(pins)
    except (AgentError, pinned.PinsError) as error:
        report.error = str(error)
    except OSError as error:
        report.error = f"{error.filename or pins}: {error.strerror}"
    return report


def _load_and_attach(
    report: Report,
    hosts: Iterable[tuple[int | Path, str]],
    log: Path | None,
    load: Callable[[], Agent],
) -> None:
    agent: Agent | None = None
    try:
        agent = load()
        for namespace, interface in hosts:
            report.attached.append(agent.attach(namespace, interface))
    except VerifierRefusal as error:
        report.error = str(error)
        if log is not None:
            log.write_text(error.log)
            report.log = str(log)
    except AgentError as error:
        report.error = str(error)
    except OSError as error:
        report.error = f"{error.filename or report.pins}: {error.strerror}"
    finally:
        if agent is not None:
            agent.close()


def _namespace(text: str) -> int | Path:
    return int(text) if text.isdecimal() else Path(text)


def main(argv: list[str] | None = None) -> int:
    """Run the command line of this module; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hostagent.agent", description=__doc__)
    parser.add_argument("--pins", type=Path, required=True, help="a directory below /sys/fs/bpf")
    parser.add_argument(
        "--attach", action="append", default=[], metavar="NAMESPACE:INTERFACE",
        help="a process in the namespace, or the namespace's file; - reads them",
    )  # fmt: skip
    parser.add_argument("--log", type=Path, help="where a refusing verifier's whole log goes")
    parser.add_argument("--source", type=Path, default=SOURCE, help="another program")
    parser.add_argument(
        "--include",
        type=Path,
        default=INCLUDE,
        help="a folder of shared headers, for other algorithms",
    )
    arguments = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))  # by SIGXCPU, which tells why
    hosts = (
        (_namespace(where), name)
        for text in arguments.attach
        for where, _, name in (
            each.strip().rpartition(":") for each in (sys.stdin if text == "-" else [text])
        )
    )
    report = load_and_attach(
        arguments.pins, hosts, arguments.log, arguments.source, arguments.include
    )
    print(json.dumps(asdict(report)))
    return 0 if report.error is None else 1


if __name__ == "__main__":
    sys.exit(main())
