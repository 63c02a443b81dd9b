"""Commands at the prompt that Mininet's users know: `h1 ping h3`, nodes, net, dump, sh, py.

Their output is Mininet's in form, with what is ours in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.prompt_command import Command, CommandError, Shell, no_arguments

if TYPE_CHECKING:
    from emulation.live_host import LiveHost

_WORD = re.compile(r"(?<!\S)[^\s'\"]+(?!\S)")


def environment(host: str) -> Mapping[str, str]:
    """Return what makes the prompt of a shell in a host say where it is.

    bash takes PS1 from its own files, and runs PROMPT_COMMAND after them; others take PS1.
    """
    return {
        "WEFT_HOST": host,
        "PS1": f"{host}# ",
        "PROMPT_COMMAND": f"PS1='{host}:\\w\\$ '",
    }


def run_in(shell: Shell, host: LiveHost, command: str) -> None:
    """Run a command line in a host, by sh. Raises CommandError where it fails."""
    code = shell.foreground(host.command(["sh", "-c", command]), environment(host.name))
    if code != 0:
        raise CommandError(f"exit code {code}")


def _leave(*_: object) -> None:
    raise CommandError("exit is a command of the prompt: exit")


class NodeCommands:
    """`HOST COMMAND`, and `nodes`, `net`, `dump`, `sh`, `py`."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._session = shell.session
        self._locals: dict[str, Any] = {}

    def commands(self) -> list[Command]:
        """Return the commands, in the order of `help`."""
        return [
            Command("nodes", "", "the names of all hosts and switches", self._nodes),
            Command("net", "", "which interface is joined to which", self._net),
            Command("dump", "", "addresses, interfaces and processes of all nodes", self._dump),
            Command(
                "sh",
                "COMMAND",
                "run a command on this machine, outside of all hosts",
                self._sh,
                "sh ls -l    by sh, with what you may do (you are root here)",
            ),
            Command(
                "py",
                "CODE",
                "Python: hosts by name, session, network, topology, controller",
                self._py,
                "py h1.address        a host: name, address, mac, interface, pid, ...\n"
                "py [l.rate_bps for l in topology.links]\n"
                "py x = h1.popen(['ping', '-c1', h3.address]).wait()\n"
                "Names stay for the next `py`. It is the program's own Python: no sandbox.",
            ),
        ]

    # --- HOST COMMAND ---------------------------------------------------------------------------

    def hosts(self) -> dict[str, LiveHost]:
        """Return the hosts by name."""
        return {host.name: host for host in self._session.network.live_hosts()}

    def in_host(self, name: str, command: str) -> None:
        """Run `h1 COMMAND`: words that are names of hosts (h3, h3:1) become their addresses."""
        if not command:
            raise CommandError(f"a command is missing: {name} COMMAND, such as {name} bash")
        addresses = {each.name: each.address for each in self._session.network.live_interfaces()}
        line = _WORD.sub(lambda found: addresses.get(found[0], found[0]), command)
        run_in(self._shell, self.hosts()[name], line)

    def words(self, _before: Sequence[str]) -> Iterable[str]:
        """Return what may follow in such a line."""
        return self._shell.hosts()

    # --- lists ----------------------------------------------------------------------------------

    def _nodes(self, rest: str) -> None:
        no_arguments("nodes", rest)
        print("available nodes are:")
        print(" ".join([*self._shell.hosts(), *self._shell.switches()]))

    def _net(self, rest: str) -> None:
        no_arguments("net", rest)
        for name in (*self._shell.hosts(), *self._shell.switches()):
            print(" ".join([name, *self._joined(name)]))

    def _joined(self, node: str) -> Iterator[str]:
        network = self._session.network
        for link in self._session.topology.links:
            for here, there in ((link.a, link.b), (link.b, link.a)):
                if here.node == node:
                    near = network.interface_name(here.node, here.port)
                    yield f"{near}:{network.interface_name(there.node, there.port)}"

    def _dump(self, rest: str) -> None:
        no_arguments("dump", rest)
        network = self._session.network
        for name in self._shell.hosts():
            own = [each for each in network.live_interfaces() if each.name.split(":")[0] == name]
            ends = ",".join(f"{each.interface}:{each.address}" for each in own)
            print(f"<Host {name}: {ends} pid={own[0].pid}>")
        for name, switch in network.switches.items():
            ports = self._session.topology.ports_of(name)
            ends = ",".join(network.interface_name(name, port.number) for port in ports)
            at, target = switch.settings.address, switch.settings.target.value
            pid = "gone" if switch.process is None else switch.process.pid
            print(f"<Switch {name}: {target} {at} {ends} pid={pid}>")

    # --- this machine ---------------------------------------------------------------------------

    def _sh(self, rest: str) -> None:
        if not rest:
            raise CommandError("a command is missing: sh COMMAND, such as sh ls")
        code = self._shell.foreground(["sh", "-c", rest])
        if code != 0:
            raise CommandError(f"exit code {code}")

    def _py(self, rest: str) -> None:
        if not rest:
            raise CommandError("code is missing: py CODE, such as py h1.address")
        session = self._session
        known = {
            **self._locals,
            "session": session,
            "network": session.network,
            "net": session.network,
            "topology": session.topology,
            "controller": session.controller,
            **self.hosts(),
            "exit": _leave,  # Python's own closes the input that the prompt reads
            "quit": _leave,
        }
        try:
            try:
                found = eval(compile(rest, "<py>", "eval"), known)
                if found is not None:
                    print(repr(found))
            except SyntaxError:
                exec(compile(rest, "<py>", "exec"), known)
        except CommandError:
            raise
        except (Exception, SystemExit) as error:
            raise CommandError(f"{type(error).__name__}: {error}") from None
        self._locals = known
