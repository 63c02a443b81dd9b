"""Whose each number of each parameter set is: repository, commit, file, line, and its words.

    sources("hpcc-dcqcn")["clamp_target_rate"].says      CLAMP_TARGET_RATE 0

A set's fields are those of `DcqcnParameters` and of its thresholds; each has one source, and
`tests/mechanisms/dcqcn/test_sources.py` holds the values against the cited ones. What is not as it
stands there says so in `ours`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.slow_motion import ParameterError


@dataclass(frozen=True)
class Repository:
    """A public repository as it was when it was read."""

    name: str
    commit: str


@dataclass(frozen=True)
class Source:
    """Where a number stands. `ours`: in what we differ from it, and why; empty where we do not."""

    repository: Repository
    path: str
    line: int
    says: str
    ours: str = ""

    @property
    def place(self) -> str:
        """Return file and line, as a reader would write them."""
        return f"{self.path.rsplit('/', 1)[-1]}:{self.line}"

    @property
    def url(self) -> str:
        """Return where to read it, of the very commit."""
        return (
            f"https://github.com/{self.repository.name}/blob/{self.repository.commit}/"
            f"{self.path}#L{self.line}"
        )


NS3_RDMA = Repository("bobzhuyb/ns3-rdma", "e8a27d02bfe5ef0aec189c7d1a401547dbd8fbad")
HPCC = Repository(
    "alibaba-edu/High-Precision-Congestion-Control", "9f4be2a9ead8a90e8bf732c66bd758c00e58e5be"
)

_CARD = "src/point-to-point/model/qbb-net-device.cc"
_RDMA_HW = "simulation/src/point-to-point/model/rdma-hw.cc"


def _config(line: int, says: str, ours: str = "") -> Source:
    return Source(NS3_RDMA, "windows/ns-3-dev/x64/Release/mix/config.txt", line, says, ours)


def _run(line: int, says: str, ours: str = "") -> Source:
    return Source(HPCC, "simulation/run.py", line, says, ours)


_PACKETS = "bytes; there packets of 1030 B count as 1 kB (broadcom-node.cc:423)"

_NS3_RDMA = {
    "min_rate_bps": Source(NS3_RDMA, _CARD, 119, 'MinRate: DataRateValue(DataRate("100Mb/s"))'),
    "rate_ai_bps": _config(32, "RATE_AI 40Mb/s"),
    "rate_hai_bps": _config(33, "RATE_HAI 200Mb/s"),
    "alpha_timer_ns": _config(
        21,
        "ALPHA_RESUME_INTERVAL 55",
        "alpha by timer alone; there a CNP raises it at once and starts the timer anew",
    ),
    "increase_timer_ns": _config(25, "RP_TIMER 60"),
    "byte_counter": _config(26, "BYTE_COUNTER 300000000"),
    "cut_interval_ns": Source(
        NS3_RDMA, _CARD, 1407, "rpr_cnm_received cuts at each CNP: no interval is looked at"
    ),
    "clamp_target_rate": _config(23, "CLAMP_TARGET_RATE 1"),
    "fast_recovery": _config(31, "FAST_RECOVERY_TIMES 5"),
    "gain_q16": _config(27, "DCTCP_GAIN 0.00390625"),
    "cnp_interval_ns": _config(20, "CNP_INTERVAL 50"),
    "min_bytes": _config(29, "KMIN 40", _PACKETS),
    "max_bytes": _config(28, "KMAX 1000", _PACKETS),
    "probability": _config(30, "PMAX 1.0"),
}


def _hpcc(line: int, alpha: int, cut: int, increase: int) -> dict[str, Source]:
    """Return the sources of both sets of run.py: common ones, and the three values set in
    `line`.
    """
    return {
        "min_rate_bps": _run(
            28, "MIN_RATE 1000Mb/s", "of a line below 100 Gb/s 1 %, or many flows could not share"
        ),
        "rate_ai_bps": _run(100, "ai = 5 * bw / 25"),
        "rate_hai_bps": _run(101, "hai = 50 * bw /25"),
        "alpha_timer_ns": _run(line, f"t_alpha={alpha}"),
        "increase_timer_ns": _run(line, f"t_inc={increase}"),
        "byte_counter": Source(
            HPCC, _RDMA_HW, 684, "RateIncEventTimerMlx: nothing but the timer increases"
        ),
        "cut_interval_ns": _run(
            line,
            f"t_dec={cut}",
            "there the sender looks every interval; here a CNP after the interval cuts at once",
        ),
        "clamp_target_rate": _run(22, "CLAMP_TARGET_RATE 0"),
        "fast_recovery": _run(25, "FAST_RECOVERY_TIMES 1"),
        "gain_q16": _run(line, "g=0.00390625"),
        "cnp_interval_ns": Source(
            HPCC,
            _RDMA_HW,
            322,
            "seqh.SetCnp(): each acknowledgement of a marked packet",
            "half of the alpha timer: two CNPs in it tell alpha as much as more would",
        ),
        "min_bytes": _run(97, "100*bw/25"),
        "max_bytes": _run(96, "400*bw/25"),
        "probability": _run(98, "0.2"),
    }


_SOURCES: Mapping[str, Mapping[str, Source]] = {
    "ns3-rdma": _NS3_RDMA,
    "hpcc-dcqcn-paper": _hpcc(106, alpha=50, cut=50, increase=55),
    "hpcc-dcqcn": _hpcc(104, alpha=1, cut=4, increase=300),
}


def sources(name: str) -> Mapping[str, Source]:
    """Return where each field of a set comes from. Raises ParameterError: no such set."""
    found = _SOURCES.get(name)
    if found is None:
        raise ParameterError(f"there is no parameter set {name!r}: choose {', '.join(_SOURCES)}")
    return found
