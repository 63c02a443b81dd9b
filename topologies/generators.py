"""Regular fabrics from a few parameters. A generator writes the explicit form, nothing else."""

from __future__ import annotations

from topologies.addressing import MAX_HOSTS_PER_LEAF
from topologies.document import Document
from topologies.errors import TopologyError
from topologies.schema import (
    MAX_PORT,
    ExplicitFile,
    HostEntry,
    LeafSpineFile,
    LinkEntry,
    LinkSettings,
    SwitchEntry,
)

EXAMPLE = {"rate": "rate: 400Gbps", "delay": "delay: 500ns", "queue": "queue: 1MB"}


def leaf_spine(spec: LeafSpineFile, document: Document) -> ExplicitFile:
    """Return the explicit form of a leaf-spine fabric. Raises TopologyError, placed in `document`.

    Leaves come first: s1..sL, then the spines. Hosts are h1.. leaf by leaf. A leaf's ports
    are its hosts, then its spines, each in order; a spine's port n leads to leaf n.
    """
    _check(spec, document)
    leaves = [f"s{1 + i}" for i in range(spec.leaves)]
    spines = [f"s{1 + spec.leaves + i}" for i in range(spec.spines)]
    hosts = [f"h{1 + i}" for i in range(spec.leaves * spec.hosts_per_leaf)]
    host_link = _merged(spec.host_link, spec.link)
    links = [
        _link(host, f"{leaves[i // spec.hosts_per_leaf]}:{1 + i % spec.hosts_per_leaf}", host_link)
        for i, host in enumerate(hosts)
    ]
    links += [
        _link(f"{leaf}:{spec.hosts_per_leaf + 1 + j}", f"{spine}:{1 + i}", spec.link)
        for i, leaf in enumerate(leaves)
        for j, spine in enumerate(spines)
    ]
    return ExplicitFile(
        time_scale=spec.time_scale,
        description=spec.description,
        switches=[
            *(SwitchEntry(name=name, role="leaf") for name in leaves),
            *(SwitchEntry(name=name, role="spine") for name in spines),
        ],
        hosts=[HostEntry(name=name) for name in hosts],
        links=links,
    )


def _check(spec: LeafSpineFile, document: Document) -> None:
    problems = []
    for key in ("rate", "delay", "queue"):
        if getattr(spec.link, key) is None:
            problems.append(
                document.problem(("link",), f"no {key} given: add one, as {EXAMPLE[key]}")
            )
    if spec.hosts_per_leaf + spec.spines > MAX_PORT:
        message = f"a leaf has {MAX_PORT} ports for its hosts and spines together"
        problems.append(document.problem(("hosts_per_leaf",), message))
    if spec.hosts_per_leaf > MAX_HOSTS_PER_LEAF:
        message = f"a leaf's network has {MAX_HOSTS_PER_LEAF} addresses for hosts"
        problems.append(document.problem(("hosts_per_leaf",), message))
    if problems:
        raise TopologyError(problems)


def _merged(first: LinkSettings, fallback: LinkSettings) -> LinkSettings:
    return LinkSettings.model_construct(
        rate=fallback.rate if first.rate is None else first.rate,
        delay=fallback.delay if first.delay is None else first.delay,
        queue=fallback.queue if first.queue is None else first.queue,
    )


def _link(a: str, b: str, settings: LinkSettings) -> LinkEntry:
    return LinkEntry.model_construct(
        a=a, b=b, rate=settings.rate, delay=settings.delay, queue=settings.queue
    )
