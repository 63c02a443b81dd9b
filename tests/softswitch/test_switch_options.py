"""The daemon's command line: simple_switch_grpc's options, ours, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.daemon import main
from softswitch.options import Interface, Link, Tls, UsageError, parse

BMV2_LINE = (
    "--no-p4 --device-id 3 -i 1@veth1 --interface 2@veth3 --thrift-port 9090 --nanolog ipc:///x "
    "--log-file s1.log -L debug --log-flush --pcap -- --grpc-server-addr 127.0.0.1:50051 "
    "--cpu-port 255 --drop-port 510 --priority-queues 8"
)
OUR_LINE = (
    "l3.json --p4info l3.txtpb -- --tick ns --depth-unit cells --ready-file r "
    "--recirculation 2.5us "
    "--link 1:rate=2.5Gbit,delay=5us,rx-delay=10ns,queue=9 --link 2:queue=64KB"
)


def test_a_simple_switch_grpc_command_line() -> None:
    options = parse(BMV2_LINE.split())
    assert options.interfaces == (Interface(1, "veth1"), Interface(2, "veth3"))
    assert (options.device_id, options.cpu_port, options.drop_port) == (3, 255, 510)
    assert (options.grpc_address, options.priority_queues) == ("127.0.0.1:50051", 8)
    assert (options.log_file, options.log_level, options.pcap) == (Path("s1.log"), "debug", Path())
    assert options.thrift_port == 9090
    assert [note.split(":")[0] for note in options.notes] == ["ignored --nanolog"]


@pytest.mark.parametrize(
    ("line", "pcap"),
    [
        ("--pcap l3.json", Path()),
        ("--pcap=/ l3.json", Path("/")),
        ("l3.json --pcap", Path()),
        ("--pcap / l3.json", Path("/")),
        ("l3.json", None),
    ],
)
def test_pcap_with_and_without_directory(line: str, pcap: Path | None) -> None:
    options = parse(line.split())
    assert (options.json, options.pcap) == (Path("l3.json"), pcap)


def test_tls_as_bmv2_has_it() -> None:
    files = "--grpc-server-cert c.pem --grpc-server-key k.pem"
    plain = parse(f"--no-p4 -- {files}".split())
    assert plain.tls is None
    assert "ignored --grpc-server-cert: P4Runtime is without TLS" in plain.notes[0]
    server = parse(f"--no-p4 -- --grpc-server-ssl {files}".split())
    assert server.tls == Tls(Path("c.pem"), Path("k.pem"))
    line = f"{files} --grpc-server-ssl --grpc-server-cacert a.pem --grpc-server-with-client-auth"
    mutual = parse(f"--no-p4 -- {line}".split())
    assert mutual.tls == Tls(Path("c.pem"), Path("k.pem"), Path("a.pem"), client_auth=True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "--grpc-server-ssl --grpc-server-cert c",
            "needs --grpc-server-cert and --grpc-server-key",
        ),
        (
            "--grpc-server-ssl --grpc-server-cert c --grpc-server-key k "
            "--grpc-server-with-client-auth",
            "needs --grpc-server-cacert",
        ),
    ],
)
def test_tls_needs_its_files(line: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(f"--no-p4 -- {line}".split())


def test_a_program_and_our_own_options() -> None:
    options = parse(OUR_LINE.split())
    assert (options.json, options.p4info) == (Path("l3.json"), Path("l3.txtpb"))
    assert (options.tick, options.depth_unit, options.ready_file) == ("ns", "cells", Path("r"))
    assert options.recirculation_ps == 2_500_000
    assert options.links == (
        Link(1, 2_500_000_000, 5_000_000, 10_000, 9),
        Link(2, queue_packets=0, queue_bytes=64_000),
    )
    assert options.grpc_address == "127.0.0.1:9559"  # this machine only, unless told otherwise


def test_an_address_may_be_a_socket_in_the_file_system() -> None:
    options = parse(["--no-p4", "--", "--grpc-server-addr", "unix:/run/s1.sock"])
    assert options.grpc_address == "unix:/run/s1.sock"


def test_what_goes_wrong_on_a_link() -> None:
    link = "3:queue=64cells,weights=0:1/3:4,loss=1%,rx-loss=50%,burst=25%/0.5,bit-errors=2e-19"
    more = "corrupt=1,duplicate=0,reorder=50%/10us,jitter=5us,seed=9"
    flow = "rx-flow=src:10.0.1.0/24+proto:udp+dport:4791+share:25%"
    (found,) = parse(["--no-p4", "--", "--link", f"{link},{more},{flow}"]).links
    assert (found.queue_packets, found.queue_cells, found.weights) == (0, 64, {0: 1, 3: 4})
    assert found.send == {
        "loss": 42_949_673,
        "burst_enter": 1 << 30,
        "burst_leave": 1 << 31,
        "burst_loss": 1 << 32,
        "bit_error": 4,
        "corrupt": 1 << 32,
        "duplicate": 0,
        "reorder": 1 << 31,
        "reorder_ps": 10_000_000,
        "jitter_ps": 5_000_000,
        "seed": 9,
    }
    assert found.receive == {
        "loss": 1 << 31,
        "flow_loss": 1 << 30,
        "flow_protocol": 17,
        "flow_src": 0x0A000100,
        "flow_src_mask": 0xFFFFFF00,
        "flow_dst": 0,
        "flow_dst_mask": 0,
        "flow_sport": 0,
        "flow_dport": 4791,
    }


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "--no-p4"),
        ("--no-p4 -i veth1", "PORT@NAME"),
        ("--no-p4 -i 512@veth1", "0..511"),
        ("--no-p4 -i 1@a -i 1@b", "port 1 is given twice"),
        ("--no-p4 -i 1@a -i 2@a", "interface a is given twice"),
        ("--no-p4 --log-console --log-file x", "exclude"),
        ("--no-p4 --pcap /does/not/exist", "/does/not/exist"),
        ("--no-p4 --log-level loud", "loud"),
        ("--no-p4 -- --recirculation 0ns", "longer than no time"),
        ("--no-p4 -- --recirculation 5", "not a time with unit"),
        ("--no-p4 --nonsense", "--nonsense"),
        ("--no-p4 --use-files 1", "--use-files"),
        ("--no-p4 --packet-in ipc:///tmp/x", "--packet-in"),
        ("--no-p4 -- --load-modules x.so", "--load-modules"),
        ("--no-p4 -i 5@a -- --cpu-port 5", "--cpu-port 5"),
        ("--no-p4 -- --cpu-port 511", "both 511"),
        ("--no-p4 -- --grpc-server-addr 9559", "HOST:PORT"),
        ("--no-p4 -- --grpc-server-addr unix:", "unix:PATH"),
        ("--no-p4 -- --priority-queues 9", "9"),
        ("--no-p4 -- --link 1:rate=10", "unit"),
        ("--no-p4 -- --link 1:delay=5", "unit"),
        ("--no-p4 -- --link 1:colour=red", "colour"),
        ("--no-p4 -- --link rate=1Gbit", "PORT:KEY"),
        ("--no-p4 -- --link 1:queue=64kilocells", "64cells"),
        ("--no-p4 -- --link 1:weights=8:1", "QUEUE:WEIGHT"),
        ("--no-p4 -- --link 1:weights=3:0", "QUEUE:WEIGHT"),
        ("--no-p4 -- --link 1:loss=101%", "101%"),
        ("--no-p4 -- --link 1:rx-loss=often", "1% or 0.01"),
        ("--no-p4 -- --link 1:loss=1e-11", "too little"),
        ("--no-p4 -- --link 1:bit-errors=0.6", "1/2"),
        ("--no-p4 -- --link 1:burst=1%", "TURNS-BAD"),
        ("--no-p4 -- --link 1:reorder=1%", "SHARE/TIME"),
        ("--no-p4 -- --link 1:jitter=5", "unit"),
        ("--no-p4 -- --link 1:flow=10.0.1.1", "src:"),
        ("--no-p4 -- --link 1:flow=src:10.0.1.300", "10.0.1.300"),
        ("--no-p4 -- --link 1:flow=proto:icmp+dport:9", "only tcp"),
        ("--no-p4 -- --link 1:flow=proto:quic", "quic"),
        ("--no-p4 -- --link 1:flow=dport:70000", "65535"),
        ("--no-p4 -- --link 1:seed=x", "whole number"),
    ],
)
def test_wrong_command_lines_are_refused(
    line: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as wrong:
        parse(line.split())
    assert says in str(wrong.value)
    assert main(line.split()) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and says in error


def test_help_has_examples(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capfd.readouterr().out
    assert "examples:" in text and "--link" in text
