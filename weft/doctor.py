"""`weft doctor`: what this machine has, what each missing thing costs, the command that fixes it.

Each check is a function without arguments that returns `Check`s; nothing here changes the
machine. Standard library only (`rich` where it is there), because `make doctor` runs this also
before set-up.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from emulation import kernel_features
from hostagent import bpf_probe, kernel_headers, pins
from weft import on_machine

State = Literal["ok", "missing", "degraded"]

SCHEMA = 1
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
DASK_LOCK = ROOT / "setup" / "dask.lock"
TORCH_LOCK = ROOT / "setup" / "torch.lock"
NOTEBOOK_LOCK = ROOT / "setup" / "notebook.lock"
_SETUP = "make setup"
_AS_ROOT = "run as root: sudo make doctor"
_TOOL_TIMEOUT_S = 30.0

_FABRIC = "the emulated fabric (make run-topo)"
_AGENTS = "host agents, RoCE endpoints"
_LINKS = "link emulation by the kernel"
_REFERENCE = "comparison with the reference"
_SWEEPS = "sweeps on many machines"
_TRAINING = "training jobs"
_NOTEBOOKS = "notebooks"
_COMMAND = "the command line"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    `state`: "degraded" is there in part, or could not be looked at; `detail` says which.
    `cost`: what does not work without it, empty if it is ok. `remedy`: the command that fixes
    it, or where there is none, what Weft does instead. `needed`: whether run-topo needs it.
    """

    name: str
    state: State
    detail: str
    cost: str = ""
    remedy: str = ""
    needed: bool = False
    part: str = _FABRIC


def _apt(*packages: str) -> str:
    return f"apt-get install {' '.join(packages)}"


def _python() -> str:
    """Return the interpreter that Weft runs with: the virtual environment's, once there is one."""
    own = VENV / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def _output(*command: str) -> list[str] | None:
    """Return the non-blank lines that a command prints; None if it does not exist or fails."""
    try:
        run = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line.strip() for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    return lines if lines and run.returncode == 0 else None


def _first_line(*command: str) -> str | None:
    lines = _output(*command)
    return lines[0] if lines else None


def _version_line(*command: str) -> str | None:
    """Return the first line with a version in it: some programs print their own path above it."""
    lines = _output(*command)
    return next((each for each in lines if re.search(r"\d\.\d", each)), lines[0]) if lines else None


# --- root, and the kernel's features ------------------------------------------------------------


def check_root() -> list[Check]:
    """Check whether run-topo can be root: it makes namespaces and links."""
    user = f"user id {os.geteuid()}"
    if os.geteuid() == 0:
        return [Check("root", "ok", user, needed=True)]
    if shutil.which("sudo"):
        detail = f"{user}, with sudo; eBPF and some kernel features could not be tried"
        return [Check("root", "degraded", detail, "", _AS_ROOT, needed=True)]
    cost = "nothing that makes namespaces or links runs; compiler and in-process tests do"
    return [Check("root", "missing", f"{user}, no sudo", cost, "run as root", needed=True)]


@dataclass(frozen=True)
class _Feature:
    """What a kernel feature is for; `instead` is what Weft does, or the user can, without it."""

    part: str
    cost: str
    instead: str
    needed: bool = False


_OTHER_KERNEL = "boot a kernel that has it, for example Debian's own"
_FEATURES: dict[str, _Feature] = {
    "netns": _Feature(_FABRIC, "no emulated hosts", _OTHER_KERNEL, needed=True),
    "veth": _Feature(_FABRIC, "no emulated links", _OTHER_KERNEL, needed=True),
    "AF_PACKET": _Feature(_FABRIC, "switches cannot send or receive", _OTHER_KERNEL, needed=True),
    "AF_XDP": _Feature(
        _AGENTS, "RoCE endpoints use AF_PACKET, with the same programs: slower", _OTHER_KERNEL
    ),
    "XDP native on veth": _Feature(
        _AGENTS, "XDP programs run in the generic path: slower", _OTHER_KERNEL
    ),
    "clsact": _Feature(_AGENTS, "no TC programs: no host agents", _OTHER_KERNEL),
    "BTF": _Feature(_AGENTS, "no kernel types for eBPF", _OTHER_KERNEL),
    "bpffs": _Feature(
        _AGENTS,
        "no host agent: RoCE endpoints use AF_PACKET, and do congestion control themselves",
        _OTHER_KERNEL,
    ),
    "htb": _Feature(_LINKS, "no rate limits by the kernel", "none needed: our ports set the rate"),
    "tbf": _Feature(_LINKS, "no rate limits by the kernel", "none needed: our ports set the rate"),
    "netem": _Feature(_LINKS, "no delay or loss by the kernel", "none needed: our ports do both"),
    "fq": _Feature(_LINKS, "no pacing by the kernel", "none needed: the endpoint paces itself"),
    "ifb": _Feature(_LINKS, "no shaping of what arrives", "none needed: our ports shape"),
    "RDMA rxe": _Feature(
        _LINKS, "no kernel RoCE endpoint", "none needed: Weft has its own endpoint"
    ),
}


