"""P4Runtime of simulated switches over TCP, in lock-step with virtual time.

    with LockStep(simulation, first_port=50051) as step:
        step.wait_for_controller()                # one has connected, and is quiet
        simulation.run(out)

A controller is a program of its own and takes real time, the network takes virtual time. So virtual
time stands still while a call of a client is under way, and after each packet-in, digest or idle
notice until no call has come for `settle_s`: what a controller answers within that is in force at
the very moment of what it answers, however long its calls take. What it does by a clock of its own
comes at an unpredictable virtual time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from simulator.core.binding import Punt
from simulator.fabric import Virtual
from softswitch.core import SwitchCore
from softswitch.device import Device
from softswitch.p4runtime.arbitration import Client
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.server import AddressError, P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.p4runtime.status import ReadError

if TYPE_CHECKING:
    from simulator.runner import Simulation

SETTLE_S = 0.2
"""How long a controller is quiet before virtual time goes on: far longer than it takes to answer on
one machine, so that a busy one changes nothing."""

FIRST_SETTLE_S = 1.0
"""The same before the run: a controller connects to one switch after the other."""

POLL_S = 0.05
LOOPBACK = "127.0.0.1"
_LAST_PORT = 65535


class Calls:
    """Calls of clients that are under way, and when the last one ended. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._last = time.monotonic()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a call as under way for the block."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._last = time.monotonic()
                self._changed.notify_all()

    def wait(self, settle_s: float) -> None:
        """Wait until none is under way, and none has been for `settle_s` from now on."""
        since = time.monotonic()
        with self._changed:
            while True:
                quiet = time.monotonic() - max(since, self._last)
                if self._under_way:
                    self._changed.wait(POLL_S)
                elif quiet < settle_s:
                    self._changed.wait(settle_s - quiet)
                else:
                    return


class _Service(P4RuntimeService):
    """A switch's P4Runtime, which says when a call is under way and when the switch was changed."""

    def __init__(self, calls: Calls, changed: Callable[[], None], *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._calls, self._changed = calls, changed
        self.was_taken = False

    def set_config(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        with self._calls.one():
            super().set_config(request)
            self._changed()

    def get_config(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.ForwardingPipelineConfig | None:
        with self._calls.one():
            return super().get_config(request)

    def write(self, request: p4r.WriteRequest) -> None:
        with self._calls.one():
            try:
                super().write(request)
            finally:
                self._changed()

    def read(self, request: p4r.ReadRequest) -> tuple[list[p4r.Entity], ReadError | None]:
        with self._calls.one():
            return super().read(request)

    def stream_message(self, client: Client, message: p4r.StreamMessageRequest) -> None:
        with self._calls.one():
            super().stream_message(client, message)
            if client.role is not None and client is client.role.primary:
                self.was_taken = True


class LockStep:
    """P4Runtime servers of a simulation's switches: all those without a plan.

    `addresses`: by switch; the device ids are the topology's.
    """

    def __init__(
        self, simulation: Simulation, *, first_port: int = 0, settle_s: float | None = None
    ) -> None:
        """`first_port`: the first switch's TCP port, the next one's is the next; 0 takes free ones.
        `settle_s`: how long a controller is quiet before time goes on; None for SETTLE_S.

        Raises AddressError where a port is taken, or there are not enough.
        """
        self._simulation = simulation
        self._settle_s = SETTLE_S if settle_s is None else settle_s
        self._calls = Calls()
        self._turn = threading.RLock()  # the cores': held while virtual time goes on
        self._changed: set[int] = set()
        self._wakes: dict[str, int] = {}
        self._services: dict[str, _Service] = {}
        self._servers: list[P4RuntimeServer] = []
        self.addresses: dict[str, str] = {}
        fabric = simulation.fabric
        self._by_node = {fabric.nodes[name]: name for name in simulation.control.own}
        last = first_port + len(fabric.topology.switches) - 1
        if first_port and last > _LAST_PORT:
            raise AddressError(f"the last switch would have port {last}, {_LAST_PORT} is the last")
        try:
            for i, switch in enumerate(fabric.topology.switches):
                if switch.name in simulation.control.own:
                    port = first_port + i if first_port else 0
                    self._serve(switch.name, switch.device_id, port)
        except BaseException:
            self.close()
            raise
        simulation.clients = self

    def _serve(self, name: str, device_id: int, port: int) -> None:
        virtual = self._simulation.fabric.switches[name]
        device = virtual.device
        device.guarded_by(lambda: self._turn)
        service = _Service(
            self._calls,
            partial(self._changed.add, virtual.node),
            device,
            device_id,
            packet_out=partial(self._packet_out, virtual),
            make_draft=partial(_draft, device),
        )
        server = P4RuntimeServer(service, f"{LOOPBACK}:{port}")
        self._services[name] = service
        self._servers.append(server)
        self.addresses[name] = f"{LOOPBACK}:{server.port}"
        server.start()

    def __enter__(self) -> Self:
        """Return itself: the servers listen from the beginning."""
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self.close()

    def close(self) -> None:
        """End all streams and servers."""
        for server in self._servers:
            server.stop(grace_s=0.1)
        self._servers.clear()
        self._simulation.clients = None

    def wait_for_controller(self, check: Callable[[], None] = lambda: None) -> None:
        """Wait until a client is, or was, some switch's primary, and none calls any more.

        `check` is called again and again, and ends the wait by what it raises.
        """
        while not any(service.was_taken for service in self._services.values()):
            check()
            time.sleep(POLL_S)
        self._calls.wait(max(FIRST_SETTLE_S, self._settle_s))

    # --- what the simulation calls, from its thread ---------------------------------------------

    def step(self) -> None:
        """Let calls that have come end before virtual time goes on."""
        self._calls.wait(0)
        for name in self._services:
            self._wake(name)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let virtual time continue in the block, while no other thread uses a switch."""
        with self._turn:
            engine = self._simulation.engine
            while self._changed:
                engine.touch(self._changed.pop())
            yield

    def take(self, punts: Sequence[Punt]) -> list[Punt]:
        """Send clients what switches have for them, and wait for answers; return the rest."""
        rest, sent = [], False
        for punt in punts:
            name = self._by_node.get(punt.node)
            if name is None:
                rest.append(punt)
                continue
            message = self._simulation.fabric.switches[name].device.notification(punt.output)
            sent |= message is not None and self._services[name].notify(message)
        if sent:
            self._calls.wait(self._settle_s)
        return rest

    def _wake(self, name: str) -> None:
        """See to it that digests and idle notices of a switch are sent in time."""
        due = self._device(name).next_timer()
        if due is None or self._wakes.get(name) == due:
            return
        self._wakes[name] = due
        self._simulation.at(max(due, self._simulation.engine.now), partial(self._timer, name, due))

    def _timer(self, name: str, due: int) -> None:
        if self._wakes.get(name) == due:
            del self._wakes[name]
        service = self._services[name]
        with service.lock:
            messages = self._device(name).timers(self._simulation.engine.now)
        sent = [service.notify(message) for message in messages]
        if any(sent):
            self._calls.wait(self._settle_s)

    def _device(self, name: str) -> Device:
        return self._simulation.fabric.switches[name].device

    # --- what clients call, from threads of the servers -----------------------------------------

    def _packet_out(self, virtual: Virtual, data: bytes) -> None:
        core = virtual.device.core
        with self._turn:
            core.inject(core.config.cpu_port, data, self._simulation.engine.now)
            self._changed.add(virtual.node)


def _draft(device: Device) -> Device:
    return Device(SwitchCore(device.core.config, module=device.core.module), clock=lambda: 0)
