"""`dpfr` at the prompt of a real run: a link dies, traffic moves, and off is off.

h1 -- s1 == s3, s4 == s2 -- h3      two ways; heartbeats every 84 ms of real time
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.weft.prompt_lab import PATIENCE_S, Lab, opened, rows

pytestmark = pytest.mark.root

TOPOLOGY = """
switches: [s1, s2, s3, s4]
hosts: [h1, h3]
time_scale: 10000
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
links:
  - {a: h1, b: "s1:1"}
  - {a: h3, b: "s2:1"}
  - {a: "s1:3", b: "s3:1"}
  - {a: "s1:4", b: "s4:1"}
  - {a: "s2:3", b: "s3:2"}
  - {a: "s2:4", b: "s4:2"}
dpfr: true
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root: Path = tmp_path_factory.mktemp("lab")
    topology = root / "reroute.yaml"
    topology.write_text(TOPOLOGY)
    with opened(root, "softswitch", str(topology)) as lab:
        yield lab


def said(lab: Lab, port: str) -> str:
    """Return what `dpfr` prints of a port now: dead, avoided or good."""
    found = {row[0]: row[2] for row in rows(lab.do("dpfr")) if row[0] == port}
    return found.get(port, "good")


def wait_until(lab: Lab, port: str, state: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while said(lab, port) != state:
        assert time.monotonic() < end, lab.do("dpfr")
        time.sleep(0.2)


def test_a_link_that_dies_is_found_and_gone_round(lab: Lab) -> None:
    assert lab.do("dpfr").startswith("fast reroute is on\n")
    lab.do("link s1 s3 down")
    wait_until(lab, "s1:3", "dead")
    wait_until(lab, "s3:1", "dead")
    assert " 0% packet loss" in lab.do("h1 ping -c3 h3")
    top = json.loads(lab.other_terminal("top", "--once", "--json").stdout)
    assert "dpfr" in top["switches"]["s1"]["ports"]["3"]
    lab.do("link s1 s3 up")
    wait_until(lab, "s1:3", "good")


def test_off_and_on_and_what_is_neither(lab: Lab) -> None:
    assert lab.do("dpfr off") == "fast reroute is off; the controller wrote 4 updates\n"
    assert lab.do("dpfr").startswith("fast reroute is off\n")
    assert lab.do("dpfr on") == "fast reroute is on; the controller wrote 4 updates\n"
    assert "dpfr [on|off], not 'maybe'" in lab.do("dpfr maybe")
