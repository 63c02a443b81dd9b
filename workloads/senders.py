"""What mechanisms add to the `transport:` of run files: algorithms at the sender, and their keys.

    senders.install([Sender("name", "title", "algorithm", parameters_of)])

`mechanisms.registry` does so for all mechanisms; code that only loads run files need not know
(`topologies.extensions` has the same rule).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from hostagent.rnic.planes import PlaneConfig, PlaneUse

if TYPE_CHECKING:
    from topologies.model import Topology


class Parameters(Protocol):
    """The parameters of one algorithm for senders of one line rate; a frozen dataclass.

    Rates in bits/s and times in ns, as they run. Results keep it as `dataclasses.asdict` gives it.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def line_rate_bps(self) -> int:
        """The rate of the sender's interface."""

    @property
    def receiver_cnp_interval_ns(self) -> int | None:
        """How often the receiver answers marks with a CNP at most; None: it sends none for this."""

    def fields(self) -> Mapping[str, int]:
        """Return the fields of the algorithm's C structure `NAME_params`, by name."""

    def with_time_scale(self, scale: int) -> Self:
        """Return the same algorithm slowed down by `scale`."""


@dataclass(frozen=True)
class Key:
    """A key of `transport:`: a pydantic annotation, and what holds without it."""

    type: Any
    default: Any = None


@dataclass(frozen=True)
class Column:
    """A column that results have where an algorithm runs: one of the card's neutral counters.

    `title`: what it counts, as people write it.
    """

    name: str
    counter: str
    title: str


@dataclass(frozen=True)
class StateColumn:
    """What `weft agent` shows of an algorithm's state in a queue pair's slot.

    `key`: in JSON; `title`: of the column, empty for JSON alone. `value(state, rate_bps)`: from the
    state's C fields and what the algorithm alone allows; None: nothing to show. `is_rate`: bits/s,
    shown in fabric time; else a share, an integer that counts, or a word. `optional`: the column is
    there only if a row has a value. `is_plane`: a word of what a plane is, of which the card may
    know more than the state.
    """

    key: str
    title: str
    value: Callable[[Mapping[str, int], int], float | str | None]
    is_rate: bool = True
    optional: bool = False
    is_plane: bool = False


@dataclass(frozen=True)
class Recovery:
    """How long a rate that was cut takes to grow, where that is long in a slowed-down run.

    `counter`: the card's neutral counter that says that it was cut. `text`: "it raises a rate
    that was cut every". `timer_ns(parameters)`: in the time of the parameters.
    """

    counter: str
    text: str
    timer_ns: Callable[[Any], int]


@dataclass(frozen=True, eq=False)
class Sender:
    """A mechanism's part at the sender.

    `name`: as `congestion_control:` says it; `title` as people write it, plural if it has one.
    `planes(entry)`: of one that `congestion_control:` does not name, but that runs beside whatever
    it names: what the card makes of a queue pair's interfaces by the validated `transport:`, where
    `entry` has the sender's first key; None: nothing, and it does not run. It runs where they
    share the load, and a slot is one interface's then.
    `algorithm`: its name in C (hostagent/include/cc_algorithms.h). `keys`: its own keys of
    `transport:`. `parameters(entry, line_rate_bps)`: from the validated `transport:` to what the
    algorithm runs with. `of_fabric(parameters, topology)`: the same with what follows from a
    fabric, such as round trips. `beside`: names of senders that run beside it; the smallest rate
    holds.
    `hears_switches`: it takes switches' own notifications, which a stock NIC does not, and falls
    back to `beside` there. `columns`: what results have of it beyond what all have;
    `state_columns`: what `weft agent` has.
    `shim`: what its packets' telemetry shim is for, as in "records of hops"; a packet has one shim,
    so that senders with different ones never run together.
    `sets`: names of parameter sets, `default_set` among them; `set_key`: the key that takes one.
    `recovery`: how long its cuts last. `describe(parameters)`: a line of `weft sim` on the
    parameters as results keep them.
    """

    name: str
    title: str
    algorithm: str
    parameters: Callable[[Any, int], Parameters]
    of_fabric: Callable[[Any, Topology], Parameters] | None = None
    keys: Mapping[str, Key] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    hears_switches: bool = False
    columns: tuple[Column, ...] = ()
    state_columns: tuple[StateColumn, ...] = ()
    shim: str = ""
    sets: tuple[str, ...] = ()
    default_set: str = ""
    set_key: str = ""
    recovery: Recovery | None = None
    describe: Callable[[Mapping[str, Any]], str] | None = None
    planes: Callable[[Any], PlaneConfig | None] | None = None

    @property
    def key(self) -> str:
        """The first of its keys."""
        return next(iter(self.keys))

    def parameters_in(
        self, topology: Topology | None, entry: Any, line_rate_bps: int
    ) -> Parameters:
        """Return what it runs with by a validated `transport:`, in a fabric where one is known."""
        found = self.parameters(entry, line_rate_bps)
        if topology is None or self.of_fabric is None:
            return found
        return self.of_fabric(found, topology)


