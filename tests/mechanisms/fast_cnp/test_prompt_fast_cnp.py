"""`fast-cnp` at the prompt of a real run: what it shows, and that off is off.

h1, h2 -- s1 -- h3      40 Mb/s each, and fast CNPs for what h3's port queues
           |
          s2 -- h4
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.weft.prompt_lab import Lab, opened, rows

pytestmark = pytest.mark.root

TOPOLOGY = """
switches: [s1, s2]
hosts: [h1, h2, h3, h4]
time_scale: 10000
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
links:
  - {a: h1, b: "s1:1"}
  - {a: h2, b: "s1:2"}
  - {a: h3, b: "s1:3"}
  - {a: "s1:4", b: "s2:4"}
  - {a: h4, b: "s2:1"}
classes:
  cnp: {dscp: 48, queue: 7}
  roce: {dscp: 26, queue: 3, fast_cnp: true}
  rest: {queue: 0}
"""
INCAST = "perf write h1,h2 h3 --bw --congestion fast-cnp --duration 1s"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root: Path = tmp_path_factory.mktemp("lab")
    topology = root / "fast.yaml"
    topology.write_text(TOPOLOGY)
    with opened(root, "softswitch", str(topology)) as lab:
        yield lab


def counts(lab: Lab) -> dict[str, dict[str, int]]:
    """Return what `fast-cnp` prints of each port: a number for each outcome's words."""
    found = {}
    for row in rows(lab.do("fast-cnp")):
        if re.match(r"s\d:\d", row[0]):
            cells = [each.split(" ", 1) for each in row[2].split(", ")]
            found[row[0]] = {text: int(count) for count, text in cells}
    return found


def settled(lab: Lab) -> dict[str, dict[str, int]]:
    """Return the same, once the queue has emptied: what waited still counts as it leaves."""
    now = counts(lab)
    while (then := counts(lab)) != now:
        now = then
    return now


def modes(lab: Lab) -> str:
    return lab.do("fast-cnp").splitlines()[0]


def test_what_met_a_long_queue_is_shown_by_port(lab: Lab) -> None:
    assert lab.do("fast-cnp") == "fast CNPs are on\nno packet has met a long queue\n"
    assert "error: " not in lab.do(INCAST)
    found = counts(lab)
    assert list(found) == ["s1:3"]
    assert found["s1:3"]["sent"] > 0
    assert found["s1:3"]["within the interval"] > 0
    assert re.search(r"s1:3 +h3 +\d+ sent, ", lab.do("fast-cnp"))
    # `weft top` reads the same counter
    top = lab.other_terminal("top", "--once", "--json")
    ports = json.loads(top.stdout)["switches"]["s1"]["ports"]
    assert ports["3"]["fast_cnps"] == found["s1:3"]["sent"]
    assert ports["1"]["fast_cnps"] == 0
    top = lab.other_terminal("top", "--once", "--sort", "fast-cnps")
    assert re.search(r"marks +fast CNPs *\n", top.stdout), top.stdout
    first = next(line for line in top.stdout.splitlines() if re.match(r" *s\d:\d", line))
    assert first.split()[0] == "s1:3"


def test_off_is_off_until_it_is_on_again(lab: Lab) -> None:
    lab.do(INCAST)
    before = settled(lab)
    assert before["s1:3"]["sent"] > 0
    assert lab.do("fast-cnp off") == "fast CNPs are off; the controller wrote 2 updates\n"
    assert lab.do("fast-cnp off") == "fast CNPs are off; the controller wrote 0 updates\n"
    assert "error: " not in lab.do(INCAST)
    assert settled(lab) == before
    assert re.search(r"fast_cnp_mode +\(default\) +disable_fast_cnp\(\)", lab.do("tables s1"))

    lab.do("link s1 s2 down")
    lab.do("link s1 s2 up")
    assert modes(lab) == "fast CNPs are off"
    assert "0 updates written" in lab.do("controller restart")
    assert modes(lab) == "fast CNPs are off"
    lab.kill("s2")
    lab.hears("it is back after")
    assert modes(lab) == "fast CNPs are off"

    assert lab.do("fast-cnp on") == "fast CNPs are on; the controller wrote 2 updates\n"
    assert lab.do("link s1 s2 down").endswith("updates\n")
    lab.do("link s1 s2 up")
    lab.do(INCAST)
    assert counts(lab)["s1:3"]["sent"] > before["s1:3"]["sent"]


def test_what_cannot_be_is_refused(lab: Lab) -> None:
    before = modes(lab)
    for wrong in ("maybe", "on off", "ON"):
        said = lab.do(f"fast-cnp {wrong}")
        assert said == f"error: fast-cnp [on|off], not {wrong!r}\n"
    assert modes(lab) == before
    assert "fast-cnp off" in lab.do("help fast-cnp")
