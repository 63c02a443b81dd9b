"""The same leaf in real time: a running switch, veth pairs, one namespace.

    hosts -- wire0 ---veth--- port 0   switch   port 1 ---veth--- wire1 -- way 0
                                                  ...
                                                port 4 ---veth--- wire4 -- way 3

The namespace has no name: it lives as long as this process and the switch, and takes the links
along. This process is all hosts and all spines: it sends each packet at its time and sees by which
link it leaves.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from compat.parity.client import Client
from compat.parity.wires import Wires
from labs import LabError, Runtime
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import Pipeline

from .control_plane import Group, Hop, Leaf, Row, rows, updates
from .flows import MAIN, Flow, Packet, Sender, backwards, serial

START_S = 20.0
SETTLE_S = 0.3
"""After the last packet: for what is still on its way."""
LOG_LINES = 4
NICE = ("nice", "-n", "-10")
"""The switch's: real time can't wait for others' programs."""
HOST_PORT = 0
WAYS = 4
MS = 1_000_000
STEP_NS = 2 * MS
"""Between two packets of a flowlet; a pause is several gaps."""
PAUSE_GAPS = 3
DOWN = 2
"""The way that goes down for the last flowlets."""


Came = dict[bytes, list[tuple[int, int]]]
"""By a packet's serial number: the ports that it came by, and when."""


@dataclass(frozen=True)
class Plan:
    """So many flows, flowlets of each and packets of each flowlet; `gap_ns` in real time.

    `last`: flowlets of each flow after a way went down.
    """

    flows: int
    flowlets: int
    packets: int
    gap_ns: int
    last: int = 3


@dataclass
class Seen:
    """What came of it.

    A packet's stamp lies between when it was sent and when it came. So it is known of which packets
    the switch has to say that they are within the gap; the machine may have held others up.
    """

    sent: int = 0
    lost: int = 0
    elsewhere: int = 0
    """not by a port to a spine, or twice"""
    flowlets: int = 0
    held_up: int = 0
    """flowlets whose stamps may be apart by the gap: not judged"""
    torn: int = 0
    """by more than one way"""
    pauses: int = 0
    moved: int = 0
    """flowlets that took another way than the flow's last one"""
    by_way: Counter[int] = field(default_factory=Counter)
    by_dead_way: int = 0
    returned: int = 0
    """answers that came to the hosts"""
    answers: int = 0


def the_leaf(gap_ticks: int) -> Leaf:
    """Return the leaf of the picture."""
    hosts = tuple((10 << 24 | 1 << 8 | n, Hop(HOST_PORT, 0x0200 << 32 | n)) for n in (1, 2))
    ways = tuple(Hop(1 + way, 0x0201 << 32 | way) for way in range(WAYS))
    return Leaf(0x0200 << 32 | 0x99, hosts, (Group(MAIN, gap_ticks, ways, ((10 << 24, 8),)),))