_installed: tuple[Sender, ...] | None = None


def install(found: Iterable[Sender]) -> None:
    """Take these senders, and no others, from now on. Raises ValueError for a name or key twice."""
    global _installed
    all_of_them = tuple(found)
    names = [each.name for each in all_of_them] + [key for s in all_of_them for key in s.keys]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two mechanisms' senders have {', '.join(sorted(twice))}")
    _installed = all_of_them


@contextmanager
def with_sender(more: Sender) -> Iterator[None]:
    """Let what this process reads and plans meanwhile know one sender more, behind the others.

    For an algorithm of one's own: run files name it as any other. Raises ValueError for a name or
    key that is there already.
    """
    before = senders()
    install((*before, more))
    try:
        yield
    finally:
        install(before)


JOINED = "+"
"""Between the names of senders that run together; the smallest rate and window hold."""

DEFAULT = ""
"""In `beside`: the sender that a run file has without saying so."""


def senders() -> tuple[Sender, ...]:
    """Return the installed senders, in the order of the registry; the first is the default."""
    if _installed is None:
        # Here, since `--help` of the commands with a `--congestion` would load pydantic with it.
        from topologies.extensions import ask_for_mechanisms

        ask_for_mechanisms()
    assert _installed is not None, "no mechanism has a sender"
    return _installed


def choices() -> tuple[Sender, ...]:
    """Return the senders that `congestion_control:` names; the first is the default."""
    return tuple(each for each in senders() if each.planes is None)


def sender(name: str) -> Sender:
    """Return the sender of that name. Raises KeyError."""
    known = {each.name: each for each in choices()}
    if name not in known:
        raise KeyError(f"no sender {name!r}; available: {', '.join(known)}")
    return known[name]


def named(control: str) -> tuple[str, ...]:
    """Return the names in `congestion_control: control`: "a", or "a+b"; "none" has none."""
    return () if control == "none" else tuple(control.split(JOINED))


def is_control(text: str) -> bool:
    """Say whether `congestion_control:` takes a text: a sender, several joined by "+", or none."""
    known = {each.name for each in choices()}
    names = named(text)
    return known.issuperset(names) and len(set(names)) == len(names)


def why_not_together(control: str) -> str:
    """Return why the senders of a `congestion_control:` can't run together; empty: they can."""
    shims = {each.shim: each for each in with_those_beside(control) if each.shim}
    if len(shims) < 2:
        return ""
    parts = " and ".join(f"{each.title} for {shim}" for shim, each in shims.items())
    return f"{control}: a packet has one telemetry shim, which {parts} need: choose one of them"


def with_those_beside(name: str, *, stock: bool = False) -> tuple[Sender, ...]:
    """Return what runs at a sender of `congestion_control: name`, in the registry's order.

    `stock`: on a NIC that knows plain CNPs only. "none" is nothing; of "a+b" both run, with what
    runs beside each. Raises KeyError.
    """
    wanted, todo = set(), [*named(name)]
    while todo:
        each = sender(todo.pop())
        if each.name not in wanted:
            wanted.add(each.name)
            todo.extend(other or choices()[0].name for other in each.beside)
    return tuple(
        each for each in choices() if each.name in wanted and not (stock and each.hears_switches)
    )


def of_planes(entry: Any) -> tuple[Sender, PlaneConfig] | None:
    """Return the sender that makes planes of a validated `transport:`'s interfaces, and its
    settings.
    """
    for each in senders():
        planes = each.planes(entry) if each.planes is not None else None
        if planes is not None:
            return each, planes
    return None


def running(entry: Any, *, stock: bool = False) -> tuple[Sender, ...]:
    """Return what runs at a sender of a validated `transport:`, in the registry's order.

    `stock`: as `with_those_beside` has it.
    """
    chosen = with_those_beside(entry.congestion_control, stock=stock)
    planes = of_planes(entry)
    beside = planes[0] if planes and planes[1].use is PlaneUse.SHARED else None
    return tuple(each for each in senders() if each in chosen or each is beside)


def titles(name: str, set_name: str | None = None) -> str:
    """Return what runs at a sender in words ("A and B"), with the set's name where one has it."""
    running = reversed(with_those_beside(name))
    words = [
        f"{each.title} {set_name}" if each.sets and set_name else each.title for each in running
    ]
    return " and ".join(words) or "no congestion control"


def columns() -> tuple[Column, ...]:
    """Return the columns of all senders."""
    return tuple(column for each in senders() for column in each.columns)


def name_of(algorithms: Collection[str]) -> str:
    """Return the sender that runs just these algorithms, by their C names; "none" for none.

    What runs beside whichever `congestion_control:` names is left out.
    """
    run = {each.algorithm for each in choices()} & set(algorithms)
    if not run:
        return "none"
    for controls in (1, 2):
        for some in combinations(choices(), controls):
            control = JOINED.join(each.name for each in some)
            if {other.algorithm for other in with_those_beside(control)} == run:
                return control
    names = [each.name for each in choices() if each.algorithm in run]
    return f"{' and '.join(names)} alone"
