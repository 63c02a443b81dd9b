"""What results from a run file's `transport`: settings, and algorithms for a sender's line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hostagent.rnic.planes import NO_PLANES, PlaneConfig
from topologies.model import Topology
from workloads.senders import JOINED, Parameters, Sender, named, of_planes, running
from workloads.transport_schema import PLANES_LINK_DELAY_PS, PathChoice, TransportFields


@dataclass(frozen=True)
class Transport:
    """A transport for senders of one line rate; times in fabric picoseconds.

    `interfaces`: how many a queue pair uses; `line_rate_bps` is that of all of them together.
    `congestion_control`: the name of the last sender that runs, "none" without any; `algorithms`:
    what runs at the sender, by the algorithm's name in C. `window_packets` 0: the card's default.
    `ack_class`: the topology's class that acknowledgements go in, None for the data's own.
    `path_choice`: the rule among the `udp_ports` (None: packets take turns); `queue_pairs`: how
    many a message is striped over; `piece_bytes`: in pieces of so many, of which a queue pair has
    `outstanding` at most, as they drain (0: equal parts, one each).
    `reorder_ps`: how long packets may overtake each other before what is missing counts as lost.
    `planes`: what the card makes of several interfaces; where they are planes, `algorithms` are for
    one of them. `link_delay_ps`: after which a host hears of what its links do.
    """

    retransmission: str
    operation: str
    ack_every: int
    window_packets: int
    timeout_ps: int
    retries: int
    udp_ports: int
    line_rate_bps: int
    congestion_control: str = "none"
    algorithms: Mapping[str, Parameters] = field(default_factory=dict)
    ack_class: str | None = None
    reorder_ps: int = 0
    interfaces: int = 1
    path_choice: PathChoice | None = None
    queue_pairs: int = 1
    piece_bytes: int = 0
    outstanding: int = 0
    planes: PlaneConfig = NO_PLANES
    link_delay_ps: int = 0

    def fields(self, time_scale: int = 1) -> dict[str, Mapping[str, int]]:
        """Return each algorithm's C fields by its name, slowed down by `time_scale`.

        As `hostagent.algorithms.Parameters`. Raises ParameterError.
        """
        return {
            name: each.with_time_scale(time_scale).fields()
            for name, each in self.algorithms.items()
        }

    def cnp_interval_ns(self, time_scale: int = 1) -> int | None:
        """Return the least time between two CNPs of a receiver, None where it sends none."""
        intervals = (
            each.with_time_scale(time_scale).receiver_cnp_interval_ns
            for each in self.algorithms.values()
        )
        return min((each for each in intervals if each is not None), default=None)


def transport_for(
    entry: TransportFields,
    line_rate_bps: int,
    *,
    stock: bool = False,
    interfaces: int = 1,
    topology: Topology | None = None,
) -> Transport:
    """Return what a run file says, for senders whose interfaces have that rate together.

    `stock`: their cards know plain CNPs only, so that what hears switches is left out. `topology`:
    the fabric that they are in; algorithms that need one can't run without it.
    Raises ParameterError where no set serves the rate.
    """
    planes = of_planes(entry)
    chosen = [each for each in running(entry, stock=stock) if each.planes is None]
    of_slot = line_rate_bps // interfaces if planes else line_rate_bps
    delay = entry.link_delay
    if delay is None:
        delay = PLANES_LINK_DELAY_PS if planes else 0
    return Transport(
        entry.retransmission,
        entry.operation,
        entry.ack_every,
        entry.window or 0,
        entry.timeout,
        entry.retries,
        entry.source_ports,
        line_rate_bps,
        _name_of(entry.congestion_control, chosen),
        {
            each.algorithm: each.parameters_in(topology, entry, of_slot)
            for each in running(entry, stock=stock)
        },
        entry.ack_class,
        entry.reorder or 0,
        interfaces,
        entry.chosen,
        entry.queue_pairs,
        entry.piece if entry.shared_queue_pairs > 1 else 0,
        entry.outstanding if entry.shared_queue_pairs > 1 else 0,
        planes[1] if planes else NO_PLANES,
        delay,
    )


def _name_of(control: str, chosen: Sequence[Sender]) -> str:
    """Return what runs of a run file's `congestion_control:` on a card that may not know it all."""
    names = {each.name for each in chosen}
    left = [name for name in named(control) if name in names]
    if left:
        return JOINED.join(left)
    return chosen[-1].name if chosen else "none"


def class_of(topology: Topology, name: str | None) -> tuple[int, int] | None:
    """Return a class's first DSCP and its queue; None for no name. Raises KeyError."""
    if name is None:
        return None
    found = {each.name: each for each in topology.classes}[name]
    return found.dscps[0], found.queue or 0
