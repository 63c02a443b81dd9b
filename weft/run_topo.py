"""`weft run-topo`: bring a topology up, show what it does, and take it down."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from emulation.interrupts import Interrupted, Interrupts, handled
from weft import console
from weft.command_line import METRICS_PORT, argument, as_json, command, flag, option, port_number

# Functions import what they need: Python loses a Ctrl-C that comes while it imports, and
# `run-topo --help` needs none of it.
if TYPE_CHECKING:
    from emulation.link_events import EventPlayer
    from emulation.proofs import Counters, Row
    from emulation.session import Session
    from mechanisms.switch_programs import Chosen
    from softswitch.program_cache import Compiled
    from topologies import Topology

PROGRAM = Path(__file__).resolve().parent.parent / "p4src" / "fabric.p4"

T = TypeVar("T")


class _Flow:
    """One run of the command: the session, and how its steps are reported."""

    def __init__(self, session: Session, interrupts: Interrupts, *, quiet: bool) -> None:
        self.session = session
        self.interrupts = interrupts
        self.quiet = quiet
        self.rows: list[Row] = []
        self.left_out = ""  # the proofs that were, and why
        self.counters: Counters = {}
        self.events: EventPlayer | None = None  # where the topology has any
        self.tell: Callable[[str], None] = console.notice

    def step(self, what: str, action: Callable[[], T]) -> T:
        """Do one step and say so. A switch that died meanwhile is the error that is raised."""
        from emulation.session import explain  # late: see the top

        self.interrupts.check()
        try:
            with console.progress(what, quiet=self.quiet):
                result = action()
        except Exception as error:
            shown = explain(self.session, error)
            if shown is error:
                raise
            raise shown from error
        self.interrupts.check()
        return result

    def compile(self, source: Path) -> Compiled:
        """Compile a program of the topology's switches. Raises CompileError."""
        from mechanisms.switch_programs import compile_for  # late: see the top

        compiling = compile_for(self.session.topology)
        return self.step(f"compile {source.name}", lambda: compiling(source))

    def bring_up(self, chosen: Chosen, *, keep_logs: bool) -> None:
        """Bring up all of it, from an empty machine to a fabric that forwards."""
        session, topology = self.session, self.session.topology
        for removed in session.claim(keep_logs=keep_logs):
            console.notice(f"cleaned up after a crash: {removed}")
        counts = f"{len(topology.hosts)} hosts, {len(topology.links)} links"
        self.step(f"network: {counts}", session.build_network)
        self.step(
            f"{len(topology.switches)} switches ({session.target.value})",
            session.wait_for_switches,
        )
        programs = chosen.programs
        what = "program and entries" if programs.own else "program and routes"
        self.step(
            f"P4Runtime: {what}",
            lambda: session.bring_up(programs.program, programs=programs.others, own=programs.own),
        )
        outcome = self.step("host agent: XDP on every host", session.host_agent_outcome)
        if outcome is not None and outcome.notice:
            console.notice(outcome.notice)
        if session.topology.own.commands:
            for failure in self.step("commands of hosts", session.run_host_commands):
                console.notice(failure)

    def prove(self, tcp_seconds: int) -> None:
        """Run the proofs that the topology allows, and keep their rows."""
        from emulation import proofs  # late: scapy takes half a second

        session = self.session
        if session.controller.own:
            self.left_out = (
                "pings, RoCEv2, RDMA, TCP: no controller plans routes (at the prompt: pingall)"
            )
            self.counters = self.step("port counters", lambda: proofs.read_counters(session))
            session.check_switches()
            return
        if len(session.topology.hosts) >= 2:
            for what, proof in (
                ("ping all pairs", proofs.all_pairs_ping),
                ("RoCEv2 packets", proofs.roce_over_spines),
                (
                    "RDMA WRITE",
                    partial(proofs.rdma_write, milliseconds=min(1000, 500 * tcp_seconds)),
                ),
                ("TCP transfer", partial(proofs.tcp_transfer, seconds=tcp_seconds)),
            ):
                self.rows.append(self.step(what, partial(proof, session)))
        row, self.counters = self.step("port counters", lambda: proofs.counters_agree(session))
        self.rows.append(row)
        session.check_switches()

    @property
    def ok(self) -> bool:
        """Whether every row is good."""
        return bool(self.rows or self.left_out) and all(row.ok for row in self.rows)


