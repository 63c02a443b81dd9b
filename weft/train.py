"""`weft train`: a real PyTorch job on hosts of a fabric, while its links and switches die."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click
from click import Choice

from emulation.interrupts import Interrupted
from observe.errors import UsageError
from weft import console, torch_setup
from weft.command_line import argument, as_json, command, option, ways

# Functions import what they need, as those of run-topo do: a Ctrl-C during imports is lost.
if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.training.fabric import Fabric
    from experiments.training.run import Request, Seen
    from topologies import Topology

SCHEMA = 1
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_AT_LEAST = click.IntRange(min=1)


class TorchMissingError(Exception):
    """PyTorch is not installed."""

    remedy = "make setup-torch"


@dataclass(frozen=True)
class _Asked:
    topo: str | None
    transport: str
    steps: int
    batch: int
    hidden: int
    rate: float
    seed: int
    hosts: str | None
    ranks: int | None
    job: str | None
    loss: str | None
    fault: Sequence[str]
    target: str
    time_scale: int | None
    give_up: float
    interfaces: str
    reorder: str | None
    failover: bool
    as_json: bool


@command("""
    examples:
      sudo weft train training                     switches add up the gradients of four ranks
      sudo weft train training --transport ring    hosts do, in a ring: the same weights
      sudo weft train training --transport rdma    the same ring, by the hosts' cards
      sudo weft train training --loss 1% --fault "at step 20: kill s3"
      sudo weft train planes.yaml --time-scale 300 --transport rdma --interfaces all --failover
          --steps 200 --fault "at step 20: down h1:1 s3 for 1s"      by planes, one of which fails
      sudo weft train leafspine --transport gloo --hosts h1,h3 --steps 10
      sudo weft train --json                       in the fabric that is up (make run-topo CLI=1)

    exit codes: 0 trained, and all ranks have the same weights; 1 something failed; 2 wrong
    arguments; 130 interrupted
    """)
@argument("topo", required=False, help="a name from `weft topo list`, or a YAML file: it is "
          "started for the job (default: the running fabric)")  # fmt: skip
@option("--transport", type=Choice(("in-network", "ring", "rdma", "gloo")), default="in-network",
        help="how gradients are summed: by switches, by a ring of hosts that adds the same "
        "integers (over TCP, or over RDMA), or by PyTorch's own gloo (default)")  # fmt: skip
@option("--steps", type=_AT_LEAST, default=40, metavar="N", help="steps to train (default)")
@option(
    "--batch", type=_AT_LEAST, default=32, metavar="N", help="digits per rank and step (default)"
)
@option("--hidden", type=_AT_LEAST, default=48, metavar="N",
        help="units of the model's hidden layer; it has 75 N + 10 weights (default)")  # fmt: skip
@option("--rate", type=click.FloatRange(min=0, min_open=True), default=0.2, metavar="X",
        help="the learning rate (default)")  # fmt: skip
@option("--seed", type=click.IntRange(0, 2**31), default=1, metavar="N",
        help="seed of the data, its order and the initial weights (default)")  # fmt: skip
@option("--hosts", metavar="H,H", help="hosts of ranks 0, 1, ... (default: all, or the job's)")
@option("--ranks", type=click.IntRange(min=2), metavar="N", help="use the first N hosts")
@option("--job", metavar="NAME", help="in-network: which of the topology's jobs (default: the "
        "first)")  # fmt: skip
@option("--loss", metavar="SHARE", help="frames lost on every link, such as 1%")
@option(
    "--fault",
    multiple=True,
    metavar="TEXT",
    help="inject a fault, such as "
    "'at step 20: kill s3'; also revive, down A B, up A B, loss 5% A B; repeatable",
)
@ways
@option("--target", type=Choice(("softswitch", "bmv2")), default="softswitch",
        help="the switch that TOPO runs (default)")  # fmt: skip
@option("--time-scale", type=_AT_LEAST, metavar="N", help="slow TOPO down by this (default: its "
        "own)")  # fmt: skip
@option(
    "--give-up",
    type=click.FloatRange(min=0.1),
    default=5.0,
    metavar="S",
    help="in-network: continue over the ring after S seconds without progress (default)",
)
@as_json
def run(**options: Any) -> int:
    """Train; return the exit code."""
    asked = _Asked(**options)
    if not torch_setup.is_ready():
        pinned = torch_setup.pins()["torch"]
        raise TorchMissingError(f"weft train needs PyTorch {pinned}, which is not installed")
    try:
        return _run(asked)
    except Interrupted:
        console.notice("interrupted: the ranks are ended, and what the run made is removed")
        return 130


def _run(asked: _Asked) -> int:
    from experiments.training.run import train  # late: see the top

    with _fabric(asked) as fabric:
        request = _request(asked, fabric.topology)
        with console.bar(quiet=asked.as_json) as draw:

            def tell(step: int, loss: float) -> None:
                draw((step + 1) / asked.steps, f"step {step + 1} of {asked.steps}, loss {loss:.3f}")

            seen = train(request, fabric, tell)
        if asked.as_json:
            print(json.dumps(in_json(request, fabric, seen), indent=2))
        else:
            show(request, fabric, seen)
        sys.stdout.flush()
        for failure in seen.failures:
            console.error(failure)
    return 0 if seen.ok else 1


@contextmanager
def _fabric(asked: _Asked) -> Iterator[Fabric]:
    from emulation.switch_node import Target  # late: see the top
    from experiments.training import fabric

    if asked.topo is None:
        if asked.time_scale is not None:
            raise UsageError("--time-scale is for a TOPO that is brought up")
        found = fabric.running()
        _request(asked, found.topology)
        yield found
        return
    topology = _load(asked.topo, asked.time_scale)
    _request(asked, topology)  # what is wrong is said before anything is made

    def step(what: str) -> None:
        if not asked.as_json:
            console.notice(f"{topology.name}: {what}")

    with fabric.brought_up(topology, Target(asked.target), step, console.notice) as up:
        yield up


def _load(name: str, time_scale: int | None) -> Topology:
    import topologies  # late: pydantic

    found = topologies.load(name)
    return found if time_scale is None else found.with_time_scale(time_scale)


def _request(asked: _Asked, topology: Topology) -> Request:
    """Return what is asked for. Raises UsageError."""
    from experiments.training import faults  # late: see the top
    from experiments.training.job import Training, Transport
    from experiments.training.run import Request, ranks_of
    from experiments.ways import Ways

    if asked.hosts is not None and asked.ranks is not None:
        raise UsageError("--hosts or --ranks, not both")
    hosts = tuple(asked.hosts.split(",")) if asked.hosts else ()
    if asked.ranks is not None:
        names = [host.name for host in topology.hosts]
        if asked.ranks > len(names):
            raise UsageError(f"--ranks {asked.ranks}: {topology.name} has {len(names)} hosts")
        hosts = tuple(names[: asked.ranks])
    if asked.loss is not None:
        faults.check_share(asked.loss)
    found = [faults.fault(text, topology) for text in asked.fault]
    request = Request(
        Transport(asked.transport),
        Training(asked.steps, asked.batch, asked.hidden, asked.rate, asked.seed),
        hosts,
        asked.job,
        asked.loss,
        faults.in_order(found, asked.steps),
        asked.give_up,
        Ways(asked.interfaces, asked.reorder, asked.failover),
    )
    ranks_of(request, topology)
    return request


# --- showing it ---------------------------------------------------------------------------------


def in_json(request: Request, fabric: Fabric, seen: Seen) -> dict[str, Any]:
    """Return the stable form of --json."""
    return {
        "schema": SCHEMA,
        "ok": seen.ok,
        "topology": fabric.topology.name,
        "runtime": fabric.runtime,
        "time_scale": fabric.topology.time_scale,
        "transport": request.transport.value,
        "training": asdict(request.training),
        **asdict(request.ways),
        "loss": request.loss,
        "faults": [str(each) for each in request.faults],
        "sha256": seen.sha256,
        "ranks": [asdict(each) for each in seen.ranks],
        "steps": [asdict(each) for each in seen.steps],
        "events": [{"step": step, "what": what} for step, what in seen.events],
        "failures": seen.failures,
        "wall_s": round(seen.wall_s, 3),
    }


def curve(values: Sequence[float], width: int = _WIDTH) -> str:
    """Draw values as a line of bars, from 0 up; each is the mean of those that share it."""
    if not values:
        return ""
    count = min(width, len(values))
    bounds = [len(values) * each // count for each in range(count + 1)]
    means = [statistics.fmean(values[a:b]) for a, b in pairwise(bounds)]
    top = max(means) or 1.0
    return "".join(_BARS[min(len(_BARS) - 1, int(len(_BARS) * each / top))] for each in means)


def show(request: Request, fabric: Fabric, seen: Seen) -> None:
    """Print what came of a job, for people."""
    from experiments.training.planes import in_words  # late: see the top

    topology = fabric.topology
    for step, what in seen.events:
        print(f"  step {step:3}: {what}")
    columns = ["rank", "host", "digits known", "collectives", "SHA-256 of the weights"]
    rows = [
        [str(each.rank), each.host, f"{each.accuracy:.1%}", _calls(each.calls), each.sha256[:16]]
        for each in seen.ranks
    ]
    if any(each.planes for each in seen.ranks):
        columns.insert(-1, "planes")
        for row, each in zip(rows, seen.ranks, strict=True):
            row.insert(-1, in_words(each.planes))
    equal = "equal on all ranks" if seen.sha256 else "NOT EQUAL, or some are missing"
    caption = (
        f"weights: {equal}; {fabric.runtime}, time scale {topology.time_scale}, {seen.wall_s:.1f} s"
    )
    console.table(
        columns,
        rows,
        title=f"{topology.name}, {request.transport.value}: {len(seen.steps)} steps",
        caption=caption,
    )
    if seen.steps:
        losses = [each.loss for each in seen.steps]
        times = sorted(each.ns / 1e6 for each in seen.steps)
        print(f"loss       {losses[0]:.3f} {curve(losses)} {losses[-1]:.3f}")
        print(f"step time  median {statistics.median(times):.1f} ms, longest {times[-1]:.1f} ms")
    if seen.sha256:
        print(f"weights    {seen.sha256}")


def _calls(calls: dict[str, Any] | None) -> str:
    """Say how a rank's collectives were made."""
    if calls is None:
        return "gloo"
    tree, text = calls["tree"], []
    if calls["by_tree"] or tree:
        text.append(f"{calls['by_tree']} by switches")
    if calls["by_ring"]:
        text.append(f"{calls['by_ring']} by the ring")
    if calls["ring"].get("repeated_packets"):
        text.append(f"{calls['ring']['repeated_packets']} packets repeated")
    if tree.get("repeated"):
        text.append(f"{tree['repeated']} packets repeated")
    if tree.get("moves"):
        text.append(f"{tree['moves']} move{'s' * (tree['moves'] != 1)}")
    return ", ".join(text)
