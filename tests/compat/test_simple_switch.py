"""The daemon's command line under BMv2's names."""

from __future__ import annotations

import socket

import pytest

from compat.dropin import simple_switch
from compat.dropin.simple_switch import with_bmv2_log, with_thrift_port, without_grpc
from softswitch.options import UsageError, parse


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("--log-file logs/s1.log prog.json", "--log-file logs/s1.log.txt prog.json"),
        ("--log-file=ss-log --no-p4", "--log-file=ss-log.txt --no-p4"),
        ("--no-p4 -- --log-file x", "--no-p4 -- --log-file x"),
        ("prog.json --log-file", "prog.json --log-file"),
    ],
)
def test_log_files_have_bmv2s_names(given: str, right: str) -> None:
    assert with_bmv2_log(given.split()) == right.split()


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("prog.json", "127.0.0.1:9090"),
        ("--thrift-port 9123 prog.json", "127.0.0.1:9123"),
        ("--thrift-port=9124 prog.json -- --enable-swap --drop-port 3", "127.0.0.1:9124"),
    ],
)
def test_simple_switch_listens_on_its_thrift_port(given: str, address: str) -> None:
    options = parse(without_grpc(given.split()))
    assert options.grpc_address == address
    assert str(options.json) == "prog.json"
    assert not options.thrift_port


@pytest.mark.parametrize(
    ("given", "free", "right"),
    [
        ("--no-p4", True, "--thrift-port 9090 --no-p4"),
        ("--no-p4 -- --cpu-port 5", True, "--thrift-port 9090 --no-p4 -- --cpu-port 5"),
        ("--no-p4", False, "--no-p4"),
        ("--thrift-port 9091 --no-p4", True, "--thrift-port 9091 --no-p4"),
        ("--thrift-port=9091 --no-p4", True, "--thrift-port=9091 --no-p4"),
    ],
)
def test_bmv2s_thrift_port_is_open_where_it_is_free(
    given: str, free: bool, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simple_switch, "_is_free", lambda port: free)
    assert with_thrift_port(given.split()) == right.split()


def test_a_port_that_is_taken_is_seen() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not simple_switch._is_free(taken.getsockname()[1])


@pytest.mark.parametrize("given", ["--thrift-port x p.json", "--thrift-port=70000 p.json"])
def test_a_wrong_thrift_port_is_called_that(given: str) -> None:
    with pytest.raises(UsageError, match=r"argument --thrift-port: .* is not a TCP port"):
        parse(without_grpc(given.split()))


def test_a_taken_thrift_port_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["simple_switch", "--thrift-port", str(port), "--no-p4"])
        monkeypatch.setattr(simple_switch, "_be_called", lambda name: None)
        assert simple_switch.simple_switch() == 1
    said = capsys.readouterr().err
    assert said == f"simple_switch: port {port} is in use; choose another with --thrift-port N\n"


def test_target_options_stay() -> None:
    assert parse(without_grpc(["p.json", "--", "--drop-port", "3"])).drop_port == 3


def test_the_line_that_p4langs_scripts_give_is_understood() -> None:
    line = (
        "-i 1@s1-eth1 -i 2@s1-eth2 --pcap . --nanolog ipc:///tmp/bm-0-log.ipc --device-id 1 "
        "build/basic.json --debugger --log-console --thrift-port 9091 -- "
        "--grpc-server-addr 0.0.0.0:50052 --cpu-port 510 --priority-queues 8"
    )
    options = parse(with_bmv2_log(line.split()))
    assert (options.device_id, options.cpu_port, options.priority_queues) == (1, 510, 8)
    assert options.grpc_address == "0.0.0.0:50052"
    assert options.thrift_port == 9091
    assert [interface.name for interface in options.interfaces] == ["s1-eth1", "s1-eth2"]
