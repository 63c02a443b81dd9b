"""What both simulators carried: a fabric, flows from a seed, and a sender's algorithm.

    python -m experiments.validation.cases websearch-30 > flow.txt     the flow file for ns-3
    python -m experiments.validation.cases --topology > fat.txt        its topology file

Flows are drawn by the `mix` of run files; starts are whole nanoseconds, so that both simulators
have the same ones. The fabric is that of HPCC's mix/fat.txt.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import yaml

from workloads.hpcc import BACKGROUND, Connection, write_hpcc
from workloads.loader import read_run
from workloads.plan import plan
from workloads.randomness import Random

PAYLOAD = 1024
"""Bytes of a packet in both: RoCE's MTUs are powers of two, HPCC's own runs have 1000."""
HOST_BPS, TRUNK_BPS = 100 * 10**9, 400 * 10**9
LINK_DELAY_PS = 10**6
BUFFER = "32MB"

_PS = 10**12
_INCAST_BYTES = 500_000


@dataclass(frozen=True)
class Fabric:
    """A fat tree as in mix/fat.txt: a leaf to all its pod's spines, spines j to the cores j."""

    pods: int = 5
    leaves: int = 4
    spines: int = 4
    hosts: int = 16
    cores: int = 4

    @property
    def all_hosts(self) -> int:
        """Return how many hosts there are."""
        return self.pods * self.leaves * self.hosts

    def links(self) -> Iterator[tuple[int, int, int]]:
        """Yield (node, node, bits/s), nodes counted from 0: hosts, leaves, spines, cores."""
        leaf = self.all_hosts
        spine = leaf + self.pods * self.leaves
        core = spine + self.pods * self.spines
        for host in range(self.all_hosts):
            yield host, leaf + host // self.hosts, HOST_BPS
        for pod in range(self.pods):
            for low in range(self.leaves):
                for high in range(self.spines):
                    below, above = pod * self.leaves + low, pod * self.spines + high
                    yield leaf + below, spine + above, TRUNK_BPS
        for above in range(self.pods * self.spines):
            for place in range(self.cores):
                yield spine + above, core + above % self.spines * self.cores + place, TRUNK_BPS

    def switch_counts(self) -> tuple[int, int, int]:
        """Return how many leaves, spines and cores there are."""
        return self.pods * self.leaves, self.pods * self.spines, self.spines * self.cores

    def links_between(self, source: int, target: int) -> tuple[int, int]:
        """Return how many links two hosts are apart: hosts' links, trunks."""
        a, b = source // self.hosts, target // self.hosts
        if a == b:
            return 2, 0
        return 2, 2 if a // self.leaves == b // self.leaves else 4

    def topology(self, classes: Mapping[str, object]) -> dict[str, object]:
        """Return it as a topology of a run file."""
        count = self.all_hosts
        ports = Counter[int]()

        def end(node: int) -> str:
            if node < count:
                return f"h{node + 1}"
            ports[node] += 1
            return f"s{node - count + 1}:{ports[node]}"

        return {
            "switches": [
                {"name": f"s{n + 1}", "role": role} for n, role in enumerate(self._roles())
            ],
            "hosts": [f"h{n + 1}" for n in range(count)],
            "link": {"delay": f"{LINK_DELAY_PS}ps", "queue": BUFFER, "mtu": "1500B"},
            "links": [
                {"a": end(a), "b": end(b), "rate": f"{rate // 10**9}Gbps"}
                for a, b, rate in self.links()
            ],
            "classes": dict(classes),
        }

    def _roles(self) -> list[str]:
        leaves, spines, cores = self.switch_counts()
        return ["leaf"] * leaves + ["spine"] * spines + ["core"] * cores

    def hpcc_file(self) -> str:
        """Return it as a topology file of HPCC's ns-3."""
        switches = range(self.all_hosts, self.all_hosts + sum(self.switch_counts()))
        links = list(self.links())
        rows = [f"{switches.stop} {len(switches)} {len(links)}", " ".join(map(str, switches))]
        delay = LINK_DELAY_PS // 1000
        rows += [f"{a} {b} {rate // 10**9}Gbps {delay}ns 0.000000" for a, b, rate in links]
        return "\n".join(rows) + "\n"


@dataclass(frozen=True)
class Case:
    """Flows of a seed. `load`: share of all hosts' links, headers counted, for `arrivals_us`.

    `incast`: a share of all hosts' links in payload, on top: 60 random hosts send 500 kB each to
    another at Poisson times, as in HPCC's evaluation.
    """

    name: str
    sizes: str
    load: str
    arrivals_us: int
    incast: float = 0.0
    senders: int = 60
    seed: int = 1
    fabric: Fabric = Fabric()

    def flow_file(self, port: int = BACKGROUND) -> str:
        """Return the flows as HPCC's ns-3 reads them. Another `port`: other paths, same flows."""
        return write_hpcc(self.connections(), port)

    @cache  # noqa: B019  cases are constants of this module
    def connections(self) -> Sequence[Connection]:
        """Return (source, target, bytes, start in ps) of each flow, in order of time."""
        document = {
            "topology": self.fabric.topology({"roce": {"dscp": 26, "queue": 3}}),
            "traffic": [
                {
                    "mix": {
                        "sizes": self.sizes,
                        "load": self.load,
                        "stop": f"{self.arrivals_us}us",
                        "payload": f"{PAYLOAD}B",
                    }
                }
            ],
        }
        traffic = plan(read_run(yaml.safe_dump(document)), self.seed)
        rows = traffic.messages.messages
        flows = traffic.flows[rows["flow"]]
        columns = (flows["src"], flows["dst"], rows["bytes"], rows["start_ps"] // 1000 * 1000)
        found = list(zip(*(column.tolist() for column in columns), strict=True))
        found += self._incasts()
        return sorted(found, key=lambda row: row[3])

    def _incasts(self) -> list[Connection]:
        if not self.incast:
            return []
        random = Random(self.seed, "validation incast")
        hosts = self.fabric.all_hosts
        bytes_per_s = self.incast * hosts * HOST_BPS / 8
        mean_ps = int(self.senders * _INCAST_BYTES / bytes_per_s * _PS)
        found: list[Connection] = []
        at = int(random.exponential(mean_ps, 1)[0])
        while at < self.arrivals_us * 10**6:
            receiver, *others = random.shuffled(range(hosts))[: self.senders + 1]
            start = at // 1000 * 1000
            found += [(sender, receiver, _INCAST_BYTES, start) for sender in others]
            at += int(random.exponential(mean_ps, 1)[0])
        return found


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case("websearch-30", "websearch", "30%", 3000),
        Case("websearch-50", "websearch", "50%", 2000),
        Case("hadoop-30", "hadoop", "30%", 2000),
        Case("hadoop-50", "hadoop", "50%", 1000),
        Case("websearch-30-incast", "websearch", "30%", 2000, incast=0.02),
        Case("websearch-50-incast", "websearch", "50%", 2000, incast=0.02),
        Case("small", "hadoop", "30%", 500, fabric=Fabric(2, 2, 2, 2, 1)),
    )
}
"""By name; `small` is for tests."""


def main() -> None:
    """Write a case's flow file, or the fabric, to stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="?", choices=CASES, default="websearch-30")
    parser.add_argument("--port", type=int, default=BACKGROUND, help="other paths, same flows")
    parser.add_argument("--topology", action="store_true", help="the fabric instead")
    asked = parser.parse_args()
    case = CASES[asked.case]
    sys.stdout.write(case.fabric.hpcc_file() if asked.topology else case.flow_file(asked.port))


if __name__ == "__main__":
    main()
