"""`weft topo`: topology files listed, checked and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import yaml

import topologies
from mechanisms.registry import remarks
from observe.errors import UsageError
from topologies import TopologyError, import_file, lingjun, new_file
from topologies.lint.findings import Finding, Severity
from topologies.lint.topology import LintReport, lint
from topologies.loader import load_source
from weft import console
from weft.command_line import argument, as_json, command, flag, option, write_new
from weft.topo_show import show


@command("""
    examples:
      weft topo list
      weft topo check my/net.yaml           errors and warnings, and how to fix them
      weft topo check my/net.yaml --strict  warnings fail too
      weft topo show rail                   in the terminal
      weft topo show rail --png rail.png --svg rail.svg
      weft topo new fat_tree --set k=8 --set link.rate=100Gbps --out my/tree.yaml
      weft topo import pod-topo/topology.json --p4 solution/basic.p4 --out net.yaml
      weft topo import p4app.json --out net.yaml
      weft topo import topo.csv --set spines=8 --set nics=4 --out net.yaml
    """)
@argument(
    "action", type=click.Choice(["check", "show", "list", "new", "import"]), help="the action"
)
@argument("topo", required=False, help="a name or a YAML file; new: the generator; import: "
          "p4lang tutorials' topology.json, p4-utils' p4app.json, Lingjun's topo.csv")  # fmt: skip
@flag("--strict", help="check: warnings fail too")
@option("--png", type=Path, metavar="FILE", help="show: draw it into FILE.png")
@option("--svg", type=Path, metavar="FILE", help="show: draw it into FILE.svg")
@flag("--tables", help="show: list every node and link of a large one too")
@option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="new: a key of the file; import of topo.csv: spines, cores, nics, rate",
)
@option("--p4", "program", type=Path, metavar="PROG.p4",
        help="import: the program of switches for which the file names none")  # fmt: skip
@option("--out", type=Path, metavar="FILE",
        help="new, import: the file to write (default: print it)")  # fmt: skip
@as_json
def run(
    action: str, topo: str | None, strict: bool, png: Path | None, svg: Path | None, tables: bool,
    settings: tuple[str, ...], program: Path | None, out: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Find what is wrong with a topology, draw it, list those that come with Weft, begin one.

    Returns the exit code. Raises TopologyError, UsageError.
    """
    if action == "list":
        return _list(as_json=as_json)
    if topo is None:
        what = {"new": "generator", "import": "topology.json, p4app.json or topo.csv"}
        raise UsageError(
            f"topo {action}: say which {what.get(action, 'topology, a name or a YAML file')}"
        )
    if action == "new":
        return _new(topo, settings, out, as_json=as_json)
    if action == "import":
        return _import(Path(topo), program, settings, out, as_json=as_json)
    if action == "check":
        return _check(topo, as_json=as_json, strict=strict)
    return show(topo, png, svg, tables=tables, as_json=as_json)


def _list(*, as_json: bool) -> int:
    about = {name: topologies.load(name).description for name in topologies.available()}
    if as_json:
        print(json.dumps(list(about)))
        return 0
    width = max(len(name) for name in about)
    for name, description in about.items():
        print(f"{name:{width}}  {description}".rstrip())
    return 0


def _new(generator: str, settings: tuple[str, ...], out: Path | None, *, as_json: bool) -> int:
    """Write a topology file, or nothing at all."""
    given = _given(settings)
    try:
        text = new_file.text(generator, given)
    except ValueError as error:
        raise UsageError(f"topo new: {error}") from None
    return _written(text, out, as_json=as_json)


def _given(settings: tuple[str, ...]) -> dict[str, Any]:
    """Return what --set gave, by key. Raises UsageError."""
    given = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(f"--set {setting}: as in --set k=8 or --set link.rate=100Gbps")
        try:
            given[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UsageError(f"--set {setting}: {value!r} is not a value in YAML") from None
    return given


def _import(
    source: Path, program: Path | None, settings: tuple[str, ...], out: Path | None, *,
    as_json: bool,
) -> int:  # fmt: skip
    """Write another tool's topology as a file of ours, or nothing at all."""
    if program is not None and not program.is_file():
        raise UsageError(f"--p4 {program}: no such file")
    is_csv = source.suffix == ".csv"
    if is_csv and program is not None:
        raise UsageError("--p4: a fabric of topo.csv runs p4src/fabric.p4")
    if settings and not is_csv:
        raise UsageError("--set: for topo.csv, and for topo new")
    place = out or Path("net.yaml")
    try:
        if is_csv:
            text = lingjun.text(source, place, lingjun.Sizes.of(_given(settings)))
        else:
            text = import_file.text(source, place, program)
    except ValueError as error:
        raise UsageError(f"topo import: {error}") from None
    return _written(text, out, as_json=as_json)


def _written(text: str, out: Path | None, *, as_json: bool) -> int:
    """Write a new topology file, or print it."""
    if out is not None:
        write_new(out, text)
    if as_json:
        print(json.dumps({"file": None if out is None else str(out), "text": text}))
    elif out is None:
        print(text, end="")
    return 0


def _check(name: str, *, as_json: bool, strict: bool) -> int:
    """Lint a topology. One that can't be loaded is an error at each of its mistakes."""
    try:
        source = load_source(name)
    except TopologyError as error:
        if not as_json:
            raise
        findings = [_as_json(Finding.of(problem)) for problem in error.problems]
        print(json.dumps({"good": False, "findings": findings}))
        return 1
    topology, report = source.topology, lint(source, remarks(source.topology))
    good = report.is_good(strict=strict)
    about = {
        "switches": len(topology.switches),
        "hosts": len(topology.hosts),
        "links": len(topology.links),
        "time_scale": topology.time_scale,
    }
    if as_json:
        shown = {
            "name": topology.name,
            **about,
            "good": good,
            "oversubscription": {tier.role.value: float(tier.ratio) for tier in report.tiers},
            "findings": [_as_json(finding) for finding in report.findings],
        }
        print(json.dumps(shown))
        return 0 if good else 1
    for finding in report.findings:
        _print_finding(finding)
    counts = ", ".join(f"{key} {value}" for key, value in about.items())
    print(f"{topology.name}: {_verdict(report, good=good)} ({counts})")
    if report.tiers:
        print(f"oversubscription: {', '.join(str(tier) for tier in report.tiers)}")
    return 0 if good else 1


def _print_finding(finding: Finding) -> None:
    print(f"{finding.file}:{finding.line}:{finding.column}: ", end="")
    print(f"{console.severity(finding.severity.value)}: {finding.message}")
    if finding.right:
        print(f"    {finding.right}")


def _verdict(report: LintReport, *, good: bool) -> str:
    counts = [
        f"{count} {severity.value}{'s' if count != 1 else ''}"
        for severity in (Severity.ERROR, Severity.WARNING)
        if (count := report.count(severity))
    ]
    return " and ".join(counts) + (", good enough to run" if good else "") if counts else "good"


def _as_json(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity.value,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "right": finding.right,
    }