def check_kernel() -> list[Check]:
    """Check each kernel feature, by using it in a namespace of its own."""
    checks = []
    for name, outcome in kernel_features.probe().items():
        about = _FEATURES[name]
        if outcome.works:
            checks.append(Check(name, "ok", "works", needed=about.needed, part=about.part))
            continue
        state: State = "missing"
        cost, remedy = about.cost, about.instead
        if outcome.works is None:
            state, cost, remedy = "degraded", "", _AS_ROOT
        checks.append(Check(name, state, outcome.detail, cost, remedy, about.needed, about.part))
    return checks


# --- programs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Program:
    """A program Weft calls: how to ask its version, what its absence costs."""

    name: str
    ask: tuple[str, ...]
    cost: str
    remedy: str
    needed: bool = False
    part: str = _FABRIC


_FROM_SOURCE = "none needed: Weft has its own; to compare, docs/parity.md says how to get it"
_PROGRAMS = (
    _Program("gcc", ("gcc", "--version"), "no switch can be built", _apt("gcc", "libc6-dev"), True),
    _Program("cpp", ("cpp", "--version"), "no P4 program can be compiled", _apt("cpp"), True),
    _Program("iproute2", ("ip", "-V"), "no links", _apt("iproute2"), True),
    _Program("ethtool", ("ethtool", "--version"), "wrong UDP checksums", _apt("ethtool"), True),
    _Program("iperf3", ("iperf3", "--version"), "no TCP transfer is shown", _apt("iperf3"), True),
    _Program("tcpdump", ("tcpdump", "--version"), "no look at a link's packets", _apt("tcpdump")),
    _Program("clang", ("clang", "--version"), "no eBPF", _apt("clang"), part=_AGENTS),
    _Program(
        "simple_switch_grpc", ("simple_switch_grpc", "--version"),
        "no TARGET=bmv2; tests marked `reference` skip", _FROM_SOURCE, part=_REFERENCE,
    ),
    _Program(
        "p4c", ("p4c-bm2-ss", "--version"),
        "no comparison of compilers; tests marked `reference` skip", _FROM_SOURCE,
        part=_REFERENCE,
    ),
)  # fmt: skip


def check_program(program: _Program) -> Check:
    """Check whether a program is on PATH (and the system's own folders), and its version."""
    command, *arguments = program.ask
    path = shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        detail = f"no {command} on PATH"
        return Check(
            program.name, "missing", detail, program.cost, program.remedy,
            program.needed, program.part,
        )  # fmt: skip
    version = _version_line(path, *arguments)
    if version is None:
        detail = f"{path} is there, but `{' '.join(program.ask)}` fails"
        return Check(
            program.name, "degraded", detail, program.cost, program.remedy,
            program.needed, program.part,
        )  # fmt: skip
    return Check(program.name, "ok", version, needed=program.needed, part=program.part)


def check_programs() -> list[Check]:
    """Check every program of the table, all at the same time."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return list(pool.map(check_program, _PROGRAMS))


# --- Python: Mininet, the locked packages, the switch core --------------------------------------


def check_mininet() -> list[Check]:
    """Check whether Weft's interpreter can import Mininet, and its version."""
    version = _first_line(_python(), "-c", "import mininet.net as net; print(net.VERSION)")
    if version:
        return [Check("Mininet", "ok", version, needed=True)]
    remedy = _apt("mininet", "--no-install-recommends")
    return [Check("Mininet", "missing", "cannot be imported", "no topology", remedy, needed=True)]


