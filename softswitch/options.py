"""The daemon's command line: simple_switch_grpc's, and our own options after `--`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from softswitch.link_options import Link, duration, parse_link
from softswitch.ticker_options import (
    TICKER_PORT,
    TickerOption,
    parse_port_report,
    parse_ticker,
)

MAX_PORT = 511
"""Ports are v1model's 9 bits."""

IGNORED = {
    "nanolog": "--nanolog: there are no nanomsg logs",
    "notifications_addr": "--notifications-addr: there are no nanomsg notifications",
    "debugger": "--debugger: there is no debugger",
    "debugger_addr": "--debugger-addr: there is no debugger",
    "restore_state": "--restore-state: state can't be restored",
    "dump_packet_data": "--dump-packet-data: use --pcap to see packets",
    "max_port_count": "--max-port-count: ports are not limited",
    "log_file_max_size": "--log-file-max-size: the log is not rotated",
    "log_file_max_files": "--log-file-max-files: the log is not rotated",
}
"""simple_switch_grpc's options that are accepted and have no effect, and what to say."""

IGNORED_TARGET = {
    "disable_swap": "--disable-swap: the pipeline is only ever swapped through P4Runtime",
    "max_mc_groups": "--max-mc-groups: multicast groups are not limited",
    "max_l1_entries": "--max-l1-entries: multicast entries are not limited",
    "max_l2_entries": "--max-l2-entries: multicast entries are not limited",
}

REFUSED = {
    "use_files": "attach interfaces with -i",
    "packet_in": "there are no nanomsg packets; attach interfaces with -i",
    "load_modules": "C++ modules can't be loaded",
}
"""BMv2's options without which the program could not do what was asked, and what would be right."""

BMV2_VERSION = "1.15.5"
"""The version of BMv2 that this switch follows; scripts compare it."""

JSON_VERSION = "2.24"
"""The newest BMv2 JSON format that is read."""

LEVELS = ("trace", "debug", "info", "warn", "error", "off")

_EXAMPLES = """\
examples:
  softswitch --no-p4 -i 1@veth1 -i 2@veth3 -- --grpc-server-addr 127.0.0.1:9559 --cpu-port 255
  softswitch l3.json --p4info l3.p4info.txtpb -i 1@veth1 -i 2@veth3 --log-file s1.log
  softswitch --no-p4 -i 1@veth1 -- --link 1:rate=10Mbit,delay=5us,queue=100

options after `--` (target options):
  --grpc-server-addr HOST:PORT  where P4Runtime listens (default 127.0.0.1:9559; this machine only);
                                unix:PATH for a socket in the file system
  --grpc-server-ssl             P4Runtime over TLS; needs --grpc-server-cert FILE and
                                --grpc-server-key FILE (PEM)
  --grpc-server-with-client-auth   clients must have a certificate that --grpc-server-cacert FILE
                                has signed
  --cpu-port PORT               the controller's port; without it there is no packet-in or -out
  --drop-port PORT              the port that drops (default 511)
  --priority-queues N           queues a port, 1..8 (default 1); a higher number is served first
  --tick us|ns                  unit of P4 timestamps (default us, as BMv2)
  --depth-unit packets|cells    unit of queue depths (default packets, as BMv2; cells of 256 B)
  --recirculation TIME          how long a packet takes that enters again (default 1us)
  --link PORT:KEY=VALUE,...     emulate the port's link: rate=10Gbit, delay=5us (what it sends),
                                rx-delay=5us (what it receives), queue=64 (packets), 64KB, 64cells,
                                weights=0:1/3:4 (queues that share; the others are strict),
                                loss=1%, burst=1%/20%, bit-errors=1e-9, corrupt=1%, duplicate=1%,
                                reorder=1%/10us, jitter=5us, flow=src:10.0.1.1+proto:udp+dport:4791
                                (each also as rx-loss=...: on what it receives), seed=7
  --ticker period=TIME,packet=HEX[,start=TIME]   a packet comes in by port 509 at start + k * period
                                of the switch's clock; repeatable
  --port-report packet=HEX      when a port goes down or up, this packet comes in by port 509; its
                                last four bytes say which port, and 1 (up) or 0 (down), 16 bits each
  --ready-file PATH             written when ports are open and P4Runtime listens
"""


UNIX = "unix:"
"""What an address begins with that is a socket's path, as gRPC has it."""


class UsageError(Exception):
    """The command line is wrong; the message says what and what would be right."""


@dataclass(frozen=True, slots=True)
class Interface:
    """`-i PORT@NAME`."""

    port: int
    name: str


