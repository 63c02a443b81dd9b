"""Arguments of `weft dcqcn`."""

from __future__ import annotations

from experiments.perf_request import MTUS
from weft.cli_arguments import Add, add_json


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "dcqcn",
        "weft.dcqcn:run",
        "say where DCQCN's parameter sets rest, and whether they do, by the published fluid model",
        "  weft dcqcn                                     all sets, 2 and 10 flows\n"
        "  weft dcqcn --set hpcc-dcqcn --rate 400Gbps,800Gbps --flows 32 --delay 20us\n"
        "  weft dcqcn --solve                             solve the equations over time, too\n"
        "\nexit codes: 0 done, 2 wrong arguments\n",
    )
    command.add_argument("--set", metavar="NAME", help="one parameter set (default: all)")
    command.add_argument(
        "--rate", default="25Gbps,100Gbps,400Gbps", metavar="R,...",
        help="rates of the link and of the senders (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--flows", default="2,10", metavar="N,...",
        help="how many flows share the link (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--delay", default="4us", metavar="T",
        help="from a mark to the changed rate's arrival at the queue (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--mtu", type=int, choices=MTUS, default=MTUS[-1], metavar="BYTES",
        help="payload of a packet (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--hyper", action="store_true",
        help="with hyper increase, which the published model leaves out",
    )  # fmt: skip
    command.add_argument(
        "--solve", action="store_true",
        help="means over 1 s of the equations' solution, which need not rest (seconds a row)",
    )  # fmt: skip
    add_json(command)
