"""Loads the XDP program of a run's hosts and attaches it in their network namespaces.

    agent = Agent.load(pins)                    # compiles, takes up or makes the pinned maps
    agent.attach(pid, "h1-eth0")                # in the namespace of that process
    agent.close()                               # the program and its maps stay

One program and one set of maps serve all hosts. Nothing has to keep running: what is attached
stays attached, state is pinned. Loading again compiles the program anew and takes up the maps;
attaching it then puts it in the other one's place between two packets.

As a process of its own (`python -m hostagent.agent --pins DIR --attach PID:INTERFACE ...`) it
prints one line of JSON and ends, so that the compiler's memory goes with it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hostagent import bpf_syscall, kernel_headers
from hostagent.pinned_maps import MAPS

BPF_DIRECTORY = Path(__file__).resolve().parent / "bpf"
SOURCE = BPF_DIRECTORY / "roce.bpf.c"
BPF_FILE_SYSTEM = Path("/sys/fs/bpf")
PROGRAM = "roce_xdp"
TIMEOUT_S = 120.0

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

    pid: int
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
    def load(cls, pins: Path, source: Path = SOURCE) -> Agent:
        """Compile and load, with the maps that are pinned in `pins`; makes those that are not.

        Raises AgentError, VerifierRefusal.
        """
        mount()
        _check_layout(pins)
        kernel_headers.export()
        try:
            from bcc import BPF
        except ImportError as error:
            raise AgentError(f"{error}: install Debian's python3-bpfcc") from None
        pins.mkdir(exist_ok=True)
        flags = [f"-I{BPF_DIRECTORY}", f"-I{BPF_DIRECTORY.parent / 'include'}", f'-DPINS="{pins}"']
        said = _Captured()
        try:
            with said:
                bpf = BPF(src_file=str(source).encode(), cflags=flags)
        except Exception:  # bcc raises bare Exception
            raise AgentError(f"{source.name} does not compile: {_first_error(said.text)}") from None
        try:
            with said:
                program = bpf.load_func(PROGRAM.encode(), BPF.XDP)
        except Exception:
            raise VerifierRefusal(
                f"the kernel refuses {source.name}: {refusal(said.text)}", said.text
            ) from None
        return cls(pins, bpf, program)

    def attach(self, pid: int, interface: str) -> Attached:
        """Attach to an interface in the network namespace of process `pid`; replaces what is there.

        Raises AgentError.
        """
        from bcc import lib

        def attach_here() -> bool:
            name = interface.encode()
            for flags in (_NATIVE, _GENERIC):
                said = _Captured()
                with said:
                    failed = lib.bpf_attach_xdp(name, self._program.fd, flags)
                if failed >= 0:
                    return flags == _NATIVE
            reason = os.strerror(-failed) if failed < -1 else said.text.strip() or "refused"
            raise AgentError(f"XDP can't be attached to {interface}: {reason}")

        return Attached(pid, interface, in_namespace(pid, attach_here))

    def close(self) -> None:
        """Let go of the program; attached it lives on, and so do the maps."""
        self._bpf.cleanup()


def detach(pid: int, interface: str) -> None:
    """Take the XDP program off an interface in the namespace of `pid`. Raises AgentError."""
    from bcc import lib

    def detach_here() -> None:
        for flags in (_NATIVE, _GENERIC):
            with _Captured():
                lib.bpf_attach_xdp(interface.encode(), -1, flags)

    in_namespace(pid, detach_here)


def in_namespace(pid: int, action: Callable[[], Result]) -> Result:
    """Do something in the network namespace of process `pid`, in a thread of its own.

    Raises AgentError if there is no such namespace, and what `action` raises.
    """
    outcome: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
                if libc.setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            outcome.append(action())
        except OSError as error:
            errors.append(
                AgentError(f"no way into the namespace of process {pid}: {error.strerror}")
            )
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]


def mount(directory: Path = BPF_FILE_SYSTEM) -> None:
    """Mount the BPF file system where it is not. Raises AgentError."""
    listed = Path("/proc/self/mounts").read_text().splitlines()
    if any(line.split()[1:3] == [str(directory), "bpf"] for line in listed):
        return
    command = ["mount", "-t", "bpf", "bpf", str(directory)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise AgentError(f"{' '.join(command)}: {error.strerror}") from None
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        raise AgentError(f"no BPF file system: {lines[0]}")


def remove_pins(pins: Path) -> None:
    """Remove a run's pins; what is attached still works until its interface goes."""
    for path in pins.iterdir() if pins.is_dir() else ():
        path.unlink(missing_ok=True)
    if pins.is_dir():
        pins.rmdir()


