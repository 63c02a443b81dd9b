"""Commands at the prompt that are about switches, links and the controller."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulation import proofs
from emulation.switch_node import Target
from weft import console, p4rt_shell
from weft.live_link import link_rows, switch_link
from weft.prompt_command import Command, CommandError, Shell, no_arguments, one_of, split
from weft.prompt_words import words
from weft.reload import DROP, Programs
from weft.run_topo import print_counters

if TYPE_CHECKING:
    from controller.table_rows import TableRow

ROLE = "shell"  # what p4runtime-shell calls itself where it writes
_TRACE = "trace SWITCH [OPTIONS]"
ELECTION_ID = "--election-id"
_CONTROLLER = f"controller restart [{ELECTION_ID} N]"


class FabricCommands:
    """`links`, `link`, `counters`, `tables`, `reload`, `p4rt-shell`, `controller`, and others."""

    def __init__(self, shell: Shell, programs: Programs) -> None:
        self._shell = shell
        self._session = shell.session
        self._programs = programs

    def commands(self) -> list[Command]:
        """Return the commands, in the order of `help`."""
        return [
            Command("links", "", "the links, their rates, and whether they are up", self._links),
            Command(
                "link",
                "END END down|up",
                "unplug a cable, or plug it in again: link s1 s3 down",
                self._link,
                "Nothing passes a link that is down, and the controller routes around it.\n"
                "An end is a node (s1, h1) or, where several links join two nodes, a port (s1:3).\n"
                "From another terminal: weft link s1 s3 down",
                self._link_words,
            ),
            Command("counters", "", "the counters of every port, over P4Runtime", self._counters),
            Command(
                "tables",
                "SWITCH [TABLE]",
                "the entries of a switch's tables, over P4Runtime",
                self._tables,
                "tables s1               all tables and their default actions\n"
                "tables s1 ipv4_route    one of them",
                self._table_words,
            ),
            *words(self._shell),
            Command(
                "reload",
                f"SWITCH|all [FILE.p4] [{DROP}]",
                "compile the changed P4 program and load it, keeping the entries",
                self._reload,
                "reload s1              the program that s1 runs, as its file is now\n"
                "reload s1 my/copy.p4   another one; entries follow their names\n"
                "reload all             every switch\n"
                f"reload s1 lb.p4 {DROP}   any program: the switch begins anew with it\n"
                "Our switch changes between two packets. On BMv2 the entries are written again,\n"
                "and traffic is interrupted meanwhile.",
                lambda before: () if before else [*self._shell.switches(), "all"],
            ),
            Command(
                "trace",
                "SWITCH [OPTIONS]",
                "what each packet meets in a switch, until Ctrl-C (trace s1 --help)",
                lambda rest: self._view("trace", rest),
                complete=self._one_switch,
            ),
            Command(
                "path",
                "HOST HOST [OPTIONS]",
                "the path of a flow, and where its packets are lost (path h1 h3 --help)",
                lambda rest: self._view("path", rest),
                complete=lambda before: self._shell.hosts() if len(before) < 2 else (),
            ),
            Command(
                "top",
                "[WHERE]",
                "rates, queues, drops and marks of ports, live, until Ctrl-C",
                lambda rest: self._view("top", rest),
            ),
            Command(
                "agent",
                "[HOST]",
                "the eBPF state of every RoCE queue pair, live, until Ctrl-C",
                lambda rest: self._view("agent", rest),
                complete=lambda before: self._shell.hosts() if not before else (),
            ),
            Command(
                "job",
                "submit FILE|list|end NAME",
                "jobs whose flows the controller plans: start, show and end them",
                lambda rest: self._view("job", rest),
                complete=lambda before: () if before else ["submit", "list", "end"],
            ),
            Command(
                "p4rt-shell",
                "SWITCH [write]",
                "p4lang's interactive P4Runtime shell on a switch",
                self._p4rt_shell,
                "It only reads; with `write` it also writes, next to the controller (on BMv2\n"
                "instead of it, until it ends). Its writes stay until the controller restores its\n"
                "plan: controller restart. Installed on first use, from PyPI.",
                lambda before: self._one_switch(before) if len(before) != 1 else ["write"],
            ),
            Command(
                "controller",
                f"restart [{ELECTION_ID} N]",
                "replace the controller by a new one, which writes only the differences",
                self._controller,
                "While another controller is primary of a switch, this one waits until it leaves.\n"
                f"{ELECTION_ID} N takes the switch back at once, with an id above the other's.",
                lambda before: {(): ["restart"], ("restart",): [ELECTION_ID]}.get(
                    tuple(before), []
                ),
            ),
        ]

    # --- completion ---------------------------------------------------------------------------

    def _one_switch(self, before: Sequence[str]) -> Iterable[str]:
        return () if before else self._shell.switches()

    def _link_words(self, before: Sequence[str]) -> Iterable[str]:
        topology = self._session.topology
        if len(before) == 2:
            return ("down", "up")
        ends = [end for link in topology.links for end in (link.a, link.b)]
        if len(before) == 1:
            near = before[0].partition(":")[0]
            beside = [link for link in topology.links if near in (link.a.node, link.b.node)]
            ends = [e for link in beside for e in (link.a, link.b) if e.node != near]
        return [] if len(before) > 2 else sorted({e.node for e in ends} | {str(e) for e in ends})

    def _table_words(self, before: Sequence[str]) -> Iterable[str]:
        if len(before) == 1 and before[0] in self._shell.switches():
            return [table.alias for table in self._session.controller.p4info(before[0]).tables.all]
        return self._one_switch(before)

    # --- links --------------------------------------------------------------------------------

    def _links(self, rest: str) -> None:
        no_arguments("links", rest)
        columns = ["link", "interfaces", "rate", "state"]
        scale = self._session.topology.time_scale
        title = f"links; rates in fabric time, time_scale {scale}"
        console.table(columns, link_rows(self._session), title=title, right=["rate"])

    def _link(self, rest: str) -> None:
        print(switch_link(self._session, split(rest)))

    # --- P4Runtime ----------------------------------------------------------------------------

    def _counters(self, rest: str) -> None:
        no_arguments("counters", rest)
        print_counters(self._session, proofs.read_counters(self._session))

    def _tables(self, rest: str) -> None:
        words = split(rest)
        usage = "tables SWITCH [TABLE]"
        switch = one_of("switch", words[0] if words else "", self._shell.switches(), usage)
        if len(words) > 2:
            raise CommandError(usage)
        rows = self._session.controller.read_table(switch, words[1] if len(words) == 2 else None)
        self._print_rows(switch, rows)

    def _print_rows(self, switch: str, rows: Sequence[TableRow]) -> None:
        console.table(
            ["table", "key", "action", "priority"],
            [[row.table, row.key, row.action, str(row.priority or "")] for row in rows],
            title=f"tables of {switch}, over P4Runtime",
        )

    def _reload(self, rest: str) -> None:
        words = split(rest)
        usage = f"reload SWITCH|all [FILE.p4] [{DROP}]"
        drop = DROP in words
        words = [word for word in words if word != DROP]
        names = [*self._shell.switches(), "all"]
        which = one_of("switch", words[0] if words else "", names, usage)
        if len(words) > 2:
            raise CommandError(usage)
        path = Path(words[1]) if len(words) == 2 else None
        switches = self._shell.switches() if which == "all" else [which]
        for line in self._programs.reload(switches, path, drop=drop):
            print(line, flush=True)

    def _controller(self, rest: str) -> None:
        words = split(rest)
        ids = words[2:] if words[1:2] == [ELECTION_ID] else []
        if words[:1] != ["restart"] or len(words) not in (1, 3) or len(ids) != len(words) // 2:
            raise CommandError(_CONTROLLER)
        if ids and not (ids[0].isdecimal() and 0 < int(ids[0]) < 1 << 128):
            raise CommandError(f"{_CONTROLLER}, with N from 1 to 2^128 - 1, not {ids[0]!r}")
        done = self._session.restart_controller(int(ids[0]) if ids else None)
        written = sum(done.written.values())
        print(
            f"read back {len(done.written)} switches in {done.seconds:.2f} s: "
            f"{len(done.loaded)} programs loaded, {written} updates written"
        )

    def _p4rt_shell(self, rest: str) -> None:
        words = split(rest)
        usage = "p4rt-shell SWITCH [write]"
        name = one_of("switch", words[0] if words else "", self._shell.switches(), usage)
        if words[1:] not in ([], ["write"]):
            raise CommandError(usage)
        python = p4rt_shell.ensure()
        settings = self._session.network.switches[name].settings
        # IPython keeps its history and settings: with the run, not in a home folder.
        environment = {"IPYTHONDIR": str(self._session.run.directory / "ipython")}

        def run(**options: Any) -> int:
            at = (settings.address, settings.device_id)
            return self._shell.foreground(p4rt_shell.command(python, *at, **options), environment)

        if words[1:] != ["write"]:
            code = run()
        elif settings.target is Target.SOFTSWITCH:
            code = run(role=ROLE)  # beside the controller, which stays what it is
        else:
            with self._session.lent(name) as election_id:
                code = run(election_id=election_id)
        if code != 0:
            raise CommandError(f"p4runtime-shell ended with exit code {code}")

    # --- views: commands of their own, on the run that is up ------------------------------------

    def _view(self, command: str, rest: str) -> None:
        words = split(rest)
        if command == "trace" and "--help" not in words:
            one_of("switch", words[0] if words else "", self._shell.switches(), _TRACE)
        if command in ("top", "agent") and not self._shell.is_terminal:
            words.append("--once")  # a pipe has no Ctrl-C
        if command == "trace" and not self._shell.is_terminal and "--count" not in words:
            raise CommandError("from a pipe a number is needed: trace SWITCH --count N")
        code = self._shell.foreground([sys.executable, "-m", "weft.cli", command, *words])
        if code != 0 and (command, code) != ("path", 1):  # it has shown where probes vanish
            raise CommandError(f"weft {command} ended with exit code {code}")
