"""The command `capture` at the prompt: packets of one interface, decoded or into a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from emulation import capture
from emulation.capture import Capture
from weft.prompt_command import Command, CommandError, Shell, split

_USAGE = "capture INTERFACE [FILE|COUNT] [FILTER]"
_MORE = """\
capture s1-2                  print what passes port 2 of s1, until Ctrl-C
capture s1-2 10 icmp          print ten packets that tcpdump's filter lets through
capture s1-2 roce.pcap        write a file for Wireshark or tshark, in the background
capture s1-2 roce.pcap udp dst port 4791
capture s1-2 stop             end it (exit ends all)
capture                       what is being captured
Ports are called s1-2 or s1-eth2; hosts' interfaces h1-eth0, or the host's name for the first.
Both directions are captured, as the port sends and receives them."""


class Captures:
    """Captures that run in the background, by the name of the interface."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._running: dict[str, Capture] = {}

    def command(self) -> Command:
        """Return the command."""
        return Command(
            "capture",
            "[INTERFACE [FILE|COUNT|stop] [FILTER]]",
            "packets of a port or host interface: decoded, or into a pcap file",
            self._capture,
            _MORE,
            self._complete,
        )

    def close(self) -> None:
        """End all captures."""
        for name in list(self._running):
            self._stop(name)

    def _complete(self, before: Sequence[str]) -> Iterable[str]:
        if not before:
            return capture.names(self._shell.session.topology)
        return ["stop"] if len(before) == 1 else ()

    def _capture(self, rest: str) -> None:
        words = split(rest)
        if not words:
            self._list()
            return
        topology, network = self._shell.session.topology, self._shell.session.network
        try:
            interface, namespace = capture.find_interface(topology, network, words[0])
        except KeyError:
            known = capture.names(topology)
            shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
            raise CommandError(f"no interface {words[0]!r}: {_USAGE}, e.g. {shown}") from None
        what, packet_filter = (words[1] if len(words) > 1 else ""), words[2:]
        if what == "stop":
            if interface not in self._running:
                raise CommandError(f"nothing is captured on {words[0]}")
            self._stop(interface)
        elif what and not what.isdecimal():
            if "." not in what and "/" not in what:
                raise CommandError(f"{what!r} is not a file name (say {what}.pcap): {_USAGE}")
            self._start(words[0], interface, namespace, Path(what).absolute(), packet_filter)
        else:
            self._print(interface, namespace, what, packet_filter)

    def _list(self) -> None:
        for running in self._running.values():
            state = "" if running.is_running else " (tcpdump has ended)"
            print(f"{running.label} -> {running.path}{state}")
        if not self._running:
            print("nothing is captured; help capture shows how")

    def _start(
        self,
        label: str,
        interface: str,
        namespace: str | None,
        path: Path,
        packet_filter: Sequence[str],
    ) -> None:
        if interface in self._running:
            raise CommandError(
                f"{label} is captured already, to {self._running[interface].path}",
                f"capture {label} stop",
            )
        if not path.parent.is_dir():
            raise CommandError(f"there is no folder {path.parent}")
        options = ["-U", "-w", str(path)]
        arguments = capture.command(interface, namespace, options, packet_filter)
        running = Capture.start(label, path, arguments)
        self._running[interface] = running
        print(f"capturing {label} ({interface}) to {path}; capture {label} stop ends it")

    def _stop(self, name: str) -> None:
        running = self._running.pop(name)
        print(f"{running.label}: {running.stop()} in {running.path}")

    def _print(
        self, interface: str, namespace: str | None, count: str, packet_filter: Sequence[str]
    ) -> None:
        if not count and not self._shell.is_terminal:
            raise CommandError("from a pipe a number is needed: capture INTERFACE COUNT")
        options = ["-l", "-e"] + (["-c", count] if count else [])
        arguments = capture.command(interface, namespace, options, packet_filter)
        code = self._shell.foreground(arguments)
        if code != 0:
            raise CommandError(f"tcpdump ended with exit code {code}")
