"""What `weft perf` is asked to measure, checked against what is available."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.ways import Ways, duration_of
from observe.errors import UsageError
from topologies.errors import did_you_mean
from topologies.reach import Reach
from topologies.units import parse_size
from workloads.planes import plane_problems
from workloads.senders import (
    JOINED,
    choices,
    is_control,
    titles,
    why_not_together,
    with_those_beside,
)
from workloads.several import unjoined
from workloads.transport_schema import transport_entry

if TYPE_CHECKING:
    from topologies import Topology
    from topologies.model import Interface

OPERATIONS = ("write", "send", "read")
RETRANSMISSIONS = ("go-back-n", "selective-repeat")
MTUS = (256, 512, 1024, 2048, 4096)
MAX_SIZE = 1 << 23  # perftest's -a ends there, too
MAX_QPS = 16384
MAX_MESSAGES = 1_000_000  # of all queue pairs of a measurement
MAX_DEPTH = 16384
DEFAULT_SIZES = {"bandwidth": 65536, "latency": 2}  # perftest's
DEFAULT_COUNT = 1000
DEFAULT_DEPTH = 128  # perftest's
ALL_SIZES = tuple(1 << power for power in range(1, 24))

_PS_PER_S = 10**12


@dataclass(frozen=True)
class Request:
    """One call of the command. `sizes` None: each mode's own; `duration_ps` of the run's clock.

    `control`: as a run file's `congestion_control:` says it; `set_name`: the parameter set of
    what has some. `mtu` None: the largest that the links allow.
    `count` None: 1000 messages on each queue pair, in real time as many of them as fit two seconds.
    `depth` None: 128, in real time fewer if the link needs more than a second for so many.
    `interfaces` "all": a queue pair uses all that both hosts have; `reorder`: by how much its
    packets may overtake each other, as a run file says it; `failover`: these are planes.
    """

    operation: str
    sources: tuple[str, ...]
    target: str
    modes: tuple[str, ...] = ("bandwidth", "latency")
    sizes: tuple[int, ...] | None = None
    count: int | None = None
    qps: int = 1
    depth: int | None = None
    mtu: int | None = None
    control: str = "none"
    set_name: str | None = None
    retransmission: str = "go-back-n"
    duration_ps: int | None = None
    interfaces: str = "one"
    reorder: str | None = None
    failover: bool = False

    def measurements(self) -> list[tuple[str, int]]:
        """Return (mode, size) of each measurement, in the order in which they are made."""
        return [
            (mode, size) for mode in self.modes for size in (self.sizes or (DEFAULT_SIZES[mode],))
        ]

    @property
    def duration_s(self) -> float | None:
        """The duration in seconds, None where `count` bounds the run."""
        return None if self.duration_ps is None else self.duration_ps / _PS_PER_S

    def transport(self) -> dict[str, Any]:
        """Return the keys of a run file's `transport:` that say what lowers rates, and the ways."""
        keys = {
            each.set_key: self.set_name for each in with_those_beside(self.control) if each.sets
        }
        return {"congestion_control": self.control, **keys, **self._ways()}

    def _ways(self) -> dict[str, Any]:
        """Return the requested interface settings under the same keys; empty without any."""
        return Ways(self.interfaces, self.reorder, self.failover).keys()

    def parameters(self) -> dict[str, Any]:
        """Return what the results were measured with, for people and programs to read.

        A sender that runs beside another one has a key of its own: whether it did.
        """
        running = with_those_beside(self.control)
        return {
            "operation": self.operation,
            "sources": list(self.sources),
            "target": self.target,
            "count": self.count,
            "qps": self.qps,
            "depth": self.depth,
            "mtu": self.mtu,
            "control": self.control,
            **{each.name.replace("-", "_"): each in running for each in choices() if each.beside},
            "congestion_control": self.set_name or self.control,
            "retransmission": self.retransmission,
            "duration_s": self.duration_s,
            **self._ways(),
        }


def request_of(
    *, operation: str, source: str, target: str, size: str | None, all_sizes: bool,
    count: int | None, qps: int, depth: int | None, mtu: int | None, congestion: str | None,
    set_name: str | None, retransmission: str, duration: str | None, bw: bool, lat: bool,
    interfaces: str = "one", reorder: str | None = None, failover: bool = False,
) -> Request:  # fmt: skip
    """Return what options ask for. Raises UsageError, ParameterError (no such set)."""
    if size is not None and all_sizes:
        raise UsageError("perf: -s and -a exclude each other: one size, or all of 2 B to 8 MB")
    if bw and lat:
        raise UsageError(
            "perf: --bw and --lat exclude each other; without either both are measured"
        )
    control, chosen = controlled(congestion, set_name)
    sizes = ALL_SIZES if all_sizes else None
    if size is not None:
        sizes = (_size(size),)
    modes: tuple[str, ...] = ("bandwidth", "latency")
    if bw or lat:
        modes = ("bandwidth",) if bw else ("latency",)
    request = Request(
        operation=operation,
        sources=tuple(name for name in source.split(",") if name),
        target=target,
        modes=modes,
        sizes=sizes,
        count=count,
        qps=qps,
        depth=depth,
        mtu=mtu,
        control=control,
        set_name=chosen,
        retransmission=retransmission,
        duration_ps=duration_of("--duration", duration),
        interfaces=interfaces,
        reorder=reorder,
        failover=failover,
    )
    _check_ways(request)
    _check_numbers(request)
    return request


