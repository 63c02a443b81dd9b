"""`weft cli`'s commands on ports, queues and the switch, which go over our side channel."""

from __future__ import annotations

from weft.switch_cli_replication import ReplicationCommands
from weft.switch_cli_shell import command
from weft.switch_cli_values import CommandError, whole


class PortCommands(ReplicationCommands):
    """Ports, their queues, and the clock."""

    @command(0)
    def do_show_ports(self, _words: list[str]) -> None:
        """List the switch's ports: show_ports"""
        ports = self.diagnostics.port_stats()
        self.say(f"{'port #':^10}{'iface name':^20}{'status':^10}extra info")
        self.say("=" * 50)
        for port, row in sorted(ports.items()):
            status = "DOWN" if row["state"] == "down" else "UP"
            self.say(f"{port:^10}{row['interface']:^20}{status:^10}")

    @command(least=2)
    def do_port_add(self, words: list[str]) -> None:
        """Add a port: port_add <interface> <port> [file for its packets]"""
        port = whole(words[1], "port_num")
        pcap = words[2] if len(words) > 2 else None
        self.diagnostics.add_port(port, words[0], pcap)

    @command(1)
    def do_port_remove(self, words: list[str]) -> None:
        """Remove a port: port_remove <port>"""
        self.diagnostics.remove_port(whole(words[0], "port_num"))

    @command(least=1)
    def do_set_queue_rate(self, words: list[str]) -> None:
        """Limit queues: set_queue_rate <packets per second> [<egress port> [<priority>]]"""
        self._set_queues("rate_pps", whole(words[0], "rate_pps"), words[1:])

    @command(least=1)
    def do_set_queue_depth(self, words: list[str]) -> None:
        """Set how many packets queues hold:

        set_queue_depth <packets> [<egress port> [<priority>]]
        """
        self._set_queues("queue_packets", whole(words[0], "nb_pkts"), words[1:])

    @command(0)
    def do_get_time_elapsed(self, _words: list[str]) -> None:
        """Show the switch's clock in microseconds: get_time_elapsed"""
        self.say(self.diagnostics.switch_stats()["now_ps"] // 1_000_000)

    def _set_queues(self, setting: str, value: int, words: list[str]) -> None:
        if value < 0:
            raise CommandError(f"Bad format for {setting}: it is not negative")
        ports = [whole(words[0], "egress_port")] if words else sorted(self.diagnostics.port_stats())
        if len(words) > 1:
            whole(words[1], "priority")
            priorities = self.diagnostics.queue(ports[0])["priorities"]
            if priorities > 1:
                raise CommandError(
                    f"the {priorities} queues of a port have one {setting}: leave the priority away"
                )
        for port in ports:
            self.diagnostics.call("SetLink", port=port, **{setting: value})
