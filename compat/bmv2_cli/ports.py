"""`weft cli`'s commands on ports, queues and clocks, which go over our side channel."""

from __future__ import annotations

from compat.bmv2_cli.replication import ReplicationCommands
from compat.bmv2_cli.shell import command
from compat.bmv2_cli.values import CommandError, whole


class PortCommands(ReplicationCommands):
    """Ports, their queues, and the clock."""

    @command(0, kind="device manager")
    def do_show_ports(self, _words: list[str]) -> None:
        """List the switch's ports: show_ports"""
        ports = self.diagnostics.port_stats()
        self.say(f"{'port #':^10}{'iface name':^20}{'status':^10}extra info")
        self.say("=" * 50)
        for port, row in sorted(ports.items()):
            status = "DOWN" if row["state"] == "down" else "UP"
            self.say(f"{port:^10}{row['interface']:^20}{status:^10}")

    @command(least=2, kind="device manager")
    def do_port_add(self, words: list[str]) -> None:
        """Add a port: port_add <interface> <port> [file for its packets]"""
        port = whole(words[1], "port_num, must be an integer")
        pcap = words[2] if len(words) > 2 else None
        self.diagnostics.add_port(port, words[0], pcap)

    @command(1, kind="device manager")
    def do_port_remove(self, words: list[str]) -> None:
        """Remove a port: port_remove <port>"""
        self.diagnostics.remove_port(whole(words[0], "port_num, must be an integer"))

    @command(least=1, kind="queue")
    def do_set_queue_rate(self, words: list[str]) -> None:
        """Limit queues: set_queue_rate <packets per second> [<egress port> [<priority>]]"""
        self._set_queues("rate_pps", whole(words[0], "rate_pps, expected integer"), words[1:])

    @command(least=1, kind="queue")
    def do_set_queue_depth(self, words: list[str]) -> None:
        """Set how many packets queues hold (0: none, all are dropped):

        set_queue_depth <packets> [<egress port> [<priority>]]
        """
        from softswitch.core import CLOSED_QUEUE  # most sessions need not wait for the core

        depth = whole(words[0], "nb_pkts, expected integer")
        self._set_queues("queue_packets", depth or CLOSED_QUEUE, words[1:])

    @command(0, kind="clock")
    def do_get_time_elapsed(self, _words: list[str]) -> None:
        """Show the switch's clock, microseconds since it began: get_time_elapsed"""
        self.say(self.diagnostics.switch_stats()["now_ps"] // 1_000_000)

    @command(0, kind="clock")
    def do_get_time_since_epoch(self, _words: list[str]) -> None:
        """Show its machine's clock, microseconds since 1970: get_time_since_epoch"""
        self.say(self.diagnostics.switch_stats()["epoch_us"])

    def _set_queues(self, setting: str, value: int, words: list[str]) -> None:
        if value < 0:
            raise CommandError(f"Bad format for {setting}: it is not negative")
        there = sorted(self.diagnostics.port_stats())
        ports = [whole(words[0], "egress_port, expected integer")] if words else there
        change = {setting: value}
        if len(words) > 1 and ports[0] in there:
            queue = whole(words[1], "priority, expected integer")
            queues = self.diagnostics.queue(ports[0])["priorities"]
            if queue not in range(queues):
                raise CommandError(f"port {ports[0]} has no queue {queue}: 0 to {queues - 1}")
            if queues > 1:
                change["queue"] = queue
        for port in ports:
            if port in there:  # BMv2 has queues for ports that it does not have
                self.diagnostics.call("SetLink", port=port, **change)
            else:
                self.note(f"  there is no port {port}")
