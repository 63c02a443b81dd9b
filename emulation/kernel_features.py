"""Which of the kernel features that Weft uses work here, each one found out by using it.

`probe` starts this module again in a network and mount namespace without a name (`unshare`); the
kernel removes it with every device and mount in it when that process ends, however it ends.
Without root a user namespace gives the same for all but eBPF, where the system allows one.

Standard library only: `make doctor` runs this before anything is installed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 20.0
_ETHERTYPE = 0x88B5  # IEEE 802: local experiments
_FRAME = b"\xff" * 6 + b"\x02" + b"\0" * 5 + _ETHERTYPE.to_bytes(2, "big") + b"\0" * 46

# linux/bpf.h, linux/if_link.h, linux/if_xdp.h: stable kernel ABI that `socket` does not name.
_BPF_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_BPF_PROG_LOAD, _BPF_LINK_CREATE = 5, 28
_BPF_PROG_TYPE_XDP, _BPF_XDP = 6, 37
_XDP_FLAGS_DRV_MODE = 1 << 2
_AF_XDP, _SOL_XDP = 44, 283
_XDP_RX_RING, _XDP_UMEM_REG, _XDP_UMEM_FILL_RING, _XDP_UMEM_COMPLETION_RING = 2, 4, 5, 6
_XDP_COPY = 1 << 1


class FeatureError(Exception):
    """The kernel refused; the message is its reason."""


@dataclass(frozen=True)
class Outcome:
    """Whether a feature works: None where it could not be tried, with the reason in `detail`."""

    works: bool | None
    detail: str = ""


def probe() -> dict[str, Outcome]:
    """Try every feature of `FEATURES`; return the outcome by name. Never raises."""
    isolation = _isolation()
    if isolation is None:
        reason = "not root, and unprivileged user namespaces are off"
        return dict.fromkeys(FEATURES, Outcome(None, reason))
    try:
        run = subprocess.run(
            [*isolation, sys.executable, "-m", "emulation.kernel_features"],
            cwd=Path(__file__).resolve().parent.parent,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        found = json.loads(run.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys(FEATURES, Outcome(None, f"the probe failed: {error}"))
    outcomes = {name: Outcome(works, detail) for name, (works, detail) in found.items()}
    if os.geteuid() != 0:
        for name in _ROOT_ONLY:
            if not outcomes[name].works:
                outcomes[name] = Outcome(None, "not tried, it needs root")
    return outcomes


def _isolation() -> list[str] | None:
    """Return the command that runs another in its own namespace; None if we can't make one."""
    command = ["unshare", "--net", "--mount"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    try:
        run = subprocess.run([*command, "true"], capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return command if run.returncode == 0 else None


# --- in the namespace ---------------------------------------------------------------------------


def _tool(*command: str) -> None:
    """Run a tool of iproute2 or util-linux; raise FeatureError with the last line it says."""
    path = shutil.which(command[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise FeatureError(f"there is no command {command[0]!r}")
    run = subprocess.run([path, *command[1:]], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        lines = (run.stderr or run.stdout).strip().splitlines() or [f"exit code {run.returncode}"]
        # iproute2 says "RTNETLINK answers: ..." first, or "Error: ..." alone.
        raise FeatureError(lines[0].removeprefix("Error: ").removeprefix("RTNETLINK answers: "))


@contextlib.contextmanager
def _veth_pair() -> Iterator[tuple[str, str]]:
    """Make two connected devices that are up, for one probe."""
    near, far = "weftdoc0", "weftdoc1"
    _tool("ip", "link", "add", near, "type", "veth", "peer", "name", far)
    try:
        for name in (near, far):
            _tool("ip", "link", "set", name, "up")
        yield near, far
    finally:
        _tool("ip", "link", "delete", near)


def _netns() -> None:
    _tool("unshare", "--net", "true")


def _veth() -> None:
    with _veth_pair():
        pass


def _af_packet() -> None:
    with (
        _veth_pair() as (near, far),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE)) as receiver,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
    ):
        receiver.bind((far, _ETHERTYPE))
        sender.bind((near, 0))
        sender.send(_FRAME)
        if not select.select([receiver], [], [], 1.0)[0]:
            raise FeatureError("a frame sent into one end of a veth did not come out of the other")


def _qdisc(*arguments: str) -> Callable[[], None]:
    def attach() -> None:
        with _veth_pair() as (near, _):
            _tool("tc", "qdisc", "add", "dev", near, *arguments)

    return attach


def _bpf(command: int, attributes: bytes) -> int:
    """Make the bpf system call; return the new descriptor. Raises FeatureError with the reason."""
    number = _BPF_SYSCALL.get(os.uname().machine)
    if number is None:
        raise FeatureError(f"don't know the bpf system call's number on {os.uname().machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    descriptor: int = libc.syscall(number, command, buffer, len(attributes))
    if descriptor < 0:
        raise FeatureError(os.strerror(ctypes.get_errno()))
    return descriptor


def _xdp_native() -> None:
    # r0 = XDP_PASS; exit. Loaded by hand, so that this says nothing about bcc.
    program = struct.pack("<BBhi", 0xB7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0)
    code = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(b"GPL")
    load = struct.pack(
        "<IIQQIIQII",
        _BPF_PROG_TYPE_XDP, 2, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0,
    )  # fmt: skip
    loaded = _bpf(_BPF_PROG_LOAD, load)
    try:
        with _veth_pair() as (near, _):
            index = socket.if_nametoindex(near)
            link = struct.pack("<IIII", loaded, index, _BPF_XDP, _XDP_FLAGS_DRV_MODE)
            os.close(_bpf(_BPF_LINK_CREATE, link))
    finally:
        os.close(loaded)


def _af_xdp() -> None:
    frames, size = 8, 2048
    with (
        _veth_pair() as (near, _),
        mmap.mmap(-1, frames * size) as memory,
        socket.socket(_AF_XDP, socket.SOCK_RAW, 0) as descriptor,
    ):
        pinned = (ctypes.c_char * (frames * size)).from_buffer(memory)
        umem = struct.pack("<QQIII4x", ctypes.addressof(pinned), frames * size, size, 0, 0)
        descriptor.setsockopt(_SOL_XDP, _XDP_UMEM_REG, umem)
        for ring in (_XDP_UMEM_FILL_RING, _XDP_UMEM_COMPLETION_RING, _XDP_RX_RING):
            descriptor.setsockopt(_SOL_XDP, ring, struct.pack("<I", frames))
        address = struct.pack("<HHIII", _AF_XDP, _XDP_COPY, socket.if_nametoindex(near), 0, 0)
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.bind(descriptor.fileno(), address, len(address)) != 0
        reason = ctypes.get_errno()
        del pinned  # else the mapping cannot be closed
        if failed:
            raise FeatureError(os.strerror(reason))


def _ifb() -> None:
    _tool("ip", "link", "add", "weftdoc2", "type", "ifb")


def _btf() -> None:
    if not Path("/sys/kernel/btf/vmlinux").exists():
        raise FeatureError("no /sys/kernel/btf/vmlinux")


def _bpffs() -> None:
    # A private mount namespace: the mount is gone with this process.
    with tempfile.TemporaryDirectory(prefix="weft-doctor-") as folder:
        _tool("mount", "-t", "bpf", "bpf", folder)
        _tool("umount", folder)


def _rdma_rxe() -> None:
    with _veth_pair() as (near, _):
        _tool("rdma", "link", "add", "weftdoc3", "type", "rxe", "netdev", near)
        _tool("rdma", "link", "delete", "weftdoc3")


FEATURES: dict[str, Callable[[], None]] = {
    "netns": _netns,
    "veth": _veth,
    "AF_PACKET": _af_packet,
    "AF_XDP": _af_xdp,
    "XDP native on veth": _xdp_native,
    "clsact": _qdisc("clsact"),
    "htb": _qdisc("root", "handle", "1:", "htb"),
    "tbf": _qdisc("root", "tbf", "rate", "1mbit", "burst", "10kb", "latency", "50ms"),
    "netem": _qdisc("root", "netem", "delay", "1ms"),
    "fq": _qdisc("root", "fq"),
    "ifb": _ifb,
    "BTF": _btf,
    "bpffs": _bpffs,
    "RDMA rxe": _rdma_rxe,
}
# A user namespace may not do these, whatever the kernel can.
_ROOT_ONLY = ("AF_XDP", "XDP native on veth", "bpffs", "RDMA rxe")


def main() -> None:
    """Try every feature in this namespace; print {name: [works, detail]}."""
    found: dict[str, tuple[bool, str]] = {}
    for name, attempt in FEATURES.items():
        try:
            attempt()
        except (FeatureError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            found[name] = (False, str(reason))
        else:
            found[name] = (True, "")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
