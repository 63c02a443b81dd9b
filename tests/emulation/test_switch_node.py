"""Switch processes: their command lines, their ports, and what is said when one dies."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from emulation.errors import SwitchDiedError, ToolMissingError
from emulation.switch_node import (
    PortSettings,
    SwitchNode,
    SwitchSettings,
    Target,
    require_target,
    wait_until_ready,
)
from emulation.tcp_ports import TcpPorts
from softswitch.options import Link, parse
from softswitch.ticker_options import TickerOption


def settings(target: Target, tmp_path: Path, grpc_port: int = 9559) -> SwitchSettings:
    ports = (
        PortSettings(1, "w1-s1-1", rate_bps=40_000_000, send_delay_ns=5_000_000, queue_bytes=10**6),
        PortSettings(2, "w1-s1-2"),
    )
    return SwitchSettings(
        target, 7, grpc_port, 9090, ports, tmp_path / "s1.log", tmp_path / "s1.ready"
    )


@pytest.mark.parametrize("target", Target)
def test_both_targets_take_simple_switch_grpcs_options(target: Target, tmp_path: Path) -> None:
    command = settings(target, tmp_path).command()
    before, after = command[: command.index("--")], command[command.index("--") + 1 :]
    text = " ".join(before)
    assert "--device-id 7" in text
    assert "-i 1@w1-s1-1 -i 2@w1-s1-2" in text
    assert after[:2] == ["--grpc-server-addr", "127.0.0.1:9559"]


def test_our_switch_understands_what_it_is_told_about_links(tmp_path: Path) -> None:
    command = settings(Target.SOFTSWITCH, tmp_path).command()
    options = parse(command[command.index("softswitch") + 1 :])
    assert options.links == (
        Link(1, rate_bps=40_000_000, delay_ps=5 * 10**9, queue_packets=0, queue_bytes=10**6),
    )
    assert (options.tick, options.depth_unit, options.priority_queues) == ("ns", "cells", 8)
    assert options.recirculation_ps == 10**6
    slower = replace(settings(Target.SOFTSWITCH, tmp_path), recirculation_ns=10**7).command()
    assert parse(slower[slower.index("softswitch") + 1 :]).recirculation_ps == 10**10
    assert options.ready_file == tmp_path / "s1.ready"
    assert "--link" not in settings(Target.BMV2, tmp_path).command()


def test_a_switch_may_have_bmv2s_units_and_another_cpu_port(tmp_path: Path) -> None:
    usual = settings(Target.SOFTSWITCH, tmp_path)
    other = replace(usual, bmv2_units=True, cpu_port=510).command()
    options = parse(other[other.index("softswitch") + 1 :])
    assert (options.tick, options.depth_unit, options.cpu_port) == ("us", "packets", 510)
    options = parse(usual.command()[usual.command().index("softswitch") + 1 :])
    assert options.cpu_port == 255
    bmv2 = replace(settings(Target.BMV2, tmp_path), cpu_port=510).command()
    assert "--cpu-port 510" in " ".join(bmv2) and "--tick" not in bmv2


def test_each_target_is_told_of_its_tickers(tmp_path: Path) -> None:
    tickers = (TickerOption(10**9, bytes(60), 333), TickerOption(2 * 10**9 + 1, b"\xff" * 14))
    ours = replace(settings(Target.SOFTSWITCH, tmp_path), tickers=tickers).command()
    assert parse(ours[ours.index("softswitch") + 1 :]).tickers == tickers
    pair = replace(settings(Target.BMV2, tmp_path), tickers=tickers, ticker_interface="w1-s1-509")
    text = " ".join(pair.command())
    assert "-i 509@w1-s1-509" in text and "--ticker" not in text


def free_port() -> int:
    ports = TcpPorts()
    (port,) = ports.take(1, 19559)
    ports.release()
    return port


def test_ports_that_somebody_holds_are_left_out() -> None:
    first = free_port()
    ports = TcpPorts()
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", first))
        holder.listen()
        found = ports.take(4, first)
    ports.release()
    assert first not in found
    assert len(set(found)) == 4


def test_two_runs_never_choose_the_same_port() -> None:
    one, other = TcpPorts(), TcpPorts()
    mine, theirs = one.take(3, 19559), other.take(3, 19559)
    assert not set(mine) & set(theirs)
    one.release()
    assert other.take(3, mine[0]) == mine
    other.release()


def test_ports_wanted_are_given_where_free_and_only_a_taken_one_moves() -> None:
    first = free_port()
    wanted = range(first, first + 3)
    one, other = TcpPorts(), TcpPorts()
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", wanted[1]))
        holder.listen()
        found = one.take_these(wanted, 21559)
        assert (found[0], found[2]) == (wanted[0], wanted[2]) and found[1] >= 21559
        assert min(other.take_these(wanted, 21559)) >= 21559  # none of the first one's
    one.release()
    assert one.take_these(wanted, 21559) == list(wanted)
    one.release()
    other.release()


@pytest.mark.root
def test_a_connection_to_itself_is_no_switch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    with socket.socket() as alone:  # what the kernel may do with an ephemeral port
        alone.bind(("127.0.0.1", port))
        alone.connect(("127.0.0.1", port))
        monkeypatch.setattr(socket, "create_connection", lambda *_: alone)
        node = SwitchNode("s1", dpid="7", settings=settings(Target.BMV2, tmp_path, port))
        try:
            assert not node.connected()
        finally:
            node.terminate()


def test_a_missing_target_is_said_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissingError, match="simple_switch_grpc") as raised:
        require_target(Target.BMV2)
    assert "--target" in raised.value.remedy
    require_target(Target.SOFTSWITCH)


@pytest.mark.root
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo one\necho 'port 9559 is in use' >&2\nexit 3", r"(?s)exit code 3.*one.*is in use"),
        ("exit 1", "wrote nothing to its log"),
        ("kill -9 $$", "killed by signal 9"),
        ("for i in $(seq 40); do echo line $i; done; exit 1", r"(?s)log:\n  line 26\n.*line 40"),
    ],
    ids=["says why", "silent", "killed", "long"],
)
def test_a_switch_that_dies_shows_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    program = tmp_path / "simple_switch_grpc"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    node = SwitchNode("s1", dpid="7", settings=settings(Target.BMV2, tmp_path, free_port()))
    try:
        node.start([])
        with pytest.raises(SwitchDiedError, match=message) as raised:
            wait_until_ready([node], deadline_s=60)
        assert str(raised.value).startswith("switch s1 ")
    finally:
        node.terminate()


@pytest.mark.root
def test_a_switch_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "simple_switch_grpc"
    program.write_text("#!/bin/sh\necho waiting for something\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    node = SwitchNode("s1", dpid="7", settings=settings(Target.BMV2, tmp_path, free_port()))
    try:
        node.start([])
        begun = time.monotonic()
        while not node.last_log_lines():
            assert time.monotonic() < begun + 60, "the switch says nothing"
            time.sleep(0.005)
        with pytest.raises(SwitchDiedError, match=r"(?s)not ready after 0.3 s.*for something"):
            wait_until_ready([node], deadline_s=0.3)
    finally:
        assert node.process is not None
        node.process.kill()
        node.process.wait()
        node.terminate()


def test_queues_that_share_are_told_to_the_switch() -> None:
    shared = PortSettings(2, "w1-s1-2", rate_bps=10**6, weights=((0, 1), (3, 3)))
    assert shared.link_option() == "2:rate=1000000bps,weights=0:1/3:3"
    assert PortSettings(2, "w1-s1-2", weights=((3, 3),)).link_option() == "2:weights=3:3"
