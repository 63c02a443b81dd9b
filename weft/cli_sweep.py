"""Arguments of `weft sweep`."""

from __future__ import annotations

from pathlib import Path

from weft.cli_arguments import Add, add_json


def add_commands(add: Add) -> None:
    """Add the commands; `add` is `weft.cli`'s, with the subparsers given."""
    command = add(
        "sweep",
        "weft.sweep:run",
        "run one run file over many parameters and seeds, and say which are the best",
        "  weft sweep my/sweep.yaml                  a sweep file (docs/sweep.md)\n"
        "  weft sweep two-flows --vary transport.overrides.gain=0.004,0.0625,0.5 --seeds 1,2,3 \\\n"
        "      --maximise goodput --subject-to 'peak_queue <= 2MB'\n"
        "  weft sweep two-flows --vary transport.overrides.rate_ai=10Mbps..10Gbps:log \\\n"
        "      --draw latin-hypercube:40 --maximise jain\n"
        "  weft sweep my/sweep.yaml --scheduler tcp://10.0.0.7:8786      on Dask's workers\n"
        "\nexit codes: 0 done, 1 a run failed, 2 wrong input, 130 interrupted (what was played is "
        "kept)\n",
    )
    command.add_argument(
        "file", nargs="?", metavar="FILE", help="a sweep file, a run file, or a shipped run's name"
    )
    command.add_argument(
        "--vary", action="append", default=[], metavar="PATH=V,...",
        help="values of a parameter, or a range: 1us..1ms:5 (5 values), 1us..1ms:5:log "
        "(may be given again)",
    )  # fmt: skip
    command.add_argument("--seeds", metavar="N,...", help="seeds (default: the run's own)")
    command.add_argument(
        "--draw", metavar="METHOD:N[:SEED]",
        help="draw N points from the ranges: random, or latin-hypercube",
    )  # fmt: skip
    command.add_argument(
        "--metric", action="append", default=[], metavar="NAME",
        help="measure this, such as goodput or peak_queue[s1:3] (default: all)",
    )  # fmt: skip
    goal = command.add_mutually_exclusive_group()
    goal.add_argument("--maximise", metavar="NAME", help="the best point has most of this metric")
    goal.add_argument("--minimise", metavar="NAME", help="the best point has least of this metric")
    command.add_argument(
        "--subject-to", action="append", default=[], metavar="RULE",
        help="what the best point has to keep to, such as 'peak_queue <= 16MB'",
    )  # fmt: skip
    command.add_argument("--until", metavar="T", help="end every run at this virtual time")
    command.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one a processor)"
    )
    command.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="play on the workers of a Dask scheduler, such as tcp://10.0.0.7:8786",
    )  # fmt: skip
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="where results go (default: build/sweep/NAME)"
    )
    command.add_argument(
        "--p4", type=Path, metavar="PROG.p4", help="run another program than p4src/fabric.p4"
    )
    command.add_argument(
        "--list-metrics", action="store_true", help="list the metrics, with their units"
    )
    add_json(command)
    add(
        "setup-dask",
        "weft.sweep:setup_dask",
        "install Dask, which `weft sweep --scheduler` and its workers need",
        "  weft setup-dask\n",
    )
