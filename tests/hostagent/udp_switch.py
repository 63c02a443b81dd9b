"""A switch of one tree on this machine's loopback: workers send to it as to their gateway.

    rank 0 (127.X.Y.1) --.
    rank 1 (127.X.Y.2) --+-- UdpSwitch (127.X.Y.254)
    rank 2 (127.X.Y.3) --'

It is the switch that docs/allreduce.md describes, in Python. A test may let it die, which loses
what it knew, and come back.
"""

from __future__ import annotations

import os
import random
import socket
import threading
from types import TracebackType

from hostagent.collective.communicator import Communicator
from hostagent.collective.worker_settings import WorkerSettings
from tests.hostagent.test_collective_worker import JOB, Packet, Switch

PORT = 28792
SLOTS, LANES = 8, 8
BLOCK = 4
BLOCK_RATE_BPS = 10**9


class UdpSwitch:
    """Serves one job until it is closed. `loss`: a share of what comes and goes."""

    def __init__(self, ranks: int, loss: float = 0.0) -> None:
        self.ranks, self.loss = ranks, loss
        process = os.getpid()  # tests run side by side
        self.network = f"127.{process >> 8 & 0xFF}.{process & 0xFF}"
        self._random = random.Random(1)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.gateway, PORT))
        self._socket.settimeout(0.05)
        self._switch = Switch(lambda deliver, packet: deliver(packet))
        for rank in range(ranks):
            self._switch.children.append(lambda packet, rank=rank: self._send(rank, packet))
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def gateway(self) -> str:
        return f"{self.network}.254"

    def address(self, rank: int) -> str:
        return f"{self.network}.{rank + 1}"

    def connect(self, rank: int, epoch: int | None, give_up_s: float = 1.0) -> Communicator:
        """Make a rank of the job a worker."""
        settings = WorkerSettings(JOB, rank, self.ranks, epoch or 0, SLOTS, LANES)
        return Communicator(
            settings,
            self.gateway,
            self.address(rank),
            give_up_s=give_up_s,
            block_rate_bps=BLOCK_RATE_BPS,
        )

    def die(self) -> None:
        with self._lock:
            self._switch.alive = False
            self._switch.restart()

    def revive(self) -> None:
        self._switch.alive = True

    def _send(self, rank: int, packet: Packet) -> None:
        if self._random.random() >= self.loss:
            self._socket.sendto(packet.bytes(), (self.address(rank), PORT))

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                payload, (host, _) = self._socket.recvfrom(2048)
            except TimeoutError:
                continue
            if self._random.random() < self.loss:
                continue
            rank = int(host.rpartition(".")[2]) - 1
            with self._lock:
                if payload[0] == BLOCK:
                    self._flood(rank, payload)
                else:
                    self._switch.from_child(rank, Packet.read(payload))

    def _flood(self, sender: int, block: bytes) -> None:
        for rank in range(self.ranks):
            if rank != sender and self._switch.alive and self._random.random() >= self.loss:
                self._socket.sendto(block, (self.address(rank), PORT))

    def __enter__(self) -> UdpSwitch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._thread.join()
        self._socket.close()