@dataclass(frozen=True)
class _Asked:
    """The options; `metrics`: a port, None for no metrics."""

    topo: str
    program: Path | None
    entries: Path | None
    target: str
    cli: bool
    seconds: int
    metrics: int | None
    keep_logs: bool
    as_json: bool


@command("""
    examples:
      sudo weft run-topo                        start the default fabric, test it, take it down
      sudo weft run-topo --cli                  the same, then a prompt
      sudo weft run-topo my/net.yaml --json     another topology, for a program to read
      sudo weft run-topo triangle --p4 lb.p4 --entries my/entries --cli
                                                your own program, with entries of its switches
    """)
@argument("topo", default="leafspine", help="a name that `weft topo list` shows, or a YAML file "
          "(default: leafspine)")  # fmt: skip
@option(
    "--p4",
    "program",
    type=Path,
    metavar="PROG.p4",
    help="run it on all switches (default: the topology's programs, or p4src/fabric.p4)",
)
@option("--entries", type=Path, metavar="DIR", help="table entries for switches with your own "
        "program: a folder with s1-runtime.json or s1-commands.txt for each")  # fmt: skip
@option("--target", type=click.Choice(["softswitch", "bmv2"]), default="softswitch",
        help="the switch to run: ours, or simple_switch_grpc (default)")  # fmt: skip
@flag("--cli", help="keep the fabric up after the results, with a prompt")
@option("--seconds", type=click.IntRange(1, 3600), default=2, metavar="N",
        help="how long the TCP transfer lasts (default)")  # fmt: skip
@option("--metrics", type=port_number, is_flag=False, flag_value=METRICS_PORT, metavar="[PORT]",
        help="serve Prometheus metrics on 127.0.0.1 while the fabric is up "
        f"(PORT: {METRICS_PORT})")  # fmt: skip
@flag("--keep-logs", help="never delete the logs of this run")
@as_json
def run(**options: Any) -> int:
    """Do the whole command; return the exit code. Raises the errors of the packages it uses."""
    asked = _Asked(**options)
    # Before anything large is imported.
    with handled() as interrupts:
        session = None
        try:
            try:
                session = _prepare(asked)
                return _run(_Flow(session, interrupts, quiet=asked.as_json), asked)
            finally:
                interrupts.close()
                if session is not None:
                    session.close()
        except Interrupted:
            # The signal may have come between the last step and the clean-up: once more.
            interrupts.close()
            if session is not None:
                session.close()
            console.notice("interrupted: everything that the run made is removed")
            return 130


def _prepare(asked: _Asked) -> Session:
    """Check what can be checked before anything is made."""
    from emulation.session import Session, require_root  # late: see the top
    from emulation.switch_node import Target

    require_root("weft run-topo (or: sudo make run-topo)")
    return Session(_load(asked.topo, asked.program, asked.entries), Target(asked.target))


def _load(name: str, program: Path | None, entries: Path | None) -> Topology:
    import topologies  # late: pydantic
    from weft.own_options import with_own

    return with_own(topologies.load(name), program, entries)


def _run(flow: _Flow, asked: _Asked) -> int:
    if asked.metrics is None:
        return _bring_up_and_prove(flow, asked)
    from observe import metrics  # only with --metrics

    # Before anything is made: a port in use is said at once.
    with metrics.serving(asked.metrics) as url:
        console.notice(f"metrics  {url}")
        return _bring_up_and_prove(flow, asked)


def _bring_up_and_prove(flow: _Flow, asked: _Asked) -> int:
    from emulation import link_events  # late: see the top
    from mechanisms.switch_programs import choose

    session = flow.session
    chosen = choose(session.topology, session.target_facts(), flow.compile)
    for notice in chosen.notices:
        console.notice(notice)
    flow.bring_up(chosen, keep_logs=asked.keep_logs)
    with link_events.playing(flow.session, lambda line: flow.tell(line)) as flow.events:
        return _prove(flow, asked)


def _prove(flow: _Flow, asked: _Asked) -> int:
    flow.prove(asked.seconds)
    if asked.as_json:
        _print_json(flow)
    else:
        _print_tables(flow, stays=asked.cli)
    good = flow.ok
    if asked.cli:
        good = _prompt(flow) and good
    sys.stdout.flush()
    return 0 if good else 1


