"""Source ports that are chosen by the switches' hash, on BMv2 itself: a fat tree, hop by hop."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import topologies
from compat.parity.cases import Packet
from compat.parity.live import BMV2, LiveSwitch
from compat.parity.targets import prepare
from controller.diff import changes
from controller.entries import Entry
from controller.fabric_state import FabricModel, desired_entries
from controller.leaf_routes import Routes
from controller.policy import FabricPolicy
from controller.target_facts import BMV2_TICK_PS, PACKET_DEPTH, TargetFacts
from mechanisms.iglb.ecmp_hash import EcmpHash
from mechanisms.iglb.hash_ports import choose_ports
from protocols.probe_frame import probe_frame
from tests.mechanisms.iglb.random_paths import ports_along, random_flows
from tests.simulator.fabric_program import fabric_program
from topologies.model import Endpoint, Topology

pytestmark = [pytest.mark.long, pytest.mark.root, pytest.mark.reference("simple_switch_grpc")]

FAT_TREE = "time_scale: 1\ngenerator: fat_tree\nk: 4\nlink: {rate: 1Gbps, delay: 1us, queue: 1MB}"


class _Bmv2Switches:
    """BMv2 processes that hold a fabric's entries, started as packets reach them."""

    def __init__(self, topology: Topology, stack: ExitStack) -> None:
        self._topology, self._stack = topology, stack
        program = fabric_program()
        facts = TargetFacts(BMV2_TICK_PS, PACKET_DEPTH, 8, watches_ports=False)
        policy = FabricPolicy.of(topology)
        self._model = FabricModel(topology, program.p4info, facts, policy)
        self._pipeline = prepare(program.json_text, program.p4info_text)
        self._switches: dict[str, LiveSwitch] = {}

    def through(self, where: Endpoint, frame: bytes) -> tuple[int, bytes]:
        """Send a frame into a switch; return the port and the frame that come out."""
        switch = self._switch(where.node)
        assert switch._client is not None
        seen = switch._packet(switch._client, Packet(where.port, frame), None, 10)
        ((port, (sent,)),) = seen.frames.items()
        return port, sent

    def _switch(self, name: str) -> LiveSwitch:
        if name not in self._switches:
            switch = LiveSwitch(BMV2, self._pipeline)
            self._stack.callback(switch.close)
            client = switch._start()
            client.set_pipeline(self._pipeline.p4info, self._pipeline.device_config)
            wanted: tuple[Entry, ...] = desired_entries(self._model, name)
            for change in changes(wanted, (), self._model.p4info):
                assert client.write(change.encode(self._model.p4info)) == ""
            switch._settle(client)
            self._switches[name] = switch
        return self._switches[name]


def test_bmv2_sends_flows_along_their_paths() -> None:
    """Four ways between pods, by two choices: at the leaf and at the spine above it."""
    topology = topologies.loads(FAT_TREE)
    routes = Routes.of(topology)
    flows = random_flows(routes, pairs=4, queue_pairs=4, seed=1)
    found = choose_ports(
        EcmpHash(topology, routes), flows.source, flows.target, flows.arcs, flows.udp_port
    )
    interfaces = tuple(topology.interfaces())
    taken: list[tuple[str, ...]] = []
    with ExitStack() as stack:
        switches = _Bmv2Switches(topology, stack)
        for i in range(len(flows)):
            source, target = interfaces[flows.source[i]], interfaces[flows.target[i]]
            macs = topology.switch(source.switch).mac, source.mac
            addresses = source.address.ip, target.address.ip
            frame = probe_frame(macs, addresses, int(found.udp_port[i]), 26)
            here, path = Endpoint(source.switch, source.port), list[tuple[str, int]]()
            while topology.is_switch(here.node):
                port, frame = switches.through(here, frame)
                path.append((here.node, port))
                here = topology.peer(here.node, port)
            assert tuple(path) == ports_along(topology, int(flows.target[i]), flows.arcs[i])
            taken.append(tuple(node for node, _ in path))
    assert len(set(taken)) > 4, "queue pairs of a pair take several paths"
