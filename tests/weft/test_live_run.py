"""top, web and metrics of a real run: what they tell is what its own results tell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from emulation import run_state, teardown

pytestmark = pytest.mark.root

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
PATIENCE_S = 60.0
LATE_PACKETS = 20  # TCP's last words


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    yield dict(os.environ)
    teardown.stop()


@contextmanager
def weft(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "weft.cli", *arguments],
        cwd=REPOSITORY, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def test_a_run_is_seen_by_top_web_and_prometheus(environment: dict[str, str]) -> None:
    quick = ("--cli", "--json", "--seconds", "1", "--metrics", "0")
    with weft(environment, "run-topo", *quick) as run:
        assert run.stdin is not None and run.stdout is not None and run.stderr is not None
        told = re.search(r"metrics  (http://127\.0\.0\.1:\d+/metrics)", run.stderr.readline())
        assert told is not None
        result: dict[str, Any] = json.loads(run.stdout.readline())

        # Prometheus: the counters that the run printed, and what little came after them.
        counted: dict[tuple[str, str], dict[str, float]] = {}
        for family in text_string_to_metric_families(get(told[1])):
            for sample in family.samples:
                if sample.name.startswith("weft_port_") and "reason" not in sample.labels:
                    port = sample.labels["switch"], sample.labels["port"]
                    counted.setdefault(port, {})[sample.name] = sample.value
        for switch, ports in result["counters"].items():
            for number, port in ports.items():
                found = counted[switch, number]
                more = found["weft_port_receive_packets_total"] - port["rx_packets"]
                assert 0 <= more <= LATE_PACKETS
                more = found["weft_port_transmit_bytes_total"] - port["tx_bytes"]
                assert 0 <= more <= LATE_PACKETS * 100
                assert found["weft_port_roce_receive_packets_total"] == port["roce_rx_packets"]
                assert found["weft_port_queue_limit_bytes"] == 1_000_000
                assert found["weft_port_up"] == 1

        # top and web: traffic as it goes.
        run.stdin.write("exec h1 ping -q -i 0.01 -c 400 10.0.2.1\n")
        run.stdin.flush()
        with weft(environment, "top", "--once", "--json") as top:
            out, _ = top.communicate(timeout=PATIENCE_S)
        seen = json.loads(out)
        assert (seen["runtime"], seen["time_scale"]) == ("softswitch", 10000)
        assert seen["switches"]["s1"]["ports"]["1"]["rx_pps"] > 10
        assert 0 < seen["switches"]["s1"]["ports"]["1"]["rx_load"] < 0.5
        assert seen["switches"]["s2"]["ports"]["2"]["tx_pps"] < 10  # h4 has no part in it
        with weft(environment, "web", "--port", "0") as web:
            assert web.stdout is not None
            url = re.search(r"http://127\.0\.0\.1:\d+", web.stdout.readline())
            assert url is not None
            assert json.loads(get(url[0] + "/api/fabric"))["topology"] == "leafspine"
            moment = json.loads(get(url[0] + "/api/moment"))
            assert moment["run"] == result["run"]
            assert moment["switches"]["s1"]["ports"]["1"]["roce_packets"] >= 64

        out, err = run.communicate("exit\n", timeout=PATIENCE_S)
        assert run.returncode == 0, err
    with weft(environment, "top", "--once") as top:
        out, err = top.communicate(timeout=PATIENCE_S)
        assert (top.returncode, out) == (1, "")
        assert "no run is up" in err