def parse_lock(text: str) -> dict[str, str]:
    """Parse the pins of a lock file: normalised name to version."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", text, flags=re.MULTILINE)
    return {_normalised(name): version for name, version in pins}


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lock_differences(pins: dict[str, str], installed: dict[str, str]) -> list[str]:
    """Return a phrase for each of `pins` that is not `installed` at its version."""
    return [
        f"{name} {installed[name]} instead of {version}" if name in installed else f"no {name}"
        for name, version in sorted(pins.items())
        if installed.get(name) != version
    ]


# The first on the path wins: an environment's own package hides Debian's, which counts otherwise.
_LIST_PACKAGES = """
import importlib.metadata as metadata, json
found = {}
for each in metadata.distributions():
    found.setdefault(each.metadata["Name"] or "", each.version)
print(json.dumps(found))
"""


def installed_packages(python: str) -> dict[str, str]:
    """Return what the interpreter `python` can import: normalised name to version."""
    line = _first_line(python, "-c", _LIST_PACKAGES)
    found: dict[str, str] = json.loads(line) if line else {}
    return {_normalised(name): version for name, version in found.items()}


def check_python_packages() -> list[Check]:
    """Compare the virtual environment with requirements.lock."""
    name = "Python packages"
    cost = "Weft does not run as tested, or not at all"
    if not (VENV / "bin" / "python").exists():
        return [Check(name, "missing", "no .venv", cost, _SETUP, needed=True)]
    installed = installed_packages(_python())
    pins = parse_lock(LOCK.read_text())
    differences = lock_differences(pins, installed)
    if not differences:
        return [Check(name, "ok", f"{len(pins)} as {LOCK.name} says", needed=True)]
    state: State = "missing" if any(text.startswith("no ") for text in differences) else "degraded"
    detail = ", ".join(differences[:3]) + (" ..." if len(differences) > 3 else "")
    return [Check(name, state, detail, cost, _SETUP, needed=True)]


def check_dask() -> list[Check]:
    """Check whether Dask is there in the versions of its lock file; set-up does not install it."""
    pins = parse_lock(DASK_LOCK.read_text())
    differences = lock_differences(pins, installed_packages(_python()))
    if not differences:
        return [Check("Dask", "ok", pins["dask"], part=_SWEEPS)]
    state: State = "missing" if "no distributed" in differences else "degraded"
    detail = "not installed" if state == "missing" else ", ".join(differences[:3])
    cost = "no weft sweep --scheduler; sweeps run over processes here"
    return [Check("Dask", state, detail, cost, "make setup-dask", part=_SWEEPS)]


def check_notebook() -> list[Check]:
    """Whether Jupyter and pandas are there in the versions of their lock file."""
    pins = parse_lock(NOTEBOOK_LOCK.read_text())
    differences = lock_differences(pins, installed_packages(_python()))
    if not differences:
        return [Check("Jupyter, pandas", "ok", f"{len(pins)} packages", part=_NOTEBOOKS)]
    state: State = "missing" if "no jupyterlab" in differences else "degraded"
    detail = "not installed" if state == "missing" else ", ".join(differences[:3])
    cost = "no weft notebook, no tables for pandas"
    return [Check("Jupyter, pandas", state, detail, cost, "make setup-notebook", part=_NOTEBOOKS)]


def check_torch() -> list[Check]:
    """Check whether PyTorch is there in the versions of its lock file, and can be imported."""
    pins = parse_lock(TORCH_LOCK.read_text())
    cost, remedy = "no weft train, no lab training-goes-on; tests of both skip", "make setup-torch"
    installed = {
        name: text.partition("+")[0] for name, text in installed_packages(_python()).items()
    }
    if "torch" not in installed:
        return [Check("PyTorch", "missing", "not installed", cost, remedy, part=_TRAINING)]
    if differences := lock_differences(pins, installed):
        detail = ", ".join(differences[:3])
        return [Check("PyTorch", "degraded", detail, cost, remedy, part=_TRAINING)]
    version = _first_line(_python(), "-c", "import torch; print(torch.__version__)")
    if version is None:
        detail = "installed, but it can't be imported: a build for graphics processors?"
        remedy = "pip uninstall torch, then make setup-torch with PyTorch's CPU index"
        return [Check("PyTorch", "degraded", detail, cost, remedy, part=_TRAINING)]
    return [Check("PyTorch", "ok", version, part=_TRAINING)]


def check_switch_core() -> list[Check]:
    """Check whether the switch's C core can be loaded by Weft's interpreter."""
    script = "import softswitch.core._core as core; print(core.__file__)"
    loaded = _first_line(_python(), "-c", script)
    if loaded:
        return [Check("switch core", "ok", Path(loaded).name, needed=True)]
    return [Check("switch core", "missing", "not built", "no switch", _SETUP, needed=True)]


# --- the RoCE endpoint ------------------------------------------------------------------------


_XSK_HEADER = Path("/usr/include/xdp/xsk.h")
_BPF_MOUNT = Path("/sys/fs/bpf")


def check_endpoint(header: Path = _XSK_HEADER) -> list[Check]:
    """Check whether the RoCE endpoint is built, and with libxdp, which its AF_XDP sockets need."""
    loaded = _first_line(
        _python(), "-c", "import hostagent.rnic._rnic as card; print(card.__file__)"
    )
    if loaded is None or not Path(loaded).is_file():
        cost = "no RoCE traffic: weft perf, and run files with a transport"
        return [Check("RoCE endpoint", "missing", "not built", cost, _SETUP, part=_AGENTS)]
    built = Check("RoCE endpoint", "ok", Path(loaded).name, part=_AGENTS)
    if b"libxdp.so" in Path(loaded).read_bytes():
        detail = "AF_XDP sockets are built into the endpoint"
        return [built, Check("libxdp", "ok", detail, part=_AGENTS)]
    cost = "no AF_XDP: endpoints use AF_PACKET, with the same programs: slower"
    if header.exists():
        detail, remedy = "it is there, but the endpoint was built before it was", _SETUP
        return [built, Check("libxdp", "degraded", detail, cost, remedy, part=_AGENTS)]
    remedy = _apt("libxdp-dev", "libbpf-dev") + f" && {_SETUP}"
    return [built, Check("libxdp", "missing", f"no {header}", cost, remedy, part=_AGENTS)]


def check_bpf_mount(directory: Path = _BPF_MOUNT) -> list[Check]:
    """Check whether a BPF file system is mounted where host agents pin their maps."""
    name = f"{directory}"
    try:
        mounted = pins.is_mounted(directory)
    except OSError as error:
        return [
            Check(name, "degraded", f"can't look: {error.strerror}", "", _AS_ROOT, part=_AGENTS)
        ]
    if mounted:
        return [Check(name, "ok", "mounted", part=_AGENTS)]
    remedy = f"none needed: run-topo mounts it (mount -t bpf bpf {directory})"
    return [Check(name, "degraded", "not mounted yet", "", remedy, part=_AGENTS)]


# --- eBPF ---------------------------------------------------------------------------------------


def check_ebpf() -> list[Check]:
    """Check kernel headers and bcc: compile, load and run our probe."""
    cost = "no host agents"
    checks = []
    if kernel_headers.available():
        tree = kernel_headers.source_tree()
        where = str(tree) if tree else f"of the running kernel ({os.uname().release})"
        checks.append(Check("kernel headers", "ok", where, part=_AGENTS))
    else:
        detail = "none for bcc"
        checks.append(Check("kernel headers", "missing", detail, cost, _SETUP, part=_AGENTS))
    if os.geteuid() != 0:
        works = _first_line(_python(), "-c", "import bcc; print(bcc.__version__)")
        if works is None:
            remedy = _apt("python3-bpfcc")
            checks.append(Check("bcc", "missing", "no module bcc", cost, remedy, part=_AGENTS))
        else:
            detail = f"{works}; that it compiles and runs could not be tried without root"
            checks.append(Check("bcc", "degraded", detail, "", _AS_ROOT, part=_AGENTS))
        return checks
    result = bpf_probe.prove(_python())
    if result.proved:
        detail = "an XDP and a TC program compiled, loaded and ran"
        checks.append(Check("bcc", "ok", detail, part=_AGENTS))
    else:
        state: State = "degraded" if result.compiled else "missing"
        remedy = _apt("python3-bpfcc", "clang") + f" && {_SETUP}"
        checks.append(Check("bcc", state, result.detail, cost, remedy, part=_AGENTS))
    return checks


def check_launcher() -> list[Check]:
    """Check whether `weft` on PATH is this clone's."""
    name, cost = "weft on PATH", "commands are .venv/bin/weft"
    found = shutil.which("weft")
    path = Path(found) if found else None
    if path == VENV / "bin" / "weft":
        return [Check(name, "ok", f"{path}, while this environment is active", part=_COMMAND)]
    if path is not None:
        clone = on_machine.launched_clone(path)
        if clone == ROOT:
            return [Check(name, "ok", str(path), part=_COMMAND)]
        if clone is not None:
            detail = f"{path} starts {clone}, not this clone"
            remedy = "make setup here takes it"
        else:
            detail, remedy = f"{path} is another program", "none needed: .venv/bin/weft"
        return [Check(name, "degraded", detail, cost, remedy, part=_COMMAND)]
    for file in on_machine.launchers():
        detail, remedy = f"{file.parent} is not on PATH", f"export PATH={file.parent}:$PATH"
        return [Check(name, "degraded", detail, cost, remedy, part=_COMMAND)]
    return [Check(name, "missing", "no weft on PATH", cost, _SETUP, part=_COMMAND)]


