"""The page's server: what it answers, to whom, and what it refuses."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulation import run_state
from observe.flow_hops import HopRow, HopsSeen
from observe.loopback_http import LoopbackServer, PortInUseError
from observe.samples import SwitchSample
from observe.web.server import PAGE
from weft import cli

PATIENCE_S = 60.0
Answer = tuple[int, dict[str, str], bytes]
HOP = HopRow("h1", "h3", 5, 1, 3, "s1", 3, 40 * 10**9, 512, None, 4, 4096, 0, 0.01, 0)


@pytest.fixture
def ask(server: LoopbackServer) -> Callable[..., Answer]:
    """Send a request; return status, headers and body."""

    def asker(path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    return asker


@contextmanager
def events(server: LoopbackServer) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    """Read server-sent events as (name, data)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.getheader("Content-Type") == "text/event-stream"

    def read() -> Iterator[tuple[str, dict[str, Any]]]:
        name = ""
        for line in answer:
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                yield name, json.loads(text.removeprefix("data: "))

    try:
        yield read()
    finally:
        answer.close()
        connection.close()


def test_the_page_and_its_parts(ask: Callable[..., Answer]) -> None:
    status, headers, body = ask("/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    page = body.decode()
    for path in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert ask(f"/{path}")[0] == 200, path
    for script in PAGE.glob("*.js"):
        status, headers, body = ask(f"/{script.name}")
        assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
        assert body == script.read_bytes()
        for module in re.findall(r'from "\./([^"]+)"', body.decode()):
            assert ask(f"/{module}")[0] == 200


def test_nothing_comes_from_elsewhere(ask: Callable[..., Answer]) -> None:
    svg = "http://www.w3.org/2000/svg"  # a name, nothing that is loaded
    for path in PAGE.iterdir():
        assert not re.search(r"https?://|@import|url\(", path.read_text().replace(svg, "")), path
    policy = ask("/")[1]["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")


def test_the_fabric_as_json(ask: Callable[..., Answer]) -> None:
    status, headers, body = ask("/api/fabric")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    told = json.loads(body)
    assert (told["run"], told["runtime"], told["time_scale"]) == ("w0001", "softswitch", 10000)
    assert " ".join(node["name"] for node in told["nodes"]) == "s3 s4 s1 s2 h1 h2 h3 h4"
    assert len(told["links"]) == 8
    assert {(link["rate"], link["delay"]) for link in told["links"]} == {("400Gbps", "500ns")}


def test_a_moment_as_json(ask: Callable[..., Answer], recorded: Any, sends: Any) -> None:
    recorded.set_port("s1", 3, sends(20_000_000, queue_bytes=250_000, drops={"queue": 5}))
    told = json.loads(ask("/api/moment")[2])
    port = told["switches"]["s1"]["ports"]["3"]
    assert port["tx_load"] == pytest.approx(0.5, rel=0.01)
    assert port["tx_bps"] == pytest.approx(20_000_000 * 0.976, rel=0.03)
    assert (port["queue_bytes"], port["drops_ps"], port["drops"]) == (250_000, 5, {"queue": 5})


def test_a_moment_has_hops_of_flows(ask: Callable[..., Answer], recorded: Any) -> None:
    assert "hops" not in json.loads(ask("/api/moment")[2])
    recorded.hops = HopsSeen((HOP,), possible=True)
    (told,) = json.loads(ask("/api/moment")[2])["hops"]
    assert (told["switch"], told["port"], told["queue_bytes"]) == ("s1", 3, 512)


def test_metrics_are_there_too(ask: Callable[..., Answer]) -> None:
    status, headers, body = ask("/metrics")
    assert (status, headers["Content-Type"].split(";")[0]) == (200, "text/plain")
    assert b'weft_port_up{peer="h1",port="1",switch="s1"} 1.0' in body


def test_without_a_run_it_says_so(ask: Callable[..., Answer], recorded: Any) -> None:
    recorded.is_up = False
    assert ask("/api/fabric")[0] == 503
    assert json.loads(ask("/api/moment")[2]) == {"error": "no run is up"}
    assert b"weft_run_up 0.0" in ask("/metrics")[2]


def test_events_tell_whose_flows_take_which_links(server: LoopbackServer, recorded: Any) -> None:
    recorded.marked = [{"title": "job", "flows": {"ring": {"s1:3": 2}}}]
    with events(server) as told:
        next(told)
        name, moment = next(told)
        assert (name, moment["marks"]) == ("moment", recorded.marked)


def test_events_tell_the_fabric_then_every_moment(server: LoopbackServer) -> None:
    with events(server) as told:
        name, fabric = next(told)
        assert (name, fabric["topology"]) == ("fabric", "leafspine")
        moments = [next(told) for _ in range(3)]
    assert {name for name, _ in moments} == {"moment"}
    times = [moment["at"] for _, moment in moments]
    assert times == sorted(set(times))


def test_two_readers_share_each_look(server: LoopbackServer, recorded: Any) -> None:
    with events(server) as one, events(server) as other:
        assert (next(one)[0], next(other)[0]) == ("fabric", "fabric")
        heard: tuple[set[int], set[int]] = (set(), set())
        deadline = time.monotonic() + PATIENCE_S
        while not heard[0] & heard[1]:
            assert time.monotonic() < deadline, "no look was shared"
            for reader, seen in zip((one, other), heard, strict=True):
                seen.add(next(reader)[1]["at"])


def test_nobody_watching_nobody_looking(server: LoopbackServer, recorded: Any) -> None:
    assert recorded.looks == 0
    with events(server) as told:
        next(told)
    # One of the next writes finds that the reader has gone; then looking ends.
    deadline = time.monotonic() + PATIENCE_S
    looks = -1
    while looks != recorded.looks:  # in several of its intervals there was none
        assert time.monotonic() < deadline
        looks = recorded.looks
        time.sleep(0.3)


def test_the_end_of_a_run_and_the_next_one(server: LoopbackServer, recorded: Any) -> None:
    with events(server) as told:
        assert next(told)[0] == "fabric"
        recorded.is_up = False
        name, data = next(event for event in told if event[0] != "moment")
        assert (name, data) == ("idle", {"reason": "no run is up"})
        recorded.is_up = True
        name, data = next(event for event in told if event[0] != "idle")
        assert (name, data["run"]) == ("fabric", "w0001")


def test_a_switch_that_does_not_answer_is_told(ask: Callable[..., Answer], recorded: Any) -> None:
    recorded.now["s4"] = SwitchSample(1, error="no switch answers")
    assert json.loads(ask("/api/moment")[2])["switches"]["s4"]["error"] == "no switch answers"


# --- what is refused ------------------------------------------------------------------------------


def test_only_loopback_is_bound(server: LoopbackServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    others = [
        info[4][0]
        for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        if not str(info[4][0]).startswith("127.")
    ]
    for address in [*others, "127.0.0.2"]:
        with pytest.raises(OSError), socket.create_connection((str(address), server.port), 1.0):
            pass


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9480", 200), ("localhost", 200), ("LOCALHOST:1", 200), ("[::1]:9480", 200),
        ("evil.example", 403), ("evil.example:9480", 403), ("127.0.0.1.evil.example", 403),
        ("", 403), ("localhost.evil", 403),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/moment", "/metrics"])
def test_other_names_of_this_machine_are_refused(
    ask: Callable[..., Answer], path: str, host: str, status: int
) -> None:
    assert ask(path, Host=host)[0] == status


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/index.html", "/../server.py", "/%2e%2e/server.py", "/api", "//etc/passwd"],
)
def test_what_is_not_there(ask: Callable[..., Answer], path: str) -> None:
    status, _, body = ask(path)
    assert status == 404
    assert b"nothing is here; available: / /style.css" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(ask: Callable[..., Answer], method: str) -> None:
    status, headers, _ = ask("/api/moment", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_head_has_no_body(ask: Callable[..., Answer]) -> None:
    status, headers, body = ask("/", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize("command", ["web", "metrics"])
def test_a_port_in_use(
    server: LoopbackServer, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "--port", str(server.port)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"error: port {server.port} of 127.0.0.1 is in use",
        f"remedy: choose another one, for example --port {server.port + 1}, or 0 for any",
    ]
    with pytest.raises(PortInUseError):
        LoopbackServer(server.port, {})


@pytest.mark.parametrize("port", ["70000", "-1", "http"])
def test_ports_that_are_none(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["web", f"--port={port}"]) == 2
    assert "it is a number from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "path"), [("web", "/"), ("metrics", "/metrics")])
def test_ctrl_c_ends_it(
    command: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    process = subprocess.Popen(
        [sys.executable, "-m", "weft.cli", command, "--port", "0"],
        cwd=Path(cli.__file__).parent.parent,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    url = re.search(r"http://127\.0\.0\.1:(\d+)(\S+) \(Ctrl-C ends\)", process.stdout.readline())
    assert url is not None
    assert url[2] == path
    connection = http.client.HTTPConnection("127.0.0.1", int(url[1]), timeout=PATIENCE_S)
    connection.request("GET", "/metrics")  # it serves, also while no run is up
    assert connection.getresponse().status == 200
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    connection.close()
    assert (process.returncode, err) == (0, "")
