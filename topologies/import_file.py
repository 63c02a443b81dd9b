"""Third-party topologies as ours: p4lang tutorials' topology.json and p4-utils' p4app.json.

    print(text(Path("pod-topo/topology.json"), Path("net.yaml"), None))

What both leave open is chosen: real time (`time_scale: 1`), links of 1 Gb/s without delay. Nobody
plans routes in such a network; programs and files of entries stay where they are. They are written
for BMv2, so switches have its units.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from topologies.fields import MAX_CPU_PORT, MAX_PORT, NAME
from topologies.loader import loads

RATE = "1Gbps"
QUEUE = "1MB"
_FOLDERS_UP = 3
_FIRST_DEVICE = 0
"""P4Runtime's device ids count from 0 in the tutorials, whose controllers have them in them."""
_TUTORIALS_PORT = re.compile(r"(?P<node>.+)-p(?P<port>[0-9]+)")
_DEFAULT_ROUTE = re.compile(
    r"(?:route add default gw|ip route add default via) ([0-9.]+)(?: dev \S+)?"
)
_STRATEGIES = ("manual", "l2", "mixed", "l3")
_NS_OF = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "": 1_000_000}

Json = Mapping[str, Any]


class ImportFailedError(ValueError):
    """A file that can't be imported: which part of it, and what would be right."""


@dataclass
class _Host:
    name: str
    address: str = ""
    mac: str = ""
    gateway: str = ""
    commands: list[str] = field(default_factory=list)


@dataclass
class _Link:
    a: str
    b: str
    settings: dict[str, str] = field(default_factory=dict)


@dataclass
class _Network:
    hosts: list[_Host]
    switches: dict[str, dict[str, str]]
    links: list[_Link]
    program: str = ""
    static_arp: bool = False
    cpu_port: int | None = None
    first_device: int | None = None


def text(source: Path, out: Path, program: Path | None) -> str:
    """Return the topology file. `out`: where it is to stand, to which its paths are relative.

    `program`: of all switches that the file gives none, where it can't be found beside it. Raises
    ImportFailedError; TopologyError where the file means what no topology can be.
    """
    data = _read(source)
    folder = out.absolute().parent
    network = _p4_utils(source, data) if "topology" in data else _tutorials(source, data)
    usual = program or _usual_program(source, network)
    lines = [
        f"# {source.name} of {source.absolute().parent.name}, imported",
        "time_scale: 1",
        "controller: none",
        "units: bmv2",
    ]
    if network.cpu_port is not None:
        lines.append(f"cpu_port: {network.cpu_port}")
    if usual is not None:
        lines.append(f"program: {_flow(_relative(usual, folder))}")
    if network.static_arp:
        lines.append("arp: static")
    lines.append(f"link: {{rate: {RATE}, delay: 0ns, queue: {QUEUE}}}")
    lines.append("switches:")
    beside = None if program is None else program.absolute().parent
    for i, (name, files) in enumerate(network.switches.items()):
        found: dict[str, Any] = {
            k: _relative(_found(source, v, k, beside), folder) for k, v in files.items()
        }
        if network.first_device is not None:
            found["device_id"] = network.first_device + i
        lines.append(f"  - {_flow({'name': name, **found} if found else name)}")
    lines += ["hosts:", *(f"  - {_flow(_host_entry(each))}" for each in network.hosts)]
    lines += ["links:", *(f"  - {_flow(_link(each))}" for each in network.links)]
    made = "\n".join(lines) + "\n"
    loads(made, file=str(out), name=out.stem)
    return made


def _read(source: Path) -> Json:
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise ImportFailedError(f"{source}: can't be read: {why}") from None
    except json.JSONDecodeError as error:
        raise ImportFailedError(f"{source}:{error.lineno}: not valid JSON: {error.msg}") from None
    inner = data.get("topology", data) if isinstance(data, dict) else None
    if not isinstance(inner, dict) or not {"hosts", "switches", "links"} <= set(inner):
        raise ImportFailedError(
            f"{source}: neither tutorials' topology.json (hosts, switches, links) nor p4-utils' "
            "p4app.json (those under 'topology')"
        )
    return dict(data)


def _named(source: Path, given: Any, kind: str) -> dict[str, Json]:
    """Return nodes by name; a list has names alone."""
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        given = {name: {} for name in given}
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise ImportFailedError(f"{source}: {kind} must be an object of objects, by name")
    for name in given:
        if not NAME.fullmatch(name):
            raise ImportFailedError(
                f"{source}: {kind}: {name!r} can't be a name here: a small letter, then up to 7 "
                "small letters, digits or _"
            )
    return given


def _commands(source: Path, name: str, given: Json) -> list[str]:
    commands = given.get("commands", [])
    if not isinstance(commands, list) or not all(isinstance(each, str) for each in commands):
        raise ImportFailedError(f"{source}: hosts.{name}.commands must be a list of text")
    return [re.sub(r"(?<![\w-])eth0\b", f"{name}-eth0", each) for each in commands]


