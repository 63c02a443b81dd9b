"""`weft path`: which way a flow takes, hop by hop, and where its packets vanish."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

import topologies
from controller.program import CompiledProgram
from mechanisms.switch_programs import choose, compile_for
from observe.errors import UsageError
from observe.flow_trace import FlowTrace, TracedFlow, assemble, is_settled
from simulator.fabric import target_facts
from simulator.flow_probe import FlowProbes
from simulator.runner import Simulation
from topologies import Topology
from topologies.document import Document
from topologies.errors import did_you_mean
from topologies.model import Endpoint
from topologies.units import parse_duration
from weft import console
from weft.command_line import argument, as_json, command, option
from workloads.loader import available_runs, load_run_file
from workloads.model import RunFile
from workloads.schema import ROCE_DSCP

DEFAULT_PORT = 49152
PORTS = range(1, 65536)
DSCPS = range(64)
MOST_PROBES = 1000


@command("""
    examples:
      sudo weft path h1 h3                       in the fabric that is up
      sudo weft path h1 h3 --udp-port 50000 --count 50
      weft path h1 h9 --sim fattree4             in virtual time, no root
      weft path h1 h9 --sim my/broken.yaml --at 2ms --json

    exit codes: 0 all probes arrived, 1 some did not, or FILE is wrong, 2 wrong arguments
    """)
@argument("source", help="the host that sends, or an interface of it: h1, h1:1")
@argument("target", help="the host that receives, or an interface of it")
@option("--udp-port", type=int, default=DEFAULT_PORT, metavar="N",
        help="the flow's UDP source port, which switches hash (default)")  # fmt: skip
@option("--dscp", type=int, default=ROCE_DSCP, metavar="N", help="DSCP of its packets (default)")
@option("--count", type=int, default=10, metavar="N",
        help="number of probes; a link that rarely loses packets needs many (default)")  # fmt: skip
@option("--sim", metavar="FILE",
        help="use the simulator: a topology or a run file, by name or path")  # fmt: skip
@option("--at", metavar="TIME", help="with --sim: probe at this time of the run, such as 2ms, "
        "with its traffic and events (default: at its start)")  # fmt: skip
@as_json
def run(
    source: str, target: str, udp_port: int, dscp: int, count: int, sim: str | None,
    at: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Send probes of a flow and print what every switch did with them; 0 if all arrived, else 1.

    Raises UsageError; TopologyError, CompileError for --sim; what a run that is up says.
    """
    for name, value, right in (("udp-port", udp_port, PORTS), ("dscp", dscp, DSCPS),
                               ("count", count, range(1, MOST_PROBES + 1))):  # fmt: skip
        if value not in right:
            raise UsageError(f"--{name} {value}: from {right[0]} to {right[-1]}")
    if sim is None:
        if at is not None:
            raise UsageError("--at is for --sim: a fabric that is up is asked as it is")
        return _shown(_live(source, target, udp_port, dscp, count), as_json=as_json)
    loaded = _loaded(sim)
    flow = flow_of(loaded.topology, source, target, udp_port, dscp)
    with console.progress(f"path in {loaded.topology.name}", quiet=as_json):
        found = _simulated(loaded, flow, count, 0 if at is None else _moment(at))
    return _shown(found, as_json=as_json)


def _shown(found: FlowTrace, *, as_json: bool) -> int:
    show(found, as_json=as_json)
    return 0 if found.arrived >= found.sent else 1


def _live(source: str, target: str, udp_port: int, dscp: int, count: int) -> FlowTrace:
    """Trace it in the run that is up. Raises NoRunError, NotRootError, what `trace` does."""
    from emulation import fabric_record  # Mininet, which --sim does without
    from emulation.session import require_root
    from observe.live_flow_trace import trace

    require_root("weft path (in the simulator it needs no root: --sim FILE)")
    record = fabric_record.running()
    return trace(record, flow_of(record.topology, source, target, udp_port, dscp), count)


def flow_of(topology: Topology, source: str, target: str, udp_port: int, dscp: int) -> TracedFlow:
    """Return the flow between two interfaces by their names. Raises UsageError."""
    ends = [_end(topology, name) for name in (source, target)]
    if ends[0] == ends[1]:
        raise UsageError(f"path {source} {target}: a flow has two ends")
    return TracedFlow(ends[0], ends[1], udp_port, dscp)


def _end(topology: Topology, name: str) -> Endpoint:
    known = {str(each.end): each.end for each in topology.interfaces()}
    if name not in known:
        raise UsageError(f"{topology.name} has no host {name!r}{did_you_mean(name, known)}")
    return known[name]


def _moment(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--at {text}: {error}") from None


def _loaded(name: str) -> RunFile:
    """Return a run file, or a topology as a run without traffic. Raises TopologyError."""
    if name in available_runs() or _is_run_file(Path(name)):
        return load_run_file(name)
    topology = topologies.load(name).with_time_scale(1)
    nothing = Document(name, {}, {})
    return RunFile(topology.name, name, topology, nothing, (), (), ())


def _is_run_file(path: Path) -> bool:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return False  # its loader reports what is wrong
    return isinstance(data, dict) and "topology" in data


def _simulated(loaded: RunFile, flow: TracedFlow, count: int, at_ps: int) -> FlowTrace:
    topology = loaded.topology
    chosen = choose(topology, target_facts(topology), compile_for(topology))
    program: CompiledProgram = chosen.programs.program
    simulation = Simulation(loaded, program, programs=chosen.programs)
    if at_ps:
        simulation.advance(at_ps)
    filter = flow.filter(topology)
    traces = FlowProbes(simulation).send(
        flow.source, flow.frame(topology), count, filter,
        lambda found: is_settled(topology, flow, count, found),
    )  # fmt: skip
    return assemble(topology, flow, count, traces)


# ---------------------------------------------------------------- what is printed


def show(found: FlowTrace, *, as_json: bool = False) -> None:
    """Print a trace: a row for each way out of each switch, and where probes vanished."""
    if as_json:
        print(json.dumps(found.as_json()))
        return
    flow = found.flow
    title = f"{flow.source} -> {flow.target}, UDP port {flow.udp_port}, DSCP {flow.dscp}"
    console.table(
        ["switch", "in", "out", "to", "queue", "came", "left"],
        list(rows(found)),
        title=title,
        right=["in", "out", "queue", "came", "left"],
    )
    print(f"{found.arrived} of {found.sent} probes arrived at {flow.target}")
    for each in found.vanished:
        reason = f": {each.reason}" if each.reason else ""
        print(f"  {each.packets} vanished at {each.place}{reason}")


def rows(found: FlowTrace) -> Iterator[list[str]]:
    """Yield the rows of the table."""
    for hop in found.hops:
        here = [hop.switch, str(hop.port)]
        for each in hop.left:
            yield [*here, str(each.port), each.towards, str(each.queue), str(hop.came),
                   str(each.packets)]  # fmt: skip
        if not hop.left:
            yield [*here, "", "", "", str(hop.came), "0"]
