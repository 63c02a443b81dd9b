"""`weft topo show`: a topology in the terminal, as a picture or as data."""

from __future__ import annotations

import json
from pathlib import Path

import topologies
from observe.errors import UsageError
from topologies import Topology
from topologies.ecn import CERTAIN, EcnMarking, EcnThresholds
from topologies.planes import planes_of
from topologies.units import format_duration, format_rate, format_size
from weft import console
from weft.topo_text import print_drawing

_UNITS = ("_bps", "_ps", "_bytes")
MAX_TABLE_LINKS = 100  # beyond, tables are printed only when asked for


def show(name: str, png: Path | None, svg: Path | None, *, tables: bool, as_json: bool) -> int:
    """Do `topo show`; return the exit code. Raises TopologyError, UsageError."""
    pictures = [path for path in (png, svg) if path is not None]
    for path, ending in ((png, ".png"), (svg, ".svg")):
        if path is not None and path.suffix != ending:
            raise UsageError(f"{path}: name the file with its ending, as {path.stem}{ending}")
    topology = topologies.load(name)
    if pictures:
        _draw(topology, pictures)
    if as_json:
        print(json.dumps(_data(topology)))
    elif not pictures:
        print_drawing(topology)
        if tables or len(topology.links) <= MAX_TABLE_LINKS:
            _print_tables(topology)
        else:
            print("--tables lists every switch, host and link")
    return 0


def _draw(topology: Topology, pictures: list[Path]) -> None:
    from weft.topo_figure import draw  # matplotlib, which only pictures need

    draw(topology, pictures)
    for path in pictures:
        console.notice(f"{topology.name} is drawn in {path}")


def _parts(topology: Topology) -> dict[str, list[dict[str, object]]]:
    """Return the rows of the tables, numbers as numbers. What has a unit is text and a number.

    `_UNITS` has the keys of the numbers, which say their unit and which only programs read.
    """
    links: list[dict[str, object]] = [
        {
            "a": str(link.a),
            "b": str(link.b),
            "rate": format_rate(link.rate_bps),
            "rate_bps": link.rate_bps,
            "delay": format_duration(link.delay_ps),
            "delay_ps": link.delay_ps,
            "queue": format_size(link.queue_bytes),
            "queue_bytes": link.queue_bytes,
            "mtu": link.mtu_bytes,
            "mtu_bytes": link.mtu_bytes,
        }
        for link in topology.links
    ]
    hosts: list[dict[str, object]] = [
        {
            "name": str(part.end),
            "address": str(part.address),
            "mac": part.mac,
            "gateway": str(part.gateway),
            "switch": f"{part.switch}:{part.port}",
        }
        for part in topology.interfaces()
    ]
    planes = planes_of(topology).names
    switches: list[dict[str, object]] = [
        {
            "name": switch.name,
            "role": switch.role.value,
            "group": switch.group,
            "plane": planes.get(switch.name, ""),
            "device_id": switch.device_id,
            "mac": switch.mac,
            "ports": len(topology.ports_of(switch.name)),
        }
        for switch in topology.switches
    ]
    classes: list[dict[str, object]] = [
        {
            "name": each.name,
            "dscp": list(each.dscps),
            "queue": each.queue,
            "weight": each.weight,
            "lossless": each.lossless,
            "ecn": _marking(each.setting("ecn")),
        }
        for each in topology.classes
    ]
    return {"switches": switches, "hosts": hosts, "links": links, "classes": classes}


def _marking(ecn: EcnMarking | None) -> str:
    """Say when a class is marked: a step, a ramp, or what a parameter set says."""
    if not isinstance(ecn, EcnThresholds):
        return "" if ecn is None else ecn.set_name or ""
    if ecn.min_bytes == ecn.max_bytes:
        return f"above {format_size(ecn.min_bytes)}"
    low, high = format_size(ecn.min_bytes), format_size(ecn.max_bytes)
    return f"{low} to {high}, up to {100 * ecn.probability / CERTAIN:.3g}%"


def _data(topology: Topology) -> dict[str, object]:
    return {"name": topology.name, "time_scale": topology.time_scale, **_parts(topology)}


def _print_tables(topology: Topology) -> None:
    for title, rows in _parts(topology).items():
        if rows:
            texts = [
                {key: _text(value) for key, value in row.items() if not key.endswith(_UNITS)}
                for row in rows
            ]
            columns = [key for key in texts[0] if any(row[key] for row in texts)]
            console.table(columns, [[row[key] for key in columns] for row in texts], title=title)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(str(each) for each in value)
        case _:
            return str(value)