def _host(source: Path, name: str, given: Json, address: str, mac: str) -> _Host:
    """Return a host. A command that makes the default route says what its gateway is instead."""
    commands = _commands(source, name, given)
    host = _Host(name, address, mac.lower())
    for command in commands:
        match = _DEFAULT_ROUTE.fullmatch(command.strip())
        if match is not None and not host.gateway:
            host.gateway = match[1]
        else:
            host.commands.append(command)
    return host


def _end(source: Path, place: str, node: str, known: Sequence[str]) -> None:
    if node not in known:
        raise ImportFailedError(
            f"{source}: {place}: there is no node {node!r}; available: {', '.join(known)}"
        )


# ---------------------------------------------------------------- p4lang's tutorials


def _tutorials(source: Path, data: Json) -> _Network:
    hosts = _named(source, data["hosts"], "hosts")
    switches = _named(source, data["switches"], "switches")
    made = [
        _host(source, name, given, str(given.get("ip", "")), str(given.get("mac", "")))
        for name, given in hosts.items()
    ]
    links = []
    for i, link in enumerate(_links(source, data["links"])):
        place = f"links[{i}]"
        a, b = (_tutorials_end(source, place, each, hosts, switches) for each in link[:2])
        settings = {}
        if len(link) > 2:
            settings["delay"] = _delay(source, place, link[2])
        if len(link) > 3:
            settings["rate"] = _rate(source, place, link[3])
        links.append(_Link(a, b, settings))
    files = {name: _files(given) for name, given in switches.items()}
    return _Network(
        *(made, files, links), cpu_port=_cpu_port(source, switches), first_device=_FIRST_DEVICE
    )


def _cpu_port(source: Path, switches: Mapping[str, Json]) -> int | None:
    """Return the port by which all switches reach their controller; None where none says one."""
    given = {str(each["cpu_port"]) for each in switches.values() if "cpu_port" in each}
    if not given:
        return None
    if len(given) > 1:
        several = " and ".join(sorted(given))
        raise ImportFailedError(f"{source}: cpu_port: all switches have one here, not {several}")
    (found,) = given
    if not found.isdecimal() or not MAX_PORT < int(found) <= MAX_CPU_PORT:
        raise ImportFailedError(
            f"{source}: cpu_port: {found} must be from {MAX_PORT + 1} to {MAX_CPU_PORT}"
        )
    return int(found)


def _tutorials_end(
    source: Path, place: str, end: Any, hosts: Mapping[str, Json], switches: Mapping[str, Json]
) -> str:
    text = str(end)
    if text in hosts:
        return text
    match = _TUTORIALS_PORT.fullmatch(text)
    if match is None or match["node"] not in switches:
        _end(source, place, text if match is None else match["node"], [*hosts, *switches])
        raise ImportFailedError(f"{source}: {place}: {text!r} needs a port: {text}-p1")
    return f"{match['node']}:{match['port']}"


def _links(source: Path, given: Any) -> Iterator[list[Any]]:
    if not isinstance(given, list):
        raise ImportFailedError(f"{source}: links must be a list")
    for i, link in enumerate(given):
        if not isinstance(link, list) or not 2 <= len(link) <= 4:
            raise ImportFailedError(
                f"{source}: links[{i}]: {link!r} is not a link: [end, end, ...]"
            )
        yield link


def _files(given: Json) -> dict[str, str]:
    """Return a switch's files, by the key of our form."""
    found = {"entries": given.get("runtime_json") or given.get("cli_input")}
    found["program"] = given.get("program") or given.get("p4_src")
    return {key: str(value) for key, value in found.items() if value}


# ---------------------------------------------------------------- p4-utils