@dataclass(frozen=True, slots=True)
class Tls:
    """`--grpc-server-ssl` and what belongs to it: PEM files."""

    cert: Path
    key: Path
    cacert: Path | None = None
    client_auth: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """The whole command line."""

    interfaces: tuple[Interface, ...] = ()
    device_id: int = 0
    json: Path | None = None
    p4info: Path | None = None
    pcap: Path | None = None
    log_file: Path | None = None
    log_console: bool = False
    log_level: str = "info"
    log_flush: bool = False
    grpc_address: str = "127.0.0.1:9559"
    thrift_port: int = 0
    tls: Tls | None = None
    cpu_port: int = 0
    drop_port: int = 511
    priority_queues: int = 1
    tick: str = "us"
    depth_unit: str = "packets"
    recirculation_ps: int = 1_000_000
    links: tuple[Link, ...] = ()
    tickers: tuple[TickerOption, ...] = ()
    port_report: bytes = b""
    ready_file: Path | None = None
    notes: tuple[str, ...] = field(default=())


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that `main` decides."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(argv: Sequence[str]) -> Options:
    """Read the command line without the program's name. Raises UsageError, SystemExit (--help)."""
    argv = list(argv)
    target_argv: list[str] = []
    if "--" in argv:
        at = argv.index("--")
        argv, target_argv = argv[:at], argv[at + 1 :]
    general = _general_parser().parse_args(argv)
    target = _target_parser().parse_args(target_argv)
    if general.json is None and general.pcap is not None and general.pcap.suffix == ".json":
        # `--pcap prog.json`: as in BMv2, the directory may be left out.
        general.json, general.pcap = general.pcap, Path()
    notes = [text for name, text in IGNORED.items() if getattr(general, name)]
    notes += [text for name, text in IGNORED_TARGET.items() if getattr(target, name)]
    if general.log_console and general.log_file:
        raise UsageError("--log-console and --log-file exclude each other")
    if general.no_p4 and general.json:
        notes.append(f"{general.json} is not loaded because of --no-p4")
    if not general.no_p4 and not general.json:
        raise UsageError(
            "give a BMv2 JSON file (from p4c or `weft compile`), or --no-p4 to wait for P4Runtime"
        )
    for name, reason in REFUSED.items():
        if getattr(general, name, None) or getattr(target, name, None):
            raise UsageError(f"--{name.replace('_', '-')} is not supported: {reason}")
    if general.pcap is not None and not general.pcap.is_dir():
        raise UsageError(f"--pcap: {general.pcap} is not a directory")
    _check_ports(general.interface, target)
    return Options(
        interfaces=tuple(general.interface),
        device_id=general.device_id,
        json=None if general.no_p4 else general.json,
        p4info=None if general.no_p4 else general.p4info,
        pcap=general.pcap,
        log_file=general.log_file,
        log_console=general.log_console,
        log_level=general.log_level,
        log_flush=general.log_flush,
        grpc_address=target.grpc_server_addr,
        thrift_port=general.thrift_port,
        tls=_tls(target, notes),
        cpu_port=target.cpu_port,
        drop_port=target.drop_port,
        priority_queues=target.priority_queues,
        tick=target.tick,
        depth_unit=target.depth_unit,
        recirculation_ps=target.recirculation,
        links=tuple(target.link),
        tickers=tuple(target.ticker),
        port_report=target.port_report,
        ready_file=target.ready_file,
        notes=tuple(f"ignored {note}" for note in notes),
    )