CHECKS: tuple[Callable[[], list[Check]], ...] = (
    check_root, check_mininet, check_python_packages, check_switch_core,
    check_programs, check_kernel, check_bpf_mount, check_endpoint, check_ebpf, check_dask,
    check_torch, check_notebook, check_launcher,
)  # fmt: skip


def examine() -> list[Check]:
    """Run every check."""
    return [check for group in CHECKS for check in group()]


def is_ready(checks: Iterable[Check]) -> bool:
    """Return whether nothing that run-topo needs is missing."""
    return not any(check.needed and check.state == "missing" for check in checks)


# --- showing it ---------------------------------------------------------------------------------


def as_json(checks: list[Check]) -> str:
    """Return the stable form: {"schema", "ready", "checks": [the fields of Check]}."""
    rows = [asdict(check) for check in checks]
    return json.dumps({"schema": SCHEMA, "ready": is_ready(checks), "checks": rows}, indent=2)


def as_text(checks: list[Check]) -> str:
    """Return the table without rich."""
    lines = []
    for part in dict.fromkeys(check.part for check in checks):
        lines.append(part)
        for check in checks:
            if check.part == part:
                lines.append(f"  {check.name:20} {check.state:9} {check.detail}")
                lines += [f"  {'':20} {'':9} {text}" for text in _advice(check)]
    return "\n".join([*lines, "", _verdict(checks)])


