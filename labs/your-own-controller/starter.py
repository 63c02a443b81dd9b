"""A P4Runtime controller of your own: it keeps routes on several switches, whatever happens.

`Controller` is called by whoever knows of links (`link`), and now and then (`check`). It may have
threads of its own. None of its methods may raise because a switch is away, or somebody else's.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc

TIMEOUT_S = 5.0
Routes = Mapping[str, tuple[str, int]]
"""Of each host's address ("10.0.2.1"): the MAC address to send to, and the port."""


class Session:
    """One switch: its channel, the stream that says who is primary, and calls."""

    def __init__(self, address: str, device_id: int, election_id: int) -> None:
        self.device_id = device_id
        self.election_id = p4r.Uint128()
        self.is_open = True
        self.is_primary = False
        self.answered = threading.Event()
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # A channel of its own: those that share one wait for each other's back-off, too.
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.stream = self.stub.StreamChannel(iter(self.requests.get, None))
        threading.Thread(target=self._listen, daemon=True).start()
        self.bid(election_id)

    def bid(self, election_id: int) -> None:
        """Ask to be the primary with an election id, and wait for the answer."""
        self.election_id = p4r.Uint128(low=election_id)
        self.answered.clear()
        if not self.is_open:
            return  # nobody is there to answer
        # TODO 1: put a StreamMessageRequest with your arbitration (device_id, election_id) into
        # self.requests, and wait for self.answered, at most TIMEOUT_S.

    def _listen(self) -> None:
        """Read the stream to its end, in a thread of its own."""
        try:
            for message in self.stream:
                # TODO 1: `message.arbitration.status.code` is 0 for the primary. It may come again.
                del message
        except grpc.RpcError:
            pass  # the switch is gone, or the session was closed
        self.is_open = self.is_primary = False
        self.answered.set()

    def close(self) -> None:
        """End the stream."""
        self.requests.put(None)
        self.channel.close()

    def set_pipeline(self, pipeline: p4r.ForwardingPipelineConfig) -> None:
        """Load the program, unless the switch has it: loading it again deletes all entries."""
        # TODO 2: GetForwardingPipelineConfig, with response_type COOKIE_ONLY, fails while there is
        # none. SetForwardingPipelineConfig, with action VERIFY_AND_COMMIT, wants the election id.

    def entries(self) -> dict[str, p4r.TableEntry]:
        """Return the entries of all tables, by address; defaults are no entries."""
        every = p4r.Entity(table_entry=p4r.TableEntry())
        request = p4r.ReadRequest(device_id=self.device_id, entities=[every])
        return {
            ".".join(str(byte) for byte in each.table_entry.match[0].lpm.value.rjust(4, b"\0")):
            each.table_entry
            for answer in self.stub.Read(request, timeout=TIMEOUT_S)
            for each in answer.entities
            if each.table_entry.match
        }  # fmt: skip

    def write(self, updates: list[p4r.Update]) -> None:
        """Send updates; all of them are carried out, or none."""
        request = p4r.WriteRequest(
            device_id=self.device_id, election_id=self.election_id, updates=updates,
            atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR,
        )  # fmt: skip
        self.stub.Write(request, timeout=TIMEOUT_S)


class Controller:
    """Keeps each switch at what `plan(switch, links that are down)` says."""

    def __init__(
        self,
        switches: Mapping[str, tuple[str, int]],
        pipeline: p4r.ForwardingPipelineConfig,
        plan: Callable[[str, set[frozenset[str]]], Routes],
        election_id: int,
    ) -> None:
        """`switches`: address ("127.0.0.1:50051") and device id by name."""
        self.switches = switches
        self.pipeline = pipeline
        self.plan = plan
        self.election_id = election_id
        self.down: set[frozenset[str]] = set()
        self.sessions: dict[str, Session] = {}
        self.ids = {
            each.preamble.alias: each.preamble.id
            for kind in (pipeline.p4info.tables, pipeline.p4info.actions, pipeline.p4info.counters)
            for each in kind
        }

    def start(self) -> None:
        """Connect to all switches, and bring each to its plan."""
        for name, (address, device_id) in self.switches.items():
            self.sessions[name] = Session(address, device_id, self.election_id)
            self.bring(name)

    def stop(self) -> None:
        """End all sessions; switches keep what they have."""
        for session in self.sessions.values():
            session.close()

    def bring(self, name: str) -> None:
        """Bring a switch to its plan, if this controller is its primary."""
        # TODO 3: set the pipeline, read what is there, and write what is missing (INSERT), differs
        # (MODIFY) or is too much (DELETE): in one call, and nothing that is right already.
        # `entry` makes entries. What comes from the switch and what you make can be compared (==).
        # TODO 6: not primary, or the call fails (grpc.RpcError)? Then `check` tries again.

    def entry(self, address: str, mac: str, port: int) -> p4r.TableEntry:
        """Return the entry of a route."""
        action = p4r.Action(action_id=self.ids["forward"])
        for number, value in ((1, int(mac.replace(":", ""), 16)), (2, port)):
            size = max(1, (value.bit_length() + 7) // 8)
            action.params.add(param_id=number, value=value.to_bytes(size, "big"))
        key = p4r.FieldMatch(field_id=1)
        key.lpm.value = bytes(int(part) for part in address.split("."))
        key.lpm.prefix_len = 32
        return p4r.TableEntry(
            table_id=self.ids["route"], match=[key], action=p4r.TableAction(action=action)
        )

    def counters(self, name: str) -> dict[int, int]:
        """Return how many packets a switch has sent, by port; ports without any are left out."""
        # TODO 4: read the CounterEntry of self.ids["to_port"]; without an index it means all.
        return {}

    def link(self, a: str, b: str, up: bool) -> None:
        """Hear that a link between two switches is up again, or down."""
        # TODO 5: remember it, and bring every switch to its new plan.

    def check(self) -> None:
        """See to sessions that were lost, and to switches that are not at their plan."""
        # TODO 6: a session that is not open any more is made anew. Where the primary has left, the
        # status is NOT_FOUND (5), and stays so until somebody bids at least the highest id so far,
        # which the arbitration names.
