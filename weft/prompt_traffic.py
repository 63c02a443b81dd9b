"""Commands at the prompt that are about hosts and their traffic."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from emulation import proofs, tcp
from emulation.errors import TrafficError
from experiments import perf_live
from experiments.perf_request import OPERATIONS
from weft import console, perf
from weft.prompt_capture import Captures
from weft.prompt_command import Command, CommandError, Shell, no_arguments, one_of, split
from weft.prompt_nodes import environment, run_in

if TYPE_CHECKING:
    from emulation.live_host import LiveHost

MAX_SECONDS = 3600


class TrafficCommands:
    """`pingall`, `iperf`, `perf`, `exec`, `xterm` and `capture`."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._captures = Captures(shell)

    def commands(self) -> list[Command]:
        """Return the commands, in the order of `help`."""
        return [
            Command("pingall", "", "ping between all pairs of hosts", self._pingall),
            Command(
                "iperf",
                "[HOST HOST] [SECONDS]",
                "a TCP transfer between two hosts, by iperf3",
                self._iperf,
                "iperf             between the two hosts that are farthest apart, 2 seconds\n"
                "iperf h1 h3 10    from h1 to h3, ten seconds",
                self._hosts,
            ),
            Command(
                "perf",
                "write|send|read SRC DST [OPTIONS]",
                "RDMA bandwidth and latency between hosts, as `weft perf`",
                self._perf,
                "perf write h1 h3                      both tables, two seconds each\n"
                "perf send -s 4096 -n 500 -q 4 h1 h3   so many messages on four queue pairs\n"
                "perf write h1,h2 h3 --bw --set none   two sources at once, no congestion control\n"
                "All options: weft perf --help",
                self._perf_words,
            ),
            Command(
                "exec",
                "HOST COMMAND",
                "run a command in a host, e.g. exec h1 ip route",
                self._exec,
                "The command is run by sh in the host's network namespace; files are this\n"
                "machine's, but for /etc/hosts, which has the names of all hosts. Ctrl-C ends it.\n"
                "Shorter: h1 ip route. From another terminal: weft exec h1 ip route",
                self._one_host,
            ),
            Command(
                "xterm",
                "HOST",
                "a terminal window in a host (needs X)",
                self._xterm,
                complete=self._one_host,
            ),
            self._captures.command(),
        ]

    def close(self) -> None:
        """End what still runs in the background."""
        self._captures.close()

    def _hosts(self, _before: Sequence[str]) -> Iterable[str]:
        return self._shell.hosts()

    def _one_host(self, before: Sequence[str]) -> Iterable[str]:
        return () if before else self._shell.hosts()

    def _host(self, name: str, usage: str) -> LiveHost:
        hosts = {host.name: host for host in self._shell.session.network.live_hosts()}
        return hosts[one_of("host", name, list(hosts), usage)]

    def _pingall(self, rest: str) -> None:
        no_arguments("pingall", rest)
        row = proofs.all_pairs_ping(self._shell.session)
        print(row.result)
        if not row.ok:
            raise TrafficError("not every ping was answered")

    def _iperf(self, rest: str) -> None:
        usage = "iperf [HOST HOST] [SECONDS]"
        words = split(rest)
        seconds = tcp.SECONDS
        if words and words[-1].isdecimal():
            seconds = int(words.pop())
        if not 1 <= seconds <= MAX_SECONDS:
            raise CommandError(f"{usage}, with 1 to {MAX_SECONDS} seconds")
        if len(words) not in (0, 2):
            raise CommandError(f"{usage}, with two hosts or none")
        pair = (self._host(words[0], usage), self._host(words[1], usage)) if words else None
        if pair and pair[0] == pair[1]:
            raise CommandError(f"{usage}, with two hosts that differ")
        row = proofs.tcp_transfer(self._shell.session, seconds=seconds, pair=pair)
        print(f"{row.what}: {row.result}")
        if not row.ok:
            raise TrafficError("the transfer failed")

    def _perf_words(self, before: Sequence[str]) -> Iterable[str]:
        return self._shell.hosts() if before else OPERATIONS

    def _perf(self, rest: str) -> None:
        request = perf.parse(split(rest))
        with console.bar(after_s=perf.PROGRESS_AFTER_S) as draw:
            report = perf_live.in_session(self._shell.session, request, draw)
        perf.show(report)
        if not report.ok and not report.interrupted:
            raise TrafficError("not everything could be measured")

    def _exec(self, rest: str) -> None:
        name, _, command = rest.partition(" ")
        host = self._host(name, "exec HOST COMMAND")
        if not command.strip():
            raise CommandError(f"a command is missing: exec {name} COMMAND")
        run_in(self._shell, host, command)

    def _xterm(self, rest: str) -> None:
        host = self._host(rest, "xterm HOST")
        instead = f"at this prompt: {rest} bash   elsewhere: sudo ip netns exec "
        instead += f"{host.namespace} bash"
        if not os.environ.get("DISPLAY"):
            raise CommandError("there is no X display here ($DISPLAY is not set)", instead)
        if shutil.which("xterm") is None:
            raise CommandError("xterm is not installed", f"apt-get install xterm; or {instead}")
        subprocess.Popen(
            ["xterm", "-T", rest, "-e", *host.command([os.environ.get("SHELL", "/bin/sh")])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **environment(rest)},
        )
