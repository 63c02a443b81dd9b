"""Three switches behind P4Runtime servers of this process, whose time the grading moves.

h1 - s1, h2 - s2, h3 - s3; port 2 of each leads to port 3 of the next, port 1 to the host.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc

from softswitch import program_cache
from softswitch.core import CoreConfig, OutputKind, SwitchCore
from softswitch.device import Device
from softswitch.p4runtime.pipeline import parse_p4info
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService

PROGRAM = Path(__file__).parents[2] / "docs" / "my-own-p4" / "forward.p4"
NAMES = ("s1", "s2", "s3")
HOSTS = ("10.0.1.1", "10.0.2.1", "10.0.3.1")
HOST_PORT, ONWARDS, BACK = 1, 2, 3
ELECTION_ID = 5
WAIT_S = 10.0
POLL_S = 0.02
_MS = 10**9  # in ps
_HOPS = 8

Down = set[frozenset[str]]
Routes = dict[str, tuple[str, int]]


@cache
def pipeline() -> p4r.ForwardingPipelineConfig:
    """Return the program of docs/my-own-p4.md, compiled."""
    made = program_cache.compile_program(program_cache.Job(source=PROGRAM))
    config = p4r.ForwardingPipelineConfig(p4_device_config=made.json_text.encode())
    config.p4info.CopyFrom(parse_p4info(made.p4info_text.encode(), "P4Info"))
    config.cookie.cookie = 23
    return config


def plan(name: str, down: Down) -> Routes:
    """Return a switch's routes: by the direct link, or round by the third switch."""
    here = NAMES.index(name)
    onwards, back = NAMES[(here + 1) % 3], NAMES[(here + 2) % 3]
    port_of = {onwards: ONWARDS, back: BACK}
    routes = {}
    for number, address in enumerate(HOSTS):
        target = NAMES[number]
        if target == name:
            routes[address] = (f"02:00:0a:00:0{number + 1}:01", HOST_PORT)
            continue
        direct = frozenset((name, target)) not in down
        third = onwards if target == back else back
        port = port_of[target if direct else third]
        routes[address] = (f"02:01:00:00:00:0{number + 1}", port)
    return routes


class _Service(P4RuntimeService):
    """Keeps what was written."""

    updates: list[p4r.Update]

    def write(self, request: p4r.WriteRequest) -> None:
        super().write(request)
        self.updates += request.updates


class Switch:
    """One switch and its server, which can be stopped and come back with nothing."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self.port = 0
        self.boot()

    def boot(self) -> None:
        """Begin anew, at the same address."""
        self.core = SwitchCore(CoreConfig(cpu_port=255))
        self.now_ps = 0
        self.device = Device(self.core, clock=lambda: self.now_ps)
        self.service = _Service(
            self.device, self.device_id, packet_out=lambda data: None,
            make_draft=lambda: Device(SwitchCore(CoreConfig(cpu_port=255)), clock=lambda: 0),
        )  # fmt: skip
        self.service.updates = []
        self.server = P4RuntimeServer(self.service, f"127.0.0.1:{self.port}")
        self.port = self.server.port
        self.server.start()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def halt(self) -> None:
        """End all sessions."""
        self.server.stop(0.0)

    def through(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Return what comes out for a frame that comes in."""
        with self.service.lock:
            self.core.inject(port, frame, self.now_ps)
            self.now_ps += _MS
            self.core.advance(self.now_ps)
            return [
                (each.port, each.data)
                for each in self.core.take_output(self.now_ps)
                if each.kind is OutputKind.PACKET
            ]