def controlled(name: str | None, set_name: str | None) -> tuple[str, str | None]:
    """Return the congestion control (None: the default one) and its parameter set, if it has one.

    `set_name` "none" is no congestion control at all. Raises UsageError, which lists those
    available.
    """
    known = [each.name for each in choices()]
    control = name or known[0]
    if not is_control(control):
        together = f"or two that run together, as {JOINED.join(known[1:3])}"
        there = f"{', '.join(known)}, none, {together}"
        raise UsageError(f"--congestion {control}: choose one of {there}")
    if clash := why_not_together(control):
        raise UsageError(f"--congestion {clash}")
    running = with_those_beside(control)
    with_sets = next((each for each in running if each.sets), None)
    if set_name == "none":
        if len(running) > 1:
            raise UsageError(
                f"perf: {running[-1].title} have {running[0].title} beside them: --set NAME, or "
                "--congestion none"
            )
        return "none", None
    if with_sets is None:
        if set_name is not None:
            raise UsageError(f"--set {set_name}: {titles(control)} has no parameter sets")
        return control, None
    chosen = set_name or with_sets.default_set
    if chosen not in with_sets.sets:
        raise UsageError(
            f"there is no parameter set {chosen!r}: choose {', '.join(with_sets.sets)}, or none"
        )
    return control, chosen


def _size(text: str) -> int:
    try:
        size = int(text) if text.isdecimal() else parse_size(text)
    except ValueError as error:
        raise UsageError(f"-s {text}: {error}") from None
    if not 1 <= size <= MAX_SIZE:
        raise UsageError(f"-s {text}: a message has 1 to {MAX_SIZE} bytes")
    return size


def _check_ways(request: Request) -> None:
    Ways(request.interfaces, request.reorder, request.failover).check()
    if request.reorder is not None and request.retransmission != "selective-repeat":
        raise UsageError("--reorder is for --retransmission selective-repeat: go-back-n has none")
    if request.failover and request.retransmission == "go-back-n":
        raise UsageError(
            "--failover needs --retransmission selective-repeat: go-back-n keeps "
            "nothing that another plane has overtaken"
        )
    if request.interfaces == "all":
        for name in (*request.sources, request.target):
            if ":" in name:
                host = name.partition(":")[0]
                raise UsageError(f"{name}: queue pairs use all interfaces: write {host}")


def _check_numbers(request: Request) -> None:
    if request.count is not None:
        within("-n", request.count, MAX_MESSAGES)
    within("-q", request.qps, MAX_QPS)
    if request.depth is not None:
        within("--depth", request.depth, MAX_DEPTH)
    messages = (request.count or 1) * request.qps * len(request.sources)
    if messages > MAX_MESSAGES:
        raise UsageError(
            f"-n {request.count} on {request.qps} queue pairs are {messages} messages: at most "
            f"{MAX_MESSAGES} in all"
        )


def within(what: str, number: int, most: int) -> None:
    """Raise UsageError unless 1 <= number <= most."""
    if not 1 <= number <= most:
        raise UsageError(f"{what} {number}: must be from 1 to {most}")


def interfaces(request: Request, topology: Topology) -> tuple[list[Interface], Interface]:
    """Return the interfaces of the sources and of the target. Raises UsageError.

    Hosts are written as h1, their further interfaces as h1:1.
    """
    target = _interface(topology, request.target)
    sources = [_interface(topology, name) for name in request.sources]
    if not sources:
        raise UsageError("perf: which host measures? SRC is a host, or several: h1,h2")
    for source in sources:
        if source.host == target.host:
            raise UsageError(
                f"{source.end} and {target.end} are the same host: measure between two"
            )
    ends = [source.end for source in sources]
    for end in ends:
        if ends.count(end) > 1:
            raise UsageError(f"{end} is named twice; more queue pairs of a host: -q")
    _check_meet(topology, sources, target, request)
    return sources, target


def _interface(topology: Topology, name: str) -> Interface:
    host_name, _, number = name.partition(":")
    hosts = {host.name: host for host in topology.hosts}
    if host_name not in hosts:
        hint = did_you_mean(host_name, tuple(hosts))
        there = hint or f"; available: {some(list(hosts))}"
        raise UsageError(f"{topology.name} has no host {host_name!r}{there}")
    parts = hosts[host_name].interfaces
    if number and not (number.isdecimal() and int(number) < len(parts)):
        last = len(parts) - 1
        raise UsageError(
            f"{host_name} has no interface {number!r}: "
            + (f"they are 0 to {last}" if last else "it has one, number 0")
        )
    return parts[int(number or 0)]


def _check_meet(
    topology: Topology, sources: Sequence[Interface], target: Interface, request: Request
) -> None:
    reach = Reach(topology)
    if request.interfaces == "all":
        keys = {"retransmission": request.retransmission, **request.transport()}
        entry = transport_entry().model_validate(keys)
        why = unjoined(topology, reach, entry, sources, [target])
        if why is not None:
            raise UsageError(f"--interfaces all: {why}")
        for _, wrong in plane_problems(entry, topology):
            raise UsageError(f"--failover: {wrong}")
        return
    for source in sources:
        if not reach.meet(source, target):
            raise UsageError(
                f"{source.end} can't reach {target.end}: no links join {source.switch} and "
                f"{target.switch}; take interfaces of one plane, such as HOST:1"
            )


def some(names: Sequence[str], most: int = 12) -> str:
    """Return names for a message: all of them, or the first few."""
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join(names[:most]) + f", ... ({len(names)})"
