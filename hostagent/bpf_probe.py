"""Proves that eBPF works here: bcc compiles our probe, the kernel runs it on real frames.

`prove` starts this module again in a network namespace without a name (`unshare --net`), which
the kernel removes together with its devices when that process ends, however it ends. In there a
veth pair gets the XDP program (native mode) and the TC program (clsact ingress) of
`bpf/probe.bpf.c`; one frame is sent, and both programs must have counted it.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostagent import kernel_headers

PROGRAM = Path(__file__).resolve().parent / "bpf" / "probe.bpf.c"
_PROBE_ETHERTYPE = 0x88B5
_XDP_FLAGS_DRV_MODE = 1 << 2
_CLSACT_INGRESS = 0xFFFFFFF2
_DEADLINE_S = 2.0
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class ProbeResult:
    """What worked, each step needing the one before; `detail` says why the next one did not."""

    compiled: bool = False
    xdp: bool = False
    tc: bool = False
    detail: str = ""

    @property
    def proved(self) -> bool:
        """Whether both programs were loaded, attached, and ran."""
        return self.compiled and self.xdp and self.tc


def prove(python: str = sys.executable) -> ProbeResult:
    """Run the whole probe with the interpreter `python`; needs root. Never raises."""
    command = ["unshare", "--net", python, "-m", "hostagent.bpf_probe", "--here"]
    environment = dict(os.environ)
    kernel_headers.export(environment)
    try:
        run = subprocess.run(
            command,
            cwd=PROGRAM.parent.parent.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ProbeResult(detail=f"cannot run the probe: {error}")
    try:
        return ProbeResult(**json.loads(run.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return ProbeResult(detail=lines[-1])


def _probe_here() -> ProbeResult:
    """Probe in the network namespace of this process."""
    result = ProbeResult()
    try:
        from bcc import BPF  # a Debian package, which may be missing
    except ImportError as error:
        return ProbeResult(detail=f"{error} (Debian's python3-bpfcc)")
    try:
        bpf = BPF(src_file=str(PROGRAM).encode())
    except Exception as error:  # bcc raises bare Exception
        return ProbeResult(detail=f"bcc cannot compile {PROGRAM.name}: {error}")
    try:
        result = ProbeResult(compiled=True)
        xdp = bpf.load_func(b"probe_xdp", BPF.XDP)
        tc = bpf.load_func(b"probe_tc", BPF.SCHED_CLS)
        sender, receiver = _attach(bpf, xdp, tc)
        counted = _count_one_frame(bpf, sender)
        result = ProbeResult(compiled=True, xdp=counted[0] == 1, tc=counted[1] == 1)
        if not result.proved:
            detail = f"of 1 frame to {receiver}, XDP saw {counted[0]} and TC {counted[1]}"
            return ProbeResult(result.compiled, result.xdp, result.tc, detail)
        return result
    except Exception as error:  # bcc raises bare Exception
        return ProbeResult(result.compiled, result.xdp, result.tc, f"cannot load: {error}")


def _attach(bpf: Any, xdp: Any, tc: Any) -> tuple[str, str]:
    """Make a veth pair, attach both programs to its second end; return the two names."""
    from pyroute2 import IPRoute  # doctor must do without where nothing is installed

    sender, receiver = "probe0", "probe1"
    with IPRoute() as netlink:
        netlink.link("add", ifname=sender, kind="veth", peer={"ifname": receiver})
        for name in (sender, receiver):
            netlink.link("set", index=netlink.link_lookup(ifname=name)[0], state="up")
        index = netlink.link_lookup(ifname=receiver)[0]
        bpf.attach_xdp(receiver.encode(), xdp, _XDP_FLAGS_DRV_MODE)
        netlink.tc("add", "clsact", index)
        netlink.tc(
            "add-filter", "bpf", index, ":1", parent=_CLSACT_INGRESS,
            fd=tc.fd, name=tc.name.decode(), classid=1, direct_action=True,
        )  # fmt: skip
    return sender, receiver


def _count_one_frame(bpf: Any, sender: str) -> tuple[int, int]:
    """Send one probe frame from `sender`; return how many the XDP and TC programs counted."""
    frame = b"\xff" * 6 + b"\x02" + b"\0" * 5 + _PROBE_ETHERTYPE.to_bytes(2, "big") + b"\0" * 46
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as packets:
        packets.bind((sender, 0))
        packets.send(frame)
    counters = bpf[b"frames"]
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        counted = (counters[0].value, counters[1].value)
        if all(counted) or time.monotonic() > deadline:
            return counted
        os.sched_yield()


def main() -> int:
    """Run `python -m hostagent.bpf_probe`: prove eBPF, one line of result, exit code 0 if
    proved.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--here", action="store_true", help="in this namespace; print JSON")
    if parser.parse_args().here:
        result = _probe_here()
        print(json.dumps(asdict(result)))
    else:
        result = prove()
        print("XDP (native) and TC (clsact) programs ran" if result.proved else result.detail)
    return 0 if result.proved else 1


if __name__ == "__main__":
    sys.exit(main())