class Bed:
    """All three, and what a controller is told of them."""

    def __init__(self) -> None:
        self.switches = {name: Switch(n) for n, name in enumerate(NAMES, 1)}

    def close(self) -> None:
        """Stop the servers."""
        for switch in self.switches.values():
            switch.halt()

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Address and device id by name."""
        return {name: (each.address, each.device_id) for name, each in self.switches.items()}

    def entries(self, name: str) -> Routes | str:
        """Return the routes that a switch holds, or why it holds none."""
        device = self.switches[name].device
        try:
            with self.switches[name].service.lock:
                found = list(device.read([p4r.Entity(table_entry=p4r.TableEntry())]))
        except Exception as error:
            return f"no pipeline: {error}"
        return dict(_route(each.table_entry) for each in found if each.table_entry.match)

    def send(self, source: str, target: str, down: Down) -> str:
        """Send a frame from a switch's host to another's; return at which host it arrives."""
        name, port = source, HOST_PORT
        frame = _frame(HOSTS[NAMES.index(target)])
        for _ in range(_HOPS):
            came = self.switches[name].through(port, frame)
            if not came:
                return f"dropped by {name}"
            out, frame = came[0]
            if out == HOST_PORT:
                return f"h{NAMES.index(name) + 1}"
            step = {ONWARDS: 1, BACK: 2}.get(out)
            if step is None:
                return f"sent to port {out} of {name}"
            there = NAMES[(NAMES.index(name) + step) % 3]
            if frozenset((name, there)) in down:
                return f"lost on the link {name}-{there}"
            name, port = there, BACK if out == ONWARDS else ONWARDS
        return "goes round"


@contextmanager
def bed() -> Iterator[Bed]:
    """Three fresh switches, for one item."""
    made = Bed()
    try:
        yield made
    finally:
        made.close()


class Other:
    """Another controller, by its election id."""

    def __init__(self, switch: Switch, election_id: int) -> None:
        self.device_id, self.election_id = switch.device_id, p4r.Uint128(low=election_id)
        self.channel = grpc.insecure_channel(switch.address)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.stream = self.stub.StreamChannel(iter(self.requests.get, None))
        hello = p4r.StreamMessageRequest()
        hello.arbitration.device_id = self.device_id
        hello.arbitration.election_id.CopyFrom(self.election_id)
        self.requests.put(hello)
        self.answer = next(self.stream).arbitration

    def take_over(self, updates: Sequence[p4r.Update]) -> None:
        """Load the pipeline and write entries."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id, election_id=self.election_id, config=pipeline(),
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )  # fmt: skip
        self.stub.SetForwardingPipelineConfig(request, timeout=WAIT_S)
        self.stub.Write(
            p4r.WriteRequest(
                device_id=self.device_id, election_id=self.election_id, updates=updates
            ),
            timeout=WAIT_S,
        )

    def close(self) -> None:
        """End the session."""
        self.requests.put(None)
        self.channel.close()


def inserts(routes: Mapping[str, tuple[str, int]]) -> list[p4r.Update]:
    """Return updates that insert routes."""
    info = pipeline().p4info
    found = []
    for address, (mac, port) in routes.items():
        update = p4r.Update(type=p4r.Update.INSERT)
        entry = update.entity.table_entry
        entry.table_id = info.tables[0].preamble.id
        key = entry.match.add(field_id=1)
        key.lpm.value = bytes(int(part) for part in address.split("."))
        key.lpm.prefix_len = 32
        action = entry.action.action
        action.action_id = next(
            a.preamble.id for a in info.actions if a.preamble.alias == "forward"
        )
        action.params.add(param_id=1, value=bytes.fromhex(mac.replace(":", "")))
        action.params.add(param_id=2, value=bytes([port]))
        found.append(update)
    return found


def wait_for(condition: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None) -> bool:
    """Wait until something is so, for WAIT_S at most; say whether it is."""
    until = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > until:
            return False
        meanwhile()
        time.sleep(POLL_S)
    return True


def _route(entry: p4r.TableEntry) -> tuple[str, tuple[str, int]]:
    lpm = entry.match[0].lpm
    address = ".".join(str(byte) for byte in lpm.value.rjust(4, b"\0"))
    mac, port = (int.from_bytes(each.value, "big") for each in entry.action.action.params)
    text = ":".join(f"{byte:02x}" for byte in mac.to_bytes(6, "big"))
    return (address if lpm.prefix_len == 32 else f"{address}/{lpm.prefix_len}"), (text, port)


def _frame(address: str) -> bytes:
    ethernet = bytes(12) + b"\x08\x00"
    ip = bytes([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 9, 9])
    return ethernet + ip + bytes(int(part) for part in address.split(".")) + bytes(26)