def _p4_utils(source: Path, data: Json) -> _Network:
    inner: Json = data["topology"]
    hosts = _named(source, inner["hosts"], "topology.hosts")
    switches = _named(source, inner["switches"], "topology.switches")
    strategy = inner.get("assignment_strategy", "l2")
    if strategy not in _STRATEGIES:
        there = ", ".join(_STRATEGIES)
        raise ImportFailedError(
            f"{source}: topology.assignment_strategy: {strategy!r} is not known; available: {there}"
        )
    ports = dict.fromkeys(switches, 0)
    links = []
    attached: dict[str, str] = {}
    for i, each in enumerate(_links(source, inner["links"])):
        place = f"topology.links[{i}]"
        options = each[2] if len(each) > 2 else {}
        if not isinstance(options, dict):
            raise ImportFailedError(f"{source}: {place}: {options!r} must be an object")
        ends = []
        for side, node in enumerate(map(str, each[:2]), 1):
            _end(source, place, node, [*hosts, *switches])
            if node in switches:
                ports[node] = int(options.get(f"port{side}") or ports[node] + 1)
                if not 1 <= ports[node] <= MAX_PORT:
                    raise ImportFailedError(f"{source}: {place}: a port is from 1 to {MAX_PORT}")
                ends.append(f"{node}:{ports[node]}")
            else:
                attached.setdefault(node, str(each[2 - side]))
                ends.append(node)
        usual = inner.get("default", {})
        settings = {}
        delay, rate = options.get("delay", usual.get("delay")), options.get("bw", usual.get("bw"))
        if delay is not None:
            settings["delay"] = _delay(source, place, delay)
        if rate is not None:
            settings["rate"] = _rate(source, place, rate)
        links.append(_Link(ends[0], ends[1], settings))
    made = []
    numbers = {name: number for number, name in enumerate(switches, 1)}
    for number, (name, given) in enumerate(hosts.items(), 1):
        if name not in attached:
            raise ImportFailedError(f"{source}: topology.hosts.{name} has no link")
        leaf = numbers.get(attached[name], 0)
        address = str(given.get("ip", "")) or _address(source, name, strategy, number, leaf)
        mac = str(given.get("mac", "")) or _mac(address)
        made.append(_host(source, name, given, address, mac))
        if strategy == "l3" and not given.get("ip") and not made[-1].gateway:
            made[-1].gateway = f"{address.rpartition('.')[0]}.1"
    program = data.get("p4_src") or data.get("program") or ""
    static = str(inner.get("auto_arp_tables", "true")).lower() == "true"
    files = {name: _files(given) for name, given in switches.items()}
    return _Network(made, files, links, str(program), static)


def _address(source: Path, host: str, strategy: str, number: int, leaf: int) -> str:
    """Return what p4-utils gives a host; hosts and switches count from 1."""
    match strategy:
        case "l2":
            return f"10.0.{number >> 8}.{number & 0xFF}/16"
        case "mixed":
            return f"10.0.{leaf}.{number}/24"
        case "l3":
            return f"10.{leaf}.{number}.2/24"
        case _:
            raise ImportFailedError(f"{source}: topology.hosts.{host} has no ip: it is manual")


def _mac(address: str) -> str:
    return "00:00:" + ":".join(f"{int(byte):02x}" for byte in address.partition("/")[0].split("."))


# ---------------------------------------------------------------- both


def _delay(source: Path, place: str, given: Any) -> str:
    """Return a delay as we write it; a number without a unit is in milliseconds."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|)", str(given).strip())
    if match is None:
        raise ImportFailedError(f"{source}: {place}: {given!r} is not a delay: 5ms, or 5 for 5 ms")
    return f"{round(float(match[1]) * _NS_OF[match[2]])}ns"


def _rate(source: Path, place: str, given: Any) -> str:
    """Return a rate as we write it; theirs are in Mb/s."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise ImportFailedError(f"{source}: {place}: {given!r} is not a bandwidth in Mb/s")
    return f"{round(given * 1000)}kbps"


def _usual_program(source: Path, network: _Network) -> Path | None:
    if network.program:
        return _found(source, network.program, "p4_src")
    if all("program" in files for files in network.switches.values()):
        return None
    for folder in _folders(source):
        found = sorted(folder.glob("*.p4"))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(path.name for path in found)
            raise ImportFailedError(f"{source}: which program? {folder} has {names}: --p4 FILE")
    raise ImportFailedError(f"{source}: there is no P4 program beside it: --p4 FILE")


def _folders(source: Path) -> Iterator[Path]:
    """Yield the folders to which a file's paths may be relative: its own, then those around it."""
    parents = source.absolute().parents
    yield from parents[:_FOLDERS_UP]


def _found(source: Path, given: str, key: str, beside: Path | None = None) -> Path:
    """Return a file that another one names.

    Of compiled JSON it is the program that this was made of, which is first looked for in `beside`.
    """
    path = Path(given)
    folders = list(_folders(source))
    if key == "program" and path.suffix == ".json":
        path = Path(f"{path.stem}.p4")
        folders = [*([] if beside is None else [beside]), *folders]
    for folder in folders:
        if (folder / path).is_file():
            return folder / path
    raise ImportFailedError(f"{source}: {key}: {given}: no such file there")


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.absolute(), folder)


def _host_entry(host: _Host) -> dict[str, Any]:
    given = {"name": host.name, "address": host.address, "mac": host.mac, "gateway": host.gateway}
    return {key: value for key, value in given.items() if value} | (
        {"commands": host.commands} if host.commands else {}
    )


def _link(link: _Link) -> dict[str, str]:
    return {"a": link.a, "b": link.b, **link.settings}


def _flow(value: Any) -> str:
    """Return a value on one line."""
    dumped = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return dumped.removesuffix("...\n").strip()
