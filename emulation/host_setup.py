"""What hosts are given beyond their addresses: neighbours that stay, and the user's commands."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from emulation.live_host import LiveHost
from topologies import Host, Topology

COMMAND_PATIENCE_S = 60.0
_LINES_SHOWN = 5


def static_neighbours(topology: Topology, host: Host, names: list[str]) -> Iterator[str]:
    """Yield `ip` commands by which a host knows the MACs of everybody in its networks.

    `names`: its interfaces'. A gateway has the MAC of its switch.
    """
    for part, name in zip(host.interfaces, names, strict=True):
        known = {part.gateway: topology.switch(part.switch).mac}
        network = part.address.network
        known |= {
            other.address.ip: other.mac
            for other in topology.interfaces()
            if other.address.ip in network and other.host != host.name
        }
        for address, mac in known.items():
            yield f"neigh replace {address} lladdr {mac} nud permanent dev {name}"


def run_commands(host: LiveHost, commands: tuple[str, ...], log: Path) -> list[str]:
    """Run a host's commands in its namespace, one after the other, with their output in `log`.

    One that ends with `&` goes on until the run ends. Returns a line for each that failed: the next
    ones are tried, as authors of such lists for Mininet do.
    """
    failures = []
    for command in commands:
        start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            # A file, not a pipe: what goes on in the background would keep that open.
            process = subprocess.Popen(
                host.command(["sh", "-c", command]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            code = process.wait(COMMAND_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            failures.append(
                f"{host.name}: `{command}` was ended after {COMMAND_PATIENCE_S:g} s; with & at its "
                "end it goes on in the background"
            )
            continue
        if code != 0:
            said = log.read_bytes()[start:].decode(errors="replace").splitlines()[-_LINES_SHOWN:]
            why = f": {'; '.join(said)}" if said else ""
            failures.append(f"{host.name}: `{command}` ended with exit code {code}{why}")
    return failures
