"""The card talks to the kernel's Soft-RoCE, another implementation of RC over RoCEv2.

    card (this process) --- AF_PACKET --- veth --- rxe device, its queue pair by libibverbs

Needs a kernel with rdma_rxe and Debian's python3-pyverbs; says which is lacking where one is.
"""

from __future__ import annotations

import select
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    CardConfig,
    EventKind,
    Failure,
    Operation,
    QueuePairConfig,
    Work,
)

NEAR, FAR, DEVICE = "weftrxe0", "weftrxe1", "weft_rxe"
OWN_IP, PEER_IP = 0x0AFF4D01, 0x0AFF4D02  # 10.255.77.1, .2
OWN_MAC = 0x0200_0AFF_4D01
OWN_GID = "0000:0000:0000:0000:0000:ffff:0aff:4d01"
SIZE = 64 * 1024


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def rxe() -> Iterator[socket.socket]:
    """Open a socket on the near end of a veth pair whose far end has an rxe device."""
    if shutil.which("modprobe"):  # without kmod: built into the kernel, or not there
        run("modprobe", "rdma_rxe")
    run("ip", "link", "add", NEAR, "type", "veth", "peer", "name", FAR)
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    try:
        for name in (NEAR, FAR):
            run("ip", "link", "set", name, "mtu", "4500", "up")
        run("ip", "address", "add", "10.255.77.2/24", "dev", FAR)
        mac = ":".join(f"{byte:02x}" for byte in OWN_MAC.to_bytes(6))
        run("ip", "neighbour", "add", "10.255.77.1", "lladdr", mac, "dev", FAR)
        made = run("rdma", "link", "add", DEVICE, "type", "rxe", "netdev", FAR)
        if made.returncode:
            pytest.skip(f"this kernel has no Soft-RoCE: {made.stderr.strip() or made.returncode}")
        pytest.importorskip("pyverbs", reason="needs Debian's python3-pyverbs")
        raw.bind((NEAR, 0))
        yield raw
    finally:
        raw.close()
        run("rdma", "link", "delete", DEVICE)
        run("ip", "link", "delete", NEAR)


class Peer:
    """A queue pair of the rxe device with memory that may be read and written."""

    def __init__(self, qpn: int, psn: int) -> None:
        import pyverbs.enums as e
        from pyverbs.addr import GID, AHAttr, GlobalRoute
        from pyverbs.cq import CQ
        from pyverbs.device import Context
        from pyverbs.mr import MR
        from pyverbs.pd import PD
        from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

        self.context = Context(name=DEVICE)
        self.domain = PD(self.context)
        access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        self.memory: Any = MR(self.domain, SIZE, access)
        self.queue = CQ(self.context, 16)
        init = QPInitAttr(
            qp_type=e.IBV_QPT_RC, scq=self.queue, rcq=self.queue, cap=QPCap(16, 16, 1, 1)
        )
        own = next(i for i in range(16) if str(self.context.query_gid(1, i)).endswith("0aff:4d02"))
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = access
        self.pair = QP(self.domain, init, attributes)
        attributes.dest_qp_num = qpn
        attributes.rq_psn = attributes.sq_psn = psn
        attributes.path_mtu = e.IBV_MTU_1024
        attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 4
        attributes.min_rnr_timer, attributes.timeout = 1, 14
        attributes.retry_cnt = attributes.rnr_retry = 7
        route = GlobalRoute(dgid=GID(OWN_GID), sgid_index=own, hop_limit=64)
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        self.pair.to_rts(attributes)


def pump(card: Card, raw: socket.socket, wanted: int, seconds: float = 5.0) -> list[Any]:
    """Carry packets between card and wire until so many events have come."""
    events: list[Any] = []
    begin = time.monotonic_ns()
    while len(events) < wanted and time.monotonic_ns() - begin < seconds * 1e9:
        now = (time.monotonic_ns() - begin) * 1000
        card.advance(now)
        while packet := card.transmit(now):
            raw.send(packet.frame)
        if select.select([raw], [], [], 0.001)[0]:
            card.receive(raw.recv(65536), (time.monotonic_ns() - begin) * 1000)
        events += card.events()
    return events


@pytest.mark.root
@pytest.mark.reference("rdma")
def test_write_and_read_with_soft_roce(rxe: socket.socket) -> None:
    peer_mac = int(Path(f"/sys/class/net/{FAR}/address").read_text().strip().replace(":", ""), 16)
    card = Card(CardConfig(mac=OWN_MAC, gateway_mac=peer_mac, ip=OWN_IP))
    psn = 0xFFFFF8
    card.add_queue_pair(
        QueuePairConfig(qpn=0x11, mtu=1024, first_psn=psn, timeout_ps=200_000_000_000)
    )
    peer = Peer(0x11, psn)
    card.connect(0x11, PEER_IP, peer_qpn=peer.pair.qp_num, peer_psn=psn)
    data, back = Random(1).randbytes(SIZE), bytearray(SIZE)
    values = {"rkey": peer.memory.rkey, "remote_address": peer.memory.buf}
    card.post(0x11, Work(1, Operation.WRITE, data, **values))
    card.post(0x11, Work(2, Operation.READ, back, **values))
    events = pump(card, rxe, 2)
    assert [(row.kind, row.id) for row in events] == [
        (EventKind.COMPLETED, 1),
        (EventKind.COMPLETED, 2),
    ]
    assert peer.memory.read(SIZE, 0) == data and back == data
    card.post(0x11, Work(3, Operation.WRITE, b"x", rkey=peer.memory.rkey ^ 0xFF00), 0)
    failed = pump(card, rxe, 2)
    assert [(row.kind, row.status) for row in failed] == [
        (EventKind.QP_FAILED, Failure.REMOTE_ACCESS),
        (EventKind.FAILED, Failure.REMOTE_ACCESS),
    ]
