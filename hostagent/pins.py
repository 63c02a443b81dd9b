"""Where a run's maps are pinned, which ones exist, and whether this version can use them.

    /sys/fs/bpf/weft-<run id>/{cc_slots,cc_sent,cc_index,cc_peers,endpoints,sockets,counters,
                               notifications,notified_counts,layout}

`layout` holds a digest of everything that the programs and their users must agree on. It is
written before the other pins are made, so that pins of another version are told from ours, also
where their sizes happen to be equal.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hostagent import bpf_syscall

BPF_FILE_SYSTEM = Path("/sys/fs/bpf")
MAPS = (
    "cc_slots",
    "cc_sent",
    "cc_index",
    "cc_peers",
    "endpoints",
    "sockets",
    "counters",
    "notifications",
    "notified_counts",
)
LAYOUT = "layout"

_LOOK_AGAIN_S = 0.02
_HERE = Path(__file__).resolve().parent
_DECLARATIONS = {  # whole, or only the structures in it
    "include/weft_types.h": True,
    "include/cc_algorithms.h": True,
    "include/cc_sent.h": True,
    "include/cc_slot.h": False,
    "bpf/roce_consts.h": True,
    "bpf/roce_structs.h": True,
    "bpf/roce_maps.h": True,
    "bpf/notifications.h": True,
}
_LISTED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_ZERO = struct.pack("=I", 0)
_STRUCTURE = re.compile(r"\b(?:struct|enum) \w+ \{[^}]*\};")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class PinsError(Exception):
    """The pins can't be used; the message says why and what would be right."""


def pins_of(run: str) -> Path:
    """Return where the maps of a run are pinned. The directory is there while its agent works."""
    return BPF_FILE_SYSTEM / f"weft-{run}"


def pins_in(directory: Path) -> list[Path]:
    """Return every pin that a run may have in its directory."""
    return [directory / name for name in (*MAPS, LAYOUT)]


def mount(directory: Path = BPF_FILE_SYSTEM) -> None:
    """Mount the BPF file system where it is not. Raises PinsError."""
    if is_mounted(directory):
        return
    command = ["mount", "-t", "bpf", "bpf", str(directory)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PinsError(f"{' '.join(command)}: {error.strerror}") from None
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        raise PinsError(f"no BPF file system: {lines[0]}")


def is_mounted(directory: Path = BPF_FILE_SYSTEM) -> bool:
    """Say whether a BPF file system is there."""
    listed = Path("/proc/self/mounts").read_text().splitlines()
    return any(line.split()[1:3] == [str(directory), "bpf"] for line in listed)


@contextmanager
def locked(directory: Path, patience_s: float) -> Iterator[None]:
    """Make the directory where it is missing and have it alone: others wait for it.

    The kernel lets go of it when the process ends, whatever the reason. Raises PinsError with who
    has it after `patience_s`, OSError.
    """
    mount()
    descriptor = _hold(directory, time.monotonic() + patience_s)
    try:
        yield
    finally:
        os.close(descriptor)


def _hold(directory: Path, deadline: float) -> int:
    """Return a descriptor of the directory, which is locked (the file system has no files)."""
    while True:
        directory.mkdir(exist_ok=True)
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # its holder has just removed it
            continue
        try:
            _lock(descriptor, directory, deadline)
            if _is_of(descriptor, directory):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, directory: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise PinsError(
                    f"{_holder(descriptor)} is loading the host agent into {directory} and does "
                    "not end: wait for it, or end it"
                ) from None
            time.sleep(_LOOK_AGAIN_S)


def _is_of(descriptor: int, directory: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    """Return the holder of the lock on a descriptor's file."""
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5] == device:
            return f"process {words[4]}"
    return "another process"


def remove(directory: Path) -> None:
    """Remove a run's pins, and nothing else; what is attached works until its interface goes."""
    for pin in pins_in(directory):
        pin.unlink(missing_ok=True)
    with suppress(OSError):
        directory.rmdir()


# --- the layout ---------------------------------------------------------------------------------


def digest() -> int:
    """Return 64 bits that change when the declarations of what the maps hold do.

    Of the source, not of what was compiled from it: the agent's process has to be quick.
    """
    hashed = hashlib.sha256()
    for name, whole in {**_DECLARATIONS, **_algorithms()}.items():
        code = " ".join(_COMMENT.sub("", (_HERE / name).read_text()).split())
        for part in [code] if whole else _STRUCTURE.findall(code):
            hashed.update(f"{part}\n".encode())
    return int.from_bytes(hashed.digest()[:8], "little")


def _algorithms() -> dict[str, bool]:
    """Return the headers whose state the slots hold: those that the list of algorithms has."""
    text = (_HERE / "include" / "cc_algorithms.h").read_text()
    return {f"include/{name}": False for name in _LISTED.findall(text)}


def check(directory: Path) -> bool:
    """Say whether there are pins, all of this version. Raises PinsError for another version's."""
    made = [name for name in MAPS if (directory / name).exists()]
    path = directory / LAYOUT
    if not path.exists():
        if made:
            raise _another_version(directory)
        return False
    fd = bpf_syscall.get(path)
    try:
        found = bpf_syscall.map_lookup(fd, _ZERO, 8)
    finally:
        os.close(fd)
    if found != struct.pack("=Q", digest()):
        if not made:  # ended before it had pinned anything: nothing to lose
            path.unlink(missing_ok=True)
            return False
        raise _another_version(directory)
    return bool(made)


def mark(directory: Path) -> None:
    """Say whose version what will be pinned is. Raises OSError."""
    path = directory / LAYOUT
    if path.exists():
        return
    fd = bpf_syscall.map_create(bpf_syscall.ARRAY, 4, 8, 1, LAYOUT)
    try:
        bpf_syscall.map_update(fd, _ZERO, struct.pack("=Q", digest()))
        bpf_syscall.pin(fd, path)
    finally:
        os.close(fd)


def _another_version(directory: Path) -> PinsError:
    return PinsError(
        f"the maps in {directory} were made by another version of Weft: their layout is not the "
        "one that this version reads; end that run with `weft stop`, and start it again"
    )