def _general_parser() -> _Parser:
    parser = _Parser(
        prog="softswitch",
        usage="softswitch [options] [PROGRAM.json] [-- target options]",
        description="A software switch with simple_switch_grpc's command line.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("json", nargs="?", type=Path, metavar="PROGRAM.json", help="BMv2 JSON to run")
    add("--p4info", type=Path, metavar="FILE", help="P4Info of PROGRAM.json, for P4Runtime")
    add(
        "-i",
        "--interface",
        action="append",
        default=[],
        type=_interface,
        metavar="PORT@NAME",
        help="attach network interface NAME as port PORT; repeatable",
    )
    add("--device-id", type=_uint, default=0, metavar="ID", help="P4Runtime device id (default 0)")
    add(
        "--thrift-port",
        type=_tcp_port,
        default=0,
        metavar="PORT",
        help="listen there too, on 127.0.0.1, for `weft cli --thrift-port` (it is not Thrift)",
    )
    add("--no-p4", action="store_true", help="start empty; P4Runtime brings the program")
    add(
        "--pcap",
        nargs="?",
        const=Path(),
        type=Path,
        metavar="DIR",
        help="write each port's packets to DIR (default: here)",
    )
    add("--log-file", type=Path, metavar="FILE", help="append the log to FILE")
    add("--log-console", action="store_true", help="log to standard output")
    add("-L", "--log-level", choices=LEVELS, default="info", help="default: info")
    add("--log-flush", action="store_true", help="flush the log file at every line")
    add("-v", "--version", action="version", version=BMV2_VERSION, help="show BMv2's version")
    add("--json-version", action="version", version=JSON_VERSION, help=argparse.SUPPRESS)
    add("--use-files", help=argparse.SUPPRESS)
    add("--packet-in", help=argparse.SUPPRESS)
    for name in IGNORED:
        flag = "--" + name.replace("_", "-")
        if name == "debugger":
            add(flag, action="store_true", help=argparse.SUPPRESS)
        else:
            add(flag, help=argparse.SUPPRESS)
    return parser


def _target_parser() -> _Parser:
    parser = _Parser(prog="softswitch --", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("--grpc-server-addr", default="127.0.0.1:9559", type=_address)
    add("--grpc-server-ssl", action="store_true")
    add("--grpc-server-with-client-auth", action="store_true")
    for name in _PEM_FILES:
        add("--" + name.replace("_", "-"), type=Path)
    add("--cpu-port", type=_port, default=0)
    add("--drop-port", type=_port, default=511)
    add("--priority-queues", type=int, choices=range(1, 9), default=1)
    add("--tick", choices=("us", "ns"), default="us")
    add("--depth-unit", choices=("packets", "cells"), default="packets")
    add("--recirculation", type=_recirculation, default=1_000_000, metavar="TIME")
    add("--link", action="append", default=[], type=_link)
    add("--ticker", action="append", default=[], type=parse_ticker)
    add("--port-report", type=parse_port_report, default=b"", metavar="packet=HEX")
    add("--ready-file", type=Path)
    add("--load-modules")
    for name in IGNORED_TARGET:
        flag = "--" + name.replace("_", "-")
        if name == "disable_swap":
            add(flag, action="store_true")
        else:
            add(flag)
    return parser


_PEM_FILES = ("grpc_server_cert", "grpc_server_key", "grpc_server_cacert")


def _tls(target: argparse.Namespace, notes: list[str]) -> Tls | None:
    """Combine the TLS options; without --grpc-server-ssl the others only produce a note."""
    files: dict[str, Path | None] = {name: getattr(target, name) for name in _PEM_FILES}
    if not target.grpc_server_ssl:
        names = [name for name, path in files.items() if path is not None]
        names += ["grpc_server_with_client_auth"] * target.grpc_server_with_client_auth
        notes += [
            f"--{name.replace('_', '-')}: P4Runtime is without TLS, as there is no "
            "--grpc-server-ssl"
            for name in names
        ]
        return None
    cert, key, cacert = files.values()
    if cert is None or key is None:
        raise UsageError("--grpc-server-ssl needs --grpc-server-cert and --grpc-server-key")
    if target.grpc_server_with_client_auth and cacert is None:
        raise UsageError("--grpc-server-with-client-auth needs --grpc-server-cacert")
    return Tls(cert, key, cacert, target.grpc_server_with_client_auth)


def _check_ports(interfaces: Sequence[Interface], target: argparse.Namespace) -> None:
    ports = [i.port for i in interfaces]
    named = {"port": [str(p) for p in ports], "interface": [i.name for i in interfaces]}
    for what, values in named.items():
        twice = next((v for v in values if values.count(v) > 1), None)
        if twice is not None:
            raise UsageError(f"-i: {what} {twice} is given twice")
    for option, given in (("--ticker", target.ticker), ("--port-report", target.port_report)):
        if given and TICKER_PORT in ports:
            raise UsageError(f"{option} uses port {TICKER_PORT}, which is also given as -i")
        if given and TICKER_PORT in (target.cpu_port, target.drop_port):
            raise UsageError(f"{option} uses port {TICKER_PORT}: no --cpu-port or --drop-port")
    for role, port in (("--cpu-port", target.cpu_port), ("--drop-port", target.drop_port)):
        if port and port in ports:
            raise UsageError(f"{role} {port} is also given as -i: use another number")
    if target.cpu_port and target.cpu_port == target.drop_port:
        raise UsageError(f"--cpu-port and --drop-port are both {target.cpu_port}")


def _interface(text: str) -> Interface:
    port, at, name = text.partition("@")
    if not at or not port.isdecimal() or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT@NAME, such as 1@veth1")
    return Interface(_port(port), name)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number of 0..{MAX_PORT}")
    return int(text)


def _tcp_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a TCP port")
    return int(text)


def _recirculation(text: str) -> int:
    found = duration(text)
    if not found:
        raise argparse.ArgumentTypeError("a packet that enters again takes longer than no time")
    return found


def _uint(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number >= 0")
    return int(text)


def _address(text: str) -> str:
    if text.startswith(UNIX) and len(text) > len(UNIX):
        return text
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither HOST:PORT, such as 127.0.0.1:9559, nor unix:PATH"
        )
    return text


def _link(text: str) -> Link:
    return parse_link(text, _port)