def _prompt(flow: _Flow) -> bool:
    """Run commands until the end, of this terminal and of others; say whether all worked."""
    from emulation.control import Control  # only with --cli
    from weft.prompt import Prompt
    from weft.reload import Programs
    from weft.remote import handlers

    session = flow.session
    programs = Programs(session)
    prompt = Prompt(session, flow.interrupts, programs)
    flow.tell = prompt.tell
    session.supervise(prompt.tell)
    control = Control(session.run.directory, handlers(session, programs))
    try:
        with _taking_jobs(session):
            return prompt.run()
    finally:
        control.close()


@contextmanager
def _taking_jobs(session: Session) -> Iterator[None]:
    """Serve schedulers meanwhile, where a planner uses their jobs."""
    if not session.controller.plans_jobs:
        yield
        return
    from emulation.scheduler.server import JobsServer  # late: see the top

    server = JobsServer(session.scheduler)
    print(f"jobs     gRPC {server.address} (until exit); weft job submit FILE", flush=True)
    try:
        yield
    finally:
        server.close()


def _print_tables(flow: _Flow, *, stays: bool) -> None:
    session = flow.session
    topology = session.topology
    print_counters(session, flow.counters)
    if flow.rows:
        console.table(
            ["what", "result", ""],
            [[row.what, row.result, "ok" if row.ok else "FAILED"] for row in flow.rows],
            title=f"{topology.name}: {topology.description or 'results'}",
        )
    print(_conditions(session))
    for line in _own_programs(session):
        print(f"program  {line}")
    if flow.left_out:
        print(f"left out {flow.left_out}")
    if flow.events is not None:
        print(f"events   {flow.events.summary()}")
    print(f"logs     {session.run.log_dir}")
    for line in session.moved():
        print(f"moved    {line}")
    until = "until exit" if stays else "closed with this run; CLI=1 or --cli keeps it up"
    addresses = ", ".join(
        f"{name} {switch.settings.address}" for name, switch in session.network.switches.items()
    )
    print(f"sockets  P4Runtime {addresses} ({until})")
    sys.stdout.flush()


def _own_programs(session: Session) -> Iterator[str]:
    """Yield a line for each program of the user's: its switches, with how many entries of files."""
    own, programs = session.controller.own, session.controller.programs
    for program in dict.fromkeys(programs[name].name for name in own):
        names = [name for name in own if programs[name].name == program]
        entries = ", ".join(f"{name} {len(own[name].updates)}" for name in names)
        yield f"{program}; entries of files: {entries}"


def _conditions(session: Session) -> str:
    """Say what the numbers hold for: runtime, time scale, and which links are emulated."""
    scale = session.topology.time_scale
    text = f"runtime {session.target.value}, real time; time_scale {scale}"
    if session.target.value == "bmv2":
        return text + "; rates and delays of links: not emulated"
    if scale != 1:
        text += f": {scale} s here are 1 s in the fabric"
    if not session.network.hosts_are_paced:
        text += "; hosts send unpaced (this kernel has no tbf)"
    return text


def print_counters(session: Session, counters: Counters) -> None:
    """Print the table of all ports' counters, if there are any."""
    if not counters:
        print("no port counters: the program has none that we know, and BMv2 reports nothing else")
        return
    columns = [
        "switch",
        "port",
        "to",
        "rx packets",
        "rx bytes",
        "tx packets",
        "tx bytes",
        "RoCE rx",
    ]
    rows = []
    for name, ports in counters.items():
        for number, port in sorted(ports.items()):
            peer = session.topology.peer(name, number)
            values = (
                *(port.rx_packets, port.rx_bytes, port.tx_packets, port.tx_bytes),
                "" if port.roce_rx_packets is None else port.roce_rx_packets,
            )
            rows.append([name, str(number), peer.node, *(str(value) for value in values)])
    title = "port counters" + ("" if session.controller.own else ", over P4Runtime")
    console.table(columns, rows, title=title, right=columns[3:])


def _print_json(flow: _Flow) -> None:
    session = flow.session
    print(
        json.dumps(
            {
                "run": session.run.name,
                "topology": session.topology.name,
                "runtime": session.target.value,
                "time_scale": session.topology.time_scale,
                "events": "" if flow.events is None else flow.events.summary(),
                "ok": flow.ok,
                "rows": [vars(row) for row in flow.rows],
                "left_out": flow.left_out,
                "counters": {
                    name: {number: vars(port) for number, port in ports.items()}
                    for name, ports in flow.counters.items()
                },
                "logs": str(session.run.log_dir),
                "moved": session.moved(),
                "p4runtime": {
                    name: switch.settings.address
                    for name, switch in session.network.switches.items()
                },
            }
        )
    )
