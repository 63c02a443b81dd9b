"""Arguments of `weft sim`."""

from __future__ import annotations

from pathlib import Path

from weft.cli_arguments import Add


def add_commands(add: Add) -> None:
    """Add the command; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "sim",
        "weft.sim:run",
        "run a topology with its traffic in virtual time",
        "  weft sim incast-32                        a run that comes with Weft\n"
        "  weft sim my/run.yaml --out results        then: weft plot results\n"
        "  weft sim websearch --seed 7 --until 500us --json\n"
        "  weft sim incast-32 --pcap s1:1            what the receiver's port carries\n",
    )
    command.add_argument(
        "file", nargs="?", metavar="FILE", help="a run file, or the name of a shipped one"
    )
    command.add_argument("--list", action="store_true", help="list the runs that come with Weft")
    command.add_argument(
        "--seed", type=int, metavar="N", help="of what is random (default: the file's)"
    )
    command.add_argument(
        "--until", metavar="T", help="end at this virtual time, such as 20ms (default: the file's)"
    )
    command.add_argument(
        "--out", type=Path, metavar="DIR",
        help="where results go (default: build/sim/NAME)",
    )  # fmt: skip
    command.add_argument(
        "--pcap", action="append", default=[], metavar="NODE:PORT",
        help="capture a port, such as s1:2 or h3, beside DIR (may be given again)",
    )  # fmt: skip
    command.add_argument(
        "--time-scale", type=int, default=1, metavar="N",
        help="slow links down as real time does; traffic keeps its times (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--p4", type=Path, metavar="PROG.p4", help="run another program than p4src/fabric.p4"
    )
    command.add_argument("--json", action="store_true", help="print the summary as JSON")
