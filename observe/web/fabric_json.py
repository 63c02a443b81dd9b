"""What the page gets once about a fabric: its drawing, and what the numbers hold for."""

from __future__ import annotations

from typing import Any

from emulation.fabric_record import FabricRecord
from mechanisms.registry import counters
from observe.web.layout import SLOT_HEIGHT, Layout, layout
from topologies import Endpoint
from topologies.units import format_duration, format_rate

Json = dict[str, Any]


def fabric_json(record: FabricRecord) -> Json:
    """Return the drawing and the facts of a fabric. Rates in fabric time, delays as text."""
    topology = record.topology
    drawing = layout(topology)
    return {
        "run": record.run,
        "topology": topology.name,
        "description": topology.description,
        "runtime": record.runtime,
        "time_scale": topology.time_scale,
        "counters": [{"key": each.key, "title": each.title} for each in counters(topology)],
        "width": round(drawing.width),
        "height": round(drawing.height),
        "slot": {"width": drawing.slot_width, "height": SLOT_HEIGHT},
        "bands": [vars(band) for band in drawing.bands],
        "nodes": [
            {**vars(node), "about": _about(record, node.name)} for node in drawing.nodes.values()
        ],
        "ports": [_port(record, drawing, end) for end in drawing.slots],
        "links": [
            {
                "a": str(link.a),
                "b": str(link.b),
                "rate_bps": link.rate_bps,
                "rate": format_rate(link.rate_bps),
                "delay": format_duration(link.delay_ps),
                "paths": [half.path() for half in curve.halves()],
            }
            for link, curve in drawing.links
        ],
    }


def _about(record: FabricRecord, name: str) -> str:
    topology = record.topology
    if topology.is_switch(name):
        switch = topology.switch(name)
        return f"{switch.role.value} switch, P4Runtime {record.addresses[name]}"
    return ", ".join(str(part.address) for part in topology.host(name).interfaces)


def _port(record: FabricRecord, drawing: Layout, end: Endpoint) -> Json:
    slot = drawing.slots[end]
    return {
        "node": end.node,
        "port": end.port,
        "name": str(end),
        "peer": str(record.topology.link_at(end.node, end.port).other(end)),
        "is_switch": record.topology.is_switch(end.node),
        "side": slot.side.value,
        "x": round(slot.x, 1),
        "y": round(slot.y, 1),
    }
