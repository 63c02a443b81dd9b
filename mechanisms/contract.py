"""What a mechanism may be: the contract between a mechanism and the rest of the house.

A mechanism is a folder `mechanisms/NAME/` whose module `mechanism.py` has one `MECHANISM`, an
instance of a subclass of `Mechanism`, and a line in the list of `mechanisms/registry.py`. Whatever
it leaves out it does not have. With the folder come, each where it is used and under the same name,

    p4src/modules/NAME.p4            its part in the switch, a line in p4src/mechanisms.p4
    hostagent/include/NAME.h         its part at the sender, a line in cc_algorithms.h
    labs/..., docs/NAME.md, tests/mechanisms/NAME/

and the name stands nowhere else. Everything below iterates over the registry:

    settings        topologies   keys of a class, or of the file, in topology files
    sender          workloads    keys of `transport:`, parameters; hostagent and simulator run it
    holds, features, sizes      emulation, simulator: what a topology's P4 program is built with
    tables, learner              controller
    entries, entries_towards, entries_of: what switches hold; what it depends on is what each is
        given, and `controller.parts` says when each is asked
    tickers         simulator, emulation: packets into switches at a period
    port_report     simulator, emulation: a packet into a switch when a port loses or gets carrier
    validity_unit_ps   observe: how long notifications hold
    counters        observe: top, web, metrics, JSON; results
    words           the prompt
    jobs            experiments: training jobs whose sums switches make
    link_marks      observe: whose flows take which links, in pictures of a fabric
    path_records    simulator, experiments, observe: what switches write of each hop into packets
    source_ports    workloads: who chooses queue pairs' source ports by a job's flows
    remarks         lint, of topologies and of run files

docs/architecture.md walks through a mechanism that is written from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from controller.entries import Entry
from controller.leaf_routes import Ways
from controller.parts import FabricView, Learned, Learner, View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from topologies.errors import FieldPath
from topologies.extensions import Setting
from topologies.lint.findings import Remark
from topologies.model import Endpoint, Link, Switch, Topology, TrafficClass
from topologies.tickers import Ticker
from workloads.in_network import Aggregation
from workloads.model import RunFile
from workloads.senders import Sender
from workloads.source_ports import PortChooser


@dataclass(frozen=True)
class PortCounter:
    """A counter of the P4 program with some cells a port, each with a meaning.

    `name`: in P4Info. `cells(port)`: index -> label. `title`: the column in `weft top`, which shows
    the label `shown`; also the row in the summary of `weft sim`. `key`: in JSON, in results and as
    `--sort` says it, with - for _. `texts`: how a count of each label reads ("340 within the
    interval"). `help`: the metric's text in Prometheus, whose name is weft_port_KEY and whose
    label's name is `label`. `state(counts)`: what the mechanism makes of a port now, in a word or
    two ("dead"), from its counts by label; empty where there is nothing to say. `absorbed`: labels
    of packets that a switch drops in ingress because it has taken what is in them: none is lost.
    """

    name: str
    key: str
    title: str
    cells: Callable[[int], Mapping[int, str]]
    shown: str
    texts: Mapping[str, str]
    help: str
    label: str = "outcome"
    state: Callable[[Mapping[str, int]], str] = lambda counts: ""
    absorbed: frozenset[str] = frozenset()

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels, in the order of their cells."""
        return tuple(self.texts)

    def text(self, counts: Mapping[str, int]) -> str:
        """Return the labels that occurred in words, `shown` always and where the order has it."""
        told = [
            f"{counts.get(label, 0)} {text}"
            for label, text in self.texts.items()
            if counts.get(label) or label == self.shown
        ]
        return ", ".join(told)


class WordError(Exception):
    """A word at the prompt that can't be done; the message says what would be right."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class Rows:
    """A table that a word prints."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str


class Control(Protocol):
    """The run's controller, as words reach it (`controller.BlockingController`)."""

    @property
    def policy(self) -> FabricPolicy:
        """What the topology's classes say, and which mechanisms are switched off."""

    def switch_mechanism(self, name: str, on: bool) -> int:
        """Switch a mechanism off or on in all switches; return how many updates that took."""

    def read_entries(self, switch: str, table: str | None = None) -> tuple[Entry, ...]:
        """Return what a switch holds, in one table or in all."""

    def has(self, switch: str, *, table: str = "", counter: str = "") -> bool:
        """Say whether a switch's program has a table and a counter."""

    def read_cells(self, counter: str, cells: Mapping[str, Sequence[int]]) -> Any:
        """Return packets by switch and index: cells of one counter, read from each switch."""

    def read_hits(self, switch: str, table: str) -> tuple[tuple[Entry, int, int], ...]:
        """Return a table's entries, each with the packets and bytes that it counted itself."""

    @property
    def links_down(self) -> frozenset[Link]:
        """The links that the controller routes around."""

    @property
    def digests_dropped(self) -> int:
        """Digests that came faster than they could be worked off."""

    def ask(self, name: str, question: Callable[[Any], Any]) -> Any:
        """Return what `question` says of a mechanism's learner (None: there is none)."""

    def tell(self, name: str, saying: Callable[[Any], Learned | None]) -> None:
        """Tell a mechanism's learner something, and write what follows from it."""


class Cards(Protocol):
    """The cards of the run's hosts, their RoCEv2 endpoints, as words reach them.

    Interfaces are named as the ends of their links. Endpoints start when they are first needed.
    """

    @property
    def drained(self) -> frozenset[Endpoint]:
        """The interfaces that are drained."""

    def drain(self, ends: Collection[Endpoint], on: bool) -> None:
        """Let no new packet of queue pairs over planes take these interfaces, or let them again.

        It holds for endpoints that start later, too. Raises an error of the run's for those that do
        not answer, after the others have been informed.
        """

    def outstanding(self, ends: Collection[Endpoint]) -> int:
        """Return how many packets of such queue pairs are on the way by these interfaces."""


@dataclass(frozen=True)
class Running:
    """What a word at the prompt works on."""

    topology: Topology
    controller: Control
    cards: Cards


@dataclass(frozen=True)
class Word:
    """A command at the prompt. `run(running, rest)` yields lines and tables to print.

    `rest` is what follows its name. `run` raises WordError. `more` is shown by `help NAME`;
    `complete`: the words that may follow first.
    """

    name: str
    arguments: str
    text: str
    run: Callable[[Running, str], Iterable[str | Rows]]
    more: str = ""
    complete: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkMarks:
    """Whose flows take which links. `title`: what names are ("job").

    `flows`: by name, how many of its flows the end of a link sends over it.
    """

    title: str
    flows: Mapping[str, Mapping[Endpoint, int]]


@dataclass(frozen=True)
class PathRecords:
    """What switches write of each hop into packets, for those who watch a flow's path.

    `ports`: switch and port by the number in a record; a number that several ports share is left
    out. `dscps`: of the packets into which they write. `always`: those of them whose senders let
    them write whatever their algorithm wants. `right`: what to write in a topology for that.
    """

    ports: Mapping[int, tuple[str, int]]
    dscps: frozenset[int]
    always: frozenset[int]
    right: str


@dataclass(frozen=True)
class Measured:
    """A measurement of `weft perf`, for mechanisms to say what makes it mean less than it seems.

    `data_class`: the class of RoCE data, None where there is none. `control`: the sender's name;
    `hears`: some sender's NIC takes switches' notifications.
    """

    topology: Topology
    data_class: TrafficClass | None
    control: str
    hears: bool


@dataclass(frozen=True)
class SwitchJobs:
    """Jobs whose collectives switches compute, and what their hosts' workers have to know.

    `hosts(topology)`: of each job by name, in the order of ranks; raises ControllerError for jobs
    that do not fit. `worker(topology, job, host, start)`: what `hostagent.collective` takes as a
    worker's settings. `count_start(directory, job)`: counts a start of a job in a run's directory,
    and returns how many there were before.
    """

    hosts: Callable[[Topology], Mapping[str, tuple[str, ...]]]
    worker: Callable[[Topology, str, str, int], Any]
    count_start: Callable[[Path, str], int]


@dataclass(frozen=True)
class Mechanism:
    """A mechanism that has nothing yet; subclasses say what theirs has.

    `name` is the folder's, in small letters with _; `title` as people write it.
    Satisfies `controller.parts.Part`.
    """

    name: str
    title: str
    settings: tuple[Setting, ...] = ()
    sender: Sender | None = None
    aggregation: Aggregation | None = field(default=None, compare=False)
    tables: frozenset[str] = frozenset()
    learned_tables: frozenset[str] = frozenset()
    counters: tuple[PortCounter, ...] = ()
    words: tuple[Word, ...] = field(default=(), compare=False)
    jobs: SwitchJobs | None = None
    source_ports: PortChooser | None = field(default=None, compare=False)

    def holds(self, topology: Topology) -> bool:
        """Say whether the P4 program of a topology has to have this mechanism's module.

        By default: the topology or one of its classes has one of its settings.
        """
        places: tuple[Topology | TrafficClass, ...] = (topology, *topology.classes)
        return any(p.setting(each.key) is not None for p in places for each in self.settings)

    def sizes(self, topology: Topology) -> Mapping[str, int]:
        """Return what its module is to make room for, by the names of the module's `#ifndef`s.

        Only what the module's own numbers don't do for: programs of all usual fabrics are one.
        """
        return {}

    def features(self, topology: Topology) -> Iterable[str]:
        """Return the parts of its module that a topology uses, as the module's `WITH_` names them.

        Only of a module that leaves some out of programs that hold it.
        """
        return ()

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield what one switch should hold whatever the routes are.

        Pure, like those below, and in an order in which it can be installed.
        """
        return iter(())

    def entries_towards(
        self, view: FabricView, leaf: Switch, round_trip_ps: int
    ) -> Iterator[Entry]:
        """Yield what every switch should hold that is so far from a leaf.

        `round_trip_ps`: as in `controller.leaf_routes.Way`, in fabric picoseconds; 0 at the leaf.
        """
        return iter(())

    def summary(self, view: View, ways: Ways) -> Mapping[Hashable, Hashable]:
        """Return what else matters of a switch's ways: what `entries_of` has to know.

        Asked whenever one of the ways changes, so it should be quick. Keys come in one order.
        """
        return {}

    def entries_of(self, view: View, key: Hashable, value: Hashable) -> Iterator[Entry]:
        """Yield what one switch should hold in whose summary `key` has this value."""
        return iter(())

    def tickers(self, topology: Topology, switch: Switch) -> Iterator[Ticker]:
        """Yield what comes into a switch at a period, by `TICKER_PORT`: heartbeats, say.

        Always the same for a topology and switch, in one order: start times are drawn by it.
        """
        return iter(())

    def port_report(self, topology: Topology) -> bytes:
        """Return what comes into every switch by `TICKER_PORT` when a port loses or gets carrier.

        From the Ethernet header on, 14 to 128 bytes. The target (ours; BMv2 reports nothing) writes
        into the last four which port, and 1 for up or 0 for down, 16 bits each. No bytes: no
        reports.
        """
        return b""

    def validity_unit_ps(self, topology: Topology, kind: int) -> int:
        """Return what the validity of its notifications of a type counts in, in fabric ps.

        A notification holds for 2^validity of it. 0: none of this type is its own.
        """
        return 0

    def learner(
        self, topology: Topology, facts: TargetFacts, policy: FabricPolicy
    ) -> Learner | None:
        """Return what learns while a fabric runs; None where there is nothing to learn."""
        return None

    def link_marks(self, topology: Topology, learner: Any) -> LinkMarks | None:
        """Return whose flows take which links, as its learner (None: there is none) has it.

        In the controller's thread, and often: it should be quick.
        """
        return None

    def path_records(self, topology: Topology) -> PathRecords | None:
        """Return what its switches write of each hop into packets; None: they never do."""
        return None

    def cautions(self, measured: Measured) -> Iterator[str]:
        """Yield what makes a measurement of RDMA mean less than it seems to."""
        return iter(())

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield what lint says of a topology. `prefix`: where it stands in its file."""
        return iter(())

    def run_remarks(self, run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield what lint says of a run file. `prefix`: where its topology stands in it."""
        return iter(())
