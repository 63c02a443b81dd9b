"""A switch behind a P4Runtime server on a free TCP port, whose time the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from softswitch.core import CoreConfig, OutputKind, SwitchCore
from softswitch.device import Device
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService

CPU_PORT = 255
DEVICE_ID = 3
MS = 1_000_000_000  # in ps


class Running:
    """A switch with its server; a packet-out moves time on by a millisecond."""

    def __init__(self) -> None:
        self.core = SwitchCore(CoreConfig(cpu_port=CPU_PORT))
        self.now_ps = 0
        self.sent: list[tuple[int, bytes]] = []
        self.device = Device(self.core, clock=lambda: self.now_ps)
        self.service = P4RuntimeService(
            self.device, DEVICE_ID, packet_out=self.packet_out, make_draft=self.make_draft
        )
        self.server = P4RuntimeServer(self.service, "127.0.0.1:0")
        self.server.start()

    def make_draft(self) -> Device:
        return Device(SwitchCore(CoreConfig(cpu_port=CPU_PORT)), clock=lambda: 0)

    def packet_out(self, data: bytes) -> None:
        self.arrive(CPU_PORT, data)

    def arrive(self, port: int, data: bytes) -> None:
        with self.service.lock:
            self.core.inject(port, data, self.now_ps)
            self.now_ps += MS
            self.core.advance(self.now_ps)
            for output in self.core.take_output(self.now_ps):
                if output.kind is OutputKind.PACKET:
                    self.sent.append((output.port, output.data))
                elif (message := self.device.notification(output)) is not None:
                    self.service.notify(message)

    def tick(self, ps: int) -> None:
        with self.service.lock:
            self.now_ps += ps
            for message in self.device.timers(self.now_ps):
                self.service.notify(message)


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.server.stop(0)
    running.core.close()
