"""Two cards in real time, and the agent's XDP program in front of the sender's: it decides.

    sender --(plane 0, 1)--> receiver
    sender <-- XDP program <-- receiver      what the sender receives, the program has seen first

The sender's slots are the kernel's: the learner's header there says when plane 1 may be used again.
Packets go from card to card within this process; the program runs by BPF_PROG_TEST_RUN. Root only.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from pathlib import Path

from hostagent.agent import Agent
from hostagent.bpf_test_run import test_run
from hostagent.pinned_maps import SLOTS, PinnedMaps, Plane
from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    CardConfig,
    Interface,
    Operation,
    QueuePairConfig,
    Repeat,
    Work,
)
from hostagent.rnic.planes import PlaneConfig, PlaneState, PlaneUse
from labs import LabError

from .headers import NAME
from .plane import Fields

QPN, PEER_QPN = 17, 18
MTU = 1024
LINE = 10**9
US, MS = 10**6, 10**9  # of a card's time: ps
PLANES = PlaneConfig(PlaneUse.SHARED, misses=200, silence_ps=50 * MS, probe_ps=200 * US)
PATIENCE_S = 20.0
MESSAGE_PACKETS = 20
WAYS = tuple((10 << 24 | i << 16 | 1, 10 << 24 | i << 16 | 2) for i in range(2))


class KernelCards:
    """Both cards and the program. Made with the learner's header in place (`Built`)."""

    def __init__(self, agent: Agent, pins: Path, fields: Fields) -> None:
        """Open the cards' maps in the kernel. Raises MapsError."""
        self._program = agent.program_fd
        self._maps = PinnedMaps.open(pins)
        self._base = time.monotonic_ns()
        self._sender, self._receiver = (self._card([way[end] for way in WAYS]) for end in range(2))
        planes = [Plane(*way, {NAME: dict(fields)}) for way in WAYS]
        self._numbers = self._maps.add_planes(QPN, PEER_QPN, planes, mtu=MTU)
        self._give_slots()
        self._receiver.add_queue_pair(self._config(PEER_QPN))
        here, there = ([way[end] for way in WAYS] for end in range(2))
        self._sender.connect_ways(QPN, there, peer_qpn=PEER_QPN, peer_psn=0)
        self._receiver.connect_ways(PEER_QPN, here, peer_qpn=QPN, peer_psn=0)

    def _card(self, addresses: list[int]) -> Card:
        first, *more = [Interface(n + 1, n + 9, ip, LINE) for n, ip in enumerate(addresses)]
        config = CardConfig(
            mac=first.mac,
            gateway_mac=first.gateway_mac,
            ip=first.ip,
            cc_base_ns=self._base,
            line_rate_bps=LINE,
        )
        return Card(config, *more)

    def _config(self, qpn: int) -> QueuePairConfig:
        return QueuePairConfig(
            qpn=qpn,
            mtu=MTU,
            interfaces=len(WAYS),
            repeat=Repeat.SELECTIVE,
            window_packets=4096,
            timeout_ps=10**13,
            planes=PLANES,
        )

    def _give_slots(self) -> None:
        """Make the sender's queue pair on the kernel's slots, as the endpoint does."""
        ffi = self._sender.ffi
        stride = (ffi.sizeof("struct cc_slot") + 7) // 8 * 8
        self._slots = mmap.mmap(self._maps.slots_fd, SLOTS * stride, prot=mmap.PROT_READ)
        memory = mmap.mmap(self._maps.sent_fd, SLOTS * ffi.sizeof("struct cc_sent"))
        self._sent = ffi.from_buffer("struct cc_sent[]", memory)
        config = ffi.new("struct rnic_qp_config *", self._config(QPN).fields())
        for plane, slot in enumerate(self._numbers):
            at = ffi.from_buffer("uint8_t[]", self._slots) + slot * stride
            config.plane_slots[plane] = ffi.cast("struct cc_slot *", at)
            config.plane_sent[plane] = self._sent + slot
        if self._sender.lib.rnic_add_qp(self._sender.handle, config, ffi.NULL) != 0:
            raise LabError("the card refuses the kernel's slots")

    def close(self) -> None:
        """Free the cards, the slots and the maps."""
        self._maps.remove_queue_pair(WAYS[0][0], QPN)
        self._sender.close()
        self._receiver.close()
        self._maps.close()

    # --- what happens -------------------------------------------------------------------------

    def _now(self) -> int:
        return (time.monotonic_ns() - self._base) * 1000

    def _step(self) -> None:
        for sender, receiver in (
            (self._sender, self._receiver),
            (self._receiver, self._sender),
        ):
            sender.advance(self._now())
            for plane in range(len(WAYS)):
                packet = sender.transmit(self._now(), plane)
                if packet is None:
                    continue
                if receiver is self._sender:
                    test_run(self._program, bytes(packet.frame))
                receiver.receive(bytes(packet.frame), self._now(), interface=plane)

    def _until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            if time.monotonic() > deadline:
                raise LabError(f"plane 1 was not used again within {PATIENCE_S:g} s")
            self._step()

    def send(self) -> None:
        """Send a message, and wait until all of it is acknowledged."""
        size = MESSAGE_PACKETS * MTU
        target = self._sender.queue_pair_stats(QPN).acked_bytes + size
        self._receiver.post_receive(PEER_QPN, 1, bytearray(size))
        self._sender.post(QPN, Work(1, Operation.SEND, bytes(size)), self._now())
        self._until(lambda: self._sender.queue_pair_stats(QPN).acked_bytes >= target)

    def lose(self) -> float:
        """Let plane 1's link go down for a moment; return after how many ms it is used again."""
        self.send()
        begun = time.monotonic()
        self._sender.set_link(1, False)
        self._sender.set_link(1, True)
        self._until(lambda: self._sender.plane_stats(QPN, 1).state is PlaneState.UP)
        return (time.monotonic() - begun) * 1000
