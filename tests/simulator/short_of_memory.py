"""A process that gets no more memory while a simulation runs; prints what the engine says twice.

    python -m tests.simulator.short_of_memory UNTIL_PS

A process of its own, with little in it: what another one has freed the engine would find.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np

from simulator.core import Engine, EngineError, HostPort

MS = 1_000_000_000
DELAY = 10 * MS
PACKETS = 200_000  # all on the way at once: 26 MB, and 14 MB to put them into order at their end
PAYLOAD = 256


def engine() -> Engine:
    """Two hosts, a link, a message of PACKETS."""
    made = Engine()
    for n in (1, 2):
        port = HostPort(100_000_000_000, DELAY, mac=n, gateway_mac=3 - n, ip=n, mtu=4200)
        made.add_host([port])
    made.add_link(0, 0, 1, 0)
    flow = np.zeros(1, dtype=made.flow_dtype)
    flow["dst"], flow["payload"], flow["udp_port"] = 1, PAYLOAD, 0xC000
    message = np.zeros(1, dtype=made.message_dtype)
    message["flow"], message["bytes"] = made.add_flows(flow), PACKETS * PAYLOAD
    made.add_messages(message, np.zeros(2, dtype=np.uint64), np.zeros(0, dtype=np.uint32))
    return made


def main() -> None:
    made = engine()
    made.run(int(sys.argv[1]))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize()  # what is mapped is all that there is
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for _ in range(2):
        try:
            made.run(to_the_end=True)
        except EngineError as error:
            print(error)


if __name__ == "__main__":
    main()
