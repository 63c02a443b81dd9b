"""Arguments of `weft perf`."""

from __future__ import annotations

import argparse

from experiments.perf_request import MTUS, OPERATIONS, RETRANSMISSIONS
from weft.cli_arguments import Add, add_json


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "perf",
        "weft.perf:run",
        "measure bandwidth and latency of RDMA between hosts, with perftest's columns",
        "  sudo weft perf write h1 h3             in the fabric that is up (make run-topo CLI=1)\n"
        "  sudo weft perf send -s 4096 -n 500 -q 4 h1 h3\n"
        "  sudo weft perf write h1,h2 h3 --bw --duration 5s    two share a link; Jain's index\n"
        "  weft perf read h1 h3 -a --sim leafspine    in virtual time, all sizes, no root\n"
        "  weft perf write h1 h3 --sim leafspine --set none --json\n"
        "\nexit codes: 0 measured, 1 something failed, 2 wrong arguments, 130 interrupted\n",
    )
    add_arguments(command)
    command.add_argument(
        "--sim", metavar="TOPOLOGY",
        help="in the simulator: a name that `weft topo list` shows, or a YAML file",
    )  # fmt: skip
    add_json(command)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add what the command and the prompt's `perf` have in common."""
    command.add_argument("operation", choices=OPERATIONS, help="what SRC posts")
    command.add_argument(
        "source", metavar="SRC",
        help="who posts: a host, HOST:INTERFACE, or several at once: h1,h2",
    )  # fmt: skip
    command.add_argument("target", metavar="DST", help="a host, or HOST:INTERFACE")
    command.add_argument(
        "-s", dest="size", metavar="SIZE",
        help="bytes of a message, 1 to 8388608, or 64kB (default: 65536, for latency 2)",
    )  # fmt: skip
    command.add_argument("-a", dest="all", action="store_true", help="all sizes, 2 B to 8 MB")
    command.add_argument(
        "-n", dest="count", type=int, metavar="COUNT",
        help="messages on each queue pair (default: 1000, in real time those that fit 2 s)",
    )  # fmt: skip
    command.add_argument(
        "-q", dest="qps", type=int, default=1, metavar="QPS",
        help="queue pairs of each source, for bandwidth (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--depth", type=int, metavar="N",
        help="messages outstanding on a queue pair (default: 128, in real time at most a second's)",
    )  # fmt: skip
    command.add_argument(
        "--mtu", type=int, choices=MTUS, metavar="BYTES",
        help="payload of a packet: 256 to 4096 (default: the largest that the links allow)",
    )  # fmt: skip
    command.add_argument(
        "--congestion", metavar="NAME", dest="control",
        help="what lowers rates: a run file's congestion_control, or none (default: the first)",
    )  # fmt: skip
    command.add_argument(
        "--set", metavar="NAME",
        help="the parameter set of what lowers rates, or none",
    )  # fmt: skip
    command.add_argument(
        "--retransmission", choices=RETRANSMISSIONS, default=RETRANSMISSIONS[0],
        help="what is sent again after a loss (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--duration", metavar="T",
        help="measure for so long, such as 5s (virtual time with --sim), in place of -n",
    )  # fmt: skip
    command.add_argument("--bw", action="store_true", help="bandwidth only")
    command.add_argument("--lat", action="store_true", help="latency only")
