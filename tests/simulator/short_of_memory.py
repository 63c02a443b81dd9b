"""A process that gets no more memory while a simulation runs; prints what the engine says twice.

    python -m tests.simulator.short_of_memory UNTIL_PS [switch]

`switch`: there is one between the hosts, where packets wait; then it prints how many it lost, too.
A process of its own, with little in it: what another one has freed the engine would find.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

import numpy as np

from simulator.core import Engine, EngineError, HostPort
from softswitch import Switch
from softswitch.core import CoreConfig, PortConfig

MS = 1_000_000_000
DELAY = 10 * MS
PACKETS = 200_000  # all on the way at once: 26 MB, and 14 MB to put them into order at their end
PAYLOAD = 256
FORWARD = """
#include <core.p4>
#include <v1model.p4>
struct headers {}
struct meta {}
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers h, inout meta m) { apply {} }
control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply { s.egress_spec = 2; }
}
control E(inout headers h, inout meta m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def engine(delay: int) -> Engine:
    """Two hosts, a message of PACKETS."""
    made = Engine()
    for n in (1, 2):
        port = HostPort(100_000_000_000, delay, mac=n, gateway_mac=3 - n, ip=n, mtu=4200)
        made.add_host([port])
    flow = np.zeros(1, dtype=made.flow_dtype)
    flow["dst"], flow["payload"], flow["udp_port"] = 1, PAYLOAD, 0xC000
    message = np.zeros(1, dtype=made.message_dtype)
    message["flow"], message["bytes"] = made.add_flows(flow), PACKETS * PAYLOAD
    made.add_messages(message, np.zeros(2, dtype=np.uint64), np.zeros(0, dtype=np.uint32))
    return made


def between(made: Engine) -> Switch:
    """Return a switch without limits that sends a bit a second: what comes, stays."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "forward.p4"
        source.write_text(FORWARD)
        config = CoreConfig(queue_packets=0)
        switch = Switch.from_p4(source, config=config, module=made.module)
    switch.core.configure_port(2, PortConfig(rate_bps=1, tx_delay_ps=1000, queue_packets=0))
    node = made.add_switch(switch.core)
    for host in (0, 1):
        made.add_link(host, 0, node, 1 + host)
    return switch


def main() -> None:
    switch = None
    if sys.argv[2:] == ["switch"]:
        made = engine(1000)
        switch = between(made)
    else:
        made = engine(DELAY)
        made.add_link(0, 0, 1, 0)
    made.run(int(sys.argv[1]))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize()  # what is mapped is all that there is
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for _ in range(2):
        try:
            made.run(to_the_end=True)
        except EngineError as error:
            print(error)
    if switch is not None:
        print(switch.core.stats().drop_no_memory > 0)


if __name__ == "__main__":
    main()