def _check_layout(pins: Path) -> None:
    """Refuse pins of another version. Raises AgentError."""
    if not (pins / MAPS[0]).exists():
        return
    from hostagent.rnic.binding import native

    try:
        fd = bpf_syscall.get(pins / MAPS[0])
    except OSError as error:
        raise AgentError(f"{pins / MAPS[0]}: {error.strerror}") from None
    try:
        there, wanted = bpf_syscall.value_size(fd), int(native().ffi.sizeof("struct cc_slot"))
    finally:
        os.close(fd)
    if there != wanted:
        raise AgentError(
            f"the maps in {pins} are another version's (slots of {there} bytes, not {wanted}): "
            "end that run with `weft stop` and start it again"
        )


class _Captured:
    """What is written to descriptor 2 meanwhile: bcc's compiler and loader write there."""

    def __init__(self) -> None:
        self.text = ""

    def __enter__(self) -> _Captured:
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


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "error:" in line]
    return lines[0] if lines else (text.strip().splitlines() or ["no reason given"])[-1]


_NOISE = re.compile(r"processed \d+ insns|^stack depth|^max_states|^verification time|^\s*$|^bpf: ")
_INSTRUCTION = re.compile(r"^\s*(\d+): \(")


def refusal(log: str) -> str:
    """Shorten a verifier's log to its reason, the instruction, and the line of source it is of."""
    lines = [line.rstrip() for line in log.splitlines()]
    said = [line for line in lines if line and not _NOISE.search(line)]
    if not said:
        return "no reason given"
    limits = [line for line in lines if "too large" in line or "too complex" in line]
    if limits:
        return limits[-1].strip()
    last = next((n for n in reversed(range(len(said))) if _INSTRUCTION.match(said[n])), None)
    if last is None:
        return said[-1].strip()
    sources = [line for line in said[:last] if line.lstrip().startswith(";")]
    reasons = [
        line.strip()
        for line in said[last + 1 :]
        if not line.startswith(("from ", "R", " R", ";")) or "invalid" in line or "!" in line
    ]
    reason = reasons[0] if reasons else said[-1].strip()
    where = f"at instruction {said[last].strip()}"
    if sources:
        where += f", for the source line `{sources[-1].strip().lstrip('; ')}`"
    return f"{reason} ({where})"


# --- as a process -------------------------------------------------------------------------------


def run(pins: Path, hosts: Sequence[tuple[int, str]], log: Path | None = None) -> Report:
    """Load and attach in a process of its own, which ends. Never raises: see `Report.error`."""
    command = [sys.executable, "-m", "hostagent.agent", "--pins", str(pins)]
    for pid, interface in hosts:
        command += ["--attach", f"{pid}:{interface}"]
    if log is not None:
        command += ["--log", str(log)]
    try:
        done = subprocess.run(
            command,
            cwd=BPF_DIRECTORY.parent.parent,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        data = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return Report(str(pins), error=f"the compiler did not end within {TIMEOUT_S:.0f} s")
    except (OSError, ValueError, IndexError):
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return Report(str(pins), error=lines[-1])
    attached = [Attached(**each) for each in data.pop("attached")]
    return Report(attached=attached, **data)


def load_and_attach(pins: Path, hosts: Sequence[tuple[int, str]], log: Path | None) -> Report:
    """What the process does. The verifier's whole log goes to `log`."""
    report = Report(str(pins))
    try:
        agent = Agent.load(pins)
    except VerifierRefusal as error:
        report.error = str(error)
        if log is not None:
            log.write_text(error.log)
            report.log = str(log)
        return report
    except (AgentError, OSError) as error:
        report.error = str(error)
        return report
    try:
        report.attached = [agent.attach(pid, interface) for pid, interface in hosts]
    except AgentError as error:
        report.error = str(error)
    agent.close()
    return report


def main(argv: list[str] | None = None) -> int:
    """Command line of this module; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hostagent.agent", description=__doc__)
    parser.add_argument("--pins", type=Path, required=True, help="a directory below /sys/fs/bpf")
    parser.add_argument("--attach", action="append", default=[], metavar="PID:INTERFACE")
    parser.add_argument("--log", type=Path, help="where a refusing verifier's whole log goes")
    arguments = parser.parse_args(argv)
    hosts = [
        (int(pid), name) for pid, _, name in (each.partition(":") for each in arguments.attach)
    ]
    report = load_and_attach(arguments.pins, hosts, arguments.log)
    print(json.dumps(asdict(report)))
    return 0 if report.error is None else 1


if __name__ == "__main__":
    sys.exit(main())