def _advice(check: Check) -> list[str]:
    if check.state == "ok":
        return []
    cost = [f"costs: {check.cost}"] if check.cost else []
    return [*cost, f"remedy: {check.remedy}"]


def _verdict(checks: list[Check]) -> str:
    if is_ready(checks):
        return "`make run-topo` has all it needs."
    names = [check.name for check in checks if check.needed and check.state == "missing"]
    return f"`make run-topo` still needs: {', '.join(names)}."


def _show(checks: list[Check]) -> None:
    try:
        from rich.console import Console  # doctor must do without, before `make setup`
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        print(as_text(checks))
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    colours = {"ok": "green", "missing": "red", "degraded": "yellow"}
    for part in dict.fromkeys(check.part for check in checks):
        table = Table(title=part, title_justify="left", box=None, show_header=False, expand=True)
        table.add_column(width=20)
        table.add_column(width=9)
        table.add_column(ratio=1, overflow="fold")
        for check in checks:
            if check.part == part:
                text = "\n".join([check.detail, *_advice(check)])
                state = f"[{colours[check.state]}]{check.state}[/]"
                table.add_row(escape(check.name), state, escape(text))
        console.print(table)
        console.print()
    console.print(escape(_verdict(checks)))


def run(json_output: bool) -> int:
    """Examine this machine and print the result; 0 if run-topo has all it needs, else 1."""
    checks = examine()
    if json_output:
        print(as_json(checks))
    else:
        _show(checks)
    return 0 if is_ready(checks) else 1


def main() -> int:
    """Run `python -m weft.doctor [--json]`, for a machine without an installed `weft`."""
    parser = argparse.ArgumentParser(prog="weft doctor", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a stable JSON form")
    return run(parser.parse_args().json)


if __name__ == "__main__":
    sys.exit(main())