class LiveLeaf:
    """The switch, running, with the lab's control plane written."""

    def __init__(self, runtime: Runtime, pipeline: Pipeline, plan: Plan, random: Random) -> None:
        """Start everything. Raises LabError, TargetError, UnknownName."""
        self.plan, self.random = plan, random
        self.leaf = the_leaf(plan.gap_ns // 1000)  # both switches stamp in microseconds
        self._names = Names(pipeline.schema)
        self._stack = ExitStack()
        try:
            self._start(runtime, pipeline)
            self._write((), rows(self.leaf))
        except BaseException:
            self.close()
            raise

    def _start(self, runtime: Runtime, pipeline: Pipeline) -> None:
        stack = self._stack
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-flowlets-")))
        self._wires = Wires()
        stack.callback(self._wires.close)
        address, log = f"unix:{folder / 'p4runtime'}", folder / "switch.log"
        process = self._wires.start(_command(runtime, address), log)
        stack.callback(_end, process)
        deadline = time.monotonic() + START_S
        while not (folder / "p4runtime").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
                raise LabError(f"the switch did not start: {' | '.join(lines) or 'no log'}")
            time.sleep(0.005)
        self._client = Client(address)
        stack.callback(self._client.close)
        self._client.set_pipeline(pipeline.p4info, pipeline.device_config)

    def _write(self, before: Sequence[Row], after: Sequence[Row]) -> None:
        for update in updates(self._names, before, after):
            refused = self._client.write(update)
            if refused:
                raise LabError(f"the switch refuses an entry: {refused}")

    def play(self, tell: Callable[[float], None]) -> Seen:
        """Send all flowlets, the last of them while a way is down."""
        sender = Sender(self.leaf, self.random)
        flows = sender.flows(self.plan.flows)
        seen = Seen()
        last: dict[Flow, int] = {}
        self._part(sender, flows, self.plan.flowlets, seen, last, lambda x: tell(0.8 * x))
        without = self.leaf.without(MAIN, DOWN)
        self._write(rows(self.leaf), rows(without))
        before = seen.by_way[DOWN]
        last.clear()  # nobody asks which way a flow takes that had to leave its own
        self._part(sender, flows, self.plan.last, seen, last, lambda x: tell(0.8 + 0.2 * x))
        seen.by_dead_way = seen.by_way[DOWN] - before
        self._answers(sender, flows, seen)
        return seen

    def _part(
        self,
        sender: Sender,
        flows: list[Flow],
        flowlets: int,
        seen: Seen,
        last: dict[Flow, int],
        tell: Callable[[float], None],
    ) -> None:
        """Send so many flowlets of each flow, and look at the ways of their packets."""
        plan = self.plan
        turn = plan.packets * STEP_NS + PAUSE_GAPS * plan.gap_ns
        sent: list[tuple[Flow, int, Packet]] = []
        for flow in flows:
            begins = self.random.randrange(turn)
            for number in range(flowlets):
                for step in range(plan.packets):
                    at = begins + number * turn + step * STEP_NS
                    sent.append((flow, number, sender.packet(flow, at)))
        sent.sort(key=lambda each: each[2].at)
        times, came = self._exchange([packet for _, _, packet in sent], tell)
        flowlet_of: dict[tuple[Flow, int], list[Packet]] = {}
        for flow, number, packet in sent:
            flowlet_of.setdefault((flow, number), []).append(packet)
        for (flow, _), packets in flowlet_of.items():
            self._look(flow, packets, times, came, seen, last)

    def _exchange(
        self, packets: list[Packet], tell: Callable[[float], None]
    ) -> tuple[dict[bytes, int], Came]:
        """Send packets at their times; return when each was sent, and where and when it came."""
        times: dict[bytes, int] = {}
        came: Came = {}

        def take(seconds: float) -> None:
            for port, frame in self._wires.receive(seconds):
                came.setdefault(serial(frame), []).append((port, time.monotonic_ns()))

        start = time.monotonic_ns()
        for number, packet in enumerate(packets):
            while (wait := start + packet.at - time.monotonic_ns()) > 0:
                take(wait / 1e9)
            times[serial(packet.frame)] = time.monotonic_ns()
            self._wires.send(packet.port, packet.frame)
            tell(number / len(packets))
        end = time.monotonic() + SETTLE_S
        while (left := end - time.monotonic()) > 0:
            take(left)
        return times, came

    def _look(
        self,
        flow: Flow,
        packets: list[Packet],
        times: dict[bytes, int],
        came: Came,
        seen: Seen,
        last: dict[Flow, int],
    ) -> None:
        """Add what came of a flowlet."""
        found = [came.get(serial(packet.frame), []) for packet in packets]
        ways = [each[0][0] - 1 for each in found if len(each) == 1 and each[0][0] != HOST_PORT]
        seen.sent += len(packets)
        seen.lost += sum(not each for each in found)
        seen.elsewhere += sum(bool(each) for each in found) - len(ways)
        seen.by_way.update(ways)
        seen.flowlets += 1
        sent = [times[serial(packet.frame)] for packet in packets]
        arrived = [each[0][1] for each in found if each]
        whole = len(arrived) == len(sent)
        if whole and max(b - a for a, b in zip(sent, arrived[1:], strict=False)) < self.plan.gap_ns:
            seen.torn += len(set(ways)) > 1
        else:
            seen.held_up += 1
        if ways:
            if flow in last:
                seen.pauses += 1
                seen.moved += ways[0] != last[flow]
            last[flow] = ways[-1]

    def _answers(self, sender: Sender, flows: list[Flow], seen: Seen) -> None:
        """Send a packet back in each flow, by a port to a spine."""
        packets = [
            sender.packet(backwards(flow, 1 + n % WAYS), n * MS) for n, flow in enumerate(flows)
        ]
        _, came = self._exchange(packets, lambda share: None)
        seen.answers = len(packets)
        ports = [[port for port, _ in came.get(serial(each.frame), [])] for each in packets]
        seen.returned = ports.count([HOST_PORT])

    def close(self) -> None:
        """End everything; nothing is left."""
        self._stack.close()


def _command(runtime: Runtime, address: str) -> list[str]:
    ports = [w for p in range(1 + WAYS) for w in ("-i", f"{p}@{Wires.interface(p)}")]
    if runtime is Runtime.BMV2:
        program = ["simple_switch_grpc", "--log-console", "--log-level", "warn"]
    else:
        program = [sys.executable, "-m", "softswitch"]
    return [
        *NICE, *program, "--no-p4", "--device-id", "1", *ports, "--", "--grpc-server-addr", address,
    ]  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
