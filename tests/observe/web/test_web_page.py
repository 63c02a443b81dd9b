"""The page in a real browser: headless Chromium, driven through ChromeDriver's own protocol.

Needs Debian's packages chromium and chromium-driver, which `make setup` does not install.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import topologies
from observe.flow_hops import HopRow, HopsSeen
from observe.loopback_http import LoopbackServer
from observe.samples import SwitchSample

pytestmark = pytest.mark.reference("chromium", "chromedriver")

PATIENCE_S = 60.0
HOP = HopRow(
    "h1", "h3", 5, 2, 3, "s1", 3, 40 * 10**9, 512, 1200, 4, 4096, 0, 0.01, 0,
    mean_queue_bytes=1024.0,
)  # fmt: skip
# Chromium asks for nothing beyond the page: the rest of the network is not there.
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1500,950",
]  # fmt: skip


class Browser:
    """One window. `run` evaluates JavaScript in its page."""

    def __init__(self, driver: str, profile: Path) -> None:
        self._driver = driver
        options = {"args": [*OPTIONS, f"--user-data-dir={profile}"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._driver + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)["value"]

    def open(self, url: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function; `arguments` are in its `arguments`."""
        body = {"script": script, "args": arguments}
        return self._call("POST", f"{self._session}/execute/sync", body)

    def text(self, selector: str) -> str:
        """Return the text of the first element that fits; its spaces are plain ones."""
        found = self.run("return document.querySelector(arguments[0])?.textContent", selector)
        return re.sub(r"\s", " ", found or "")

    def messages(self) -> list[str]:
        """Return what the page wrote to the console, errors included."""
        log = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in log]

    def move_to(self, selector: str) -> None:
        """Put the pointer on the middle of an element."""
        found = self.run("return document.querySelector(arguments[0])", selector)
        move = {"type": "pointerMove", "duration": 0, "origin": found, "x": 0, "y": 0}
        pointer = {"type": "pointer", "id": "mouse", "actions": [move]}
        self._call("POST", f"{self._session}/actions", {"actions": [pointer]})

    def close(self) -> None:
        self._call("DELETE", self._session)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = None
        while port is None:
            line = process.stdout.readline()
            assert line, "chromedriver ended"
            port = re.search(r"started successfully on port (\d+)", line)
        opened = Browser(f"http://127.0.0.1:{port[1]}", tmp_path_factory.mktemp("profile"))
        yield opened
        opened.close()
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Poll until something is true, and return it."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert time.monotonic() < deadline, "the page never came to show it"
            time.sleep(0.02)
        return found

    return wait


@pytest.fixture
def page(browser: Browser, server: LoopbackServer, until: Any) -> Iterator[Browser]:
    """Yield the live page. It must not have complained in the end."""
    browser.open(server.url)
    until(lambda: browser.text("#state") == "live")
    browser.messages()
    yield browser
    complaints = [text for text in browser.messages() if "/api/events" not in text]
    assert complaints == []
    browser.open("about:blank")


HALVES = """return [...document.querySelectorAll(`.link[data-a="${arguments[0]}"] path.half`)]
  .map((half) => half.classList[1])"""
ROWS = """return [...document.querySelectorAll("#ports tbody tr")].filter((row) => !row.hidden)
  .map((row) => [...row.cells].map((cell) => cell.textContent))"""
CLICK = "document.querySelector(arguments[0]).click()"
FILTER = """const field = document.querySelector("#filter"); field.value = arguments[0];
  field.dispatchEvent(new Event("input"))"""


def test_it_says_what_is_up_and_what_its_numbers_hold_for(page: Browser) -> None:
    assert page.text("#topology") == "leafspine"
    assert page.text("#run") == "w0001"
    assert page.text("#runtime") == "softswitch, real time"
    assert page.text("#scale") == "10 000"
    drawn = "return document.querySelectorAll(arguments[0]).length"
    counts = [page.run(drawn, selector) for selector in (".node", ".node.host", ".link", ".slot")]
    assert counts == [8, 4, 8, 12 + 2]  # two slots are the legend's
    assert page.run(HALVES, "h1") == ["l0", "l0"]
    assert page.text("#tile-load") == "0 %"


def test_load_colours_each_half_of_a_link(
    page: Browser, recorded: Any, sends: Any, until: Any
) -> None:
    recorded.set_port("s1", 3, sends(39_000_000))  # to s3
    recorded.set_port("s3", 1, sends(8_000_000))  # back to s1
    (link,) = [each for each in recorded.record.topology.links if {"s1", "s3"} == _ends(each)]
    until(lambda: page.run(HALVES, str(link.a)) == ["l6", "l2"])
    assert page.text("#tile-load") == "98 %"  # 39 of 40 Mb/s
    assert page.text("#note-load") == "s1:3 – s3:1"
    assert page.text('[data-node="s1"] .figure') == "381 Gb/s"
    page.run(CLICK, "input[value=here]")
    assert page.text('[data-node="s1"] .figure') == "38.1 Mb/s"
    page.run(CLICK, "input[value=fabric]")


def test_more_than_a_link_takes_is_explained(
    page: Browser, recorded: Any, sends: Any, until: Any
) -> None:
    recorded.set_port("s1", 3, sends(40_400_000))  # 101 %: a packet more in this look
    until(lambda: page.text("#tile-load") == "100 %")
    assert page.text("#note-load") == "s1:3 – s3:1"
    recorded.set_port("s1", 3, sends(45_600_000))
    until(lambda: page.text("#tile-load") == "114 %")
    assert page.text("#note-load") == "s1:3 – s3:1, catching up"


def test_no_figure_of_the_table_is_cut(
    page: Browser, recorded: Any, sends: Any, until: Any
) -> None:
    # Fonts differ by a sixth in width from one machine to the next.
    page.run("document.querySelector('#ports').style.fontSize = '14px'")
    page.run(CLICK, "#ports th:nth-child(6) button")  # the arrow takes room, too
    busy = {"queue_bytes": 88_800, "marked_packets": 88, "drops": {"queue": 88}}
    recorded.set_port("s1", 3, sends(38_880_000, **busy))
    until(lambda: any(row[5] == "88.8 kB" for row in page.run(ROWS)))
    cut = """return [...document.querySelectorAll("#ports td, #ports th button")]
      .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"""
    assert page.run(cut) == []


def _ends(link: Any) -> set[str]:
    return {link.a.node, link.b.node}


def test_a_link_that_a_mechanism_found_dead_or_avoids_is_marked(
    page: Browser, recorded: Any, sends: Any, until: Any
) -> None:
    """Its carrier is there, and the switch at one end counts it as dead; another as lossy."""
    recorded.set_port("s1", 3, sends(counters={"dpfr": {"went_down": 2, "came_up": 1}}))
    recorded.set_port("s2", 4, sends(counters={"dpfr": {"degraded": 1}}))
    state = "return document.querySelector(arguments[0]).dataset.state"
    until(lambda: page.run(state, '.link[data-a="s1:3"], .link[data-b="s1:3"]') == "dead")
    assert page.run(state, '.link[data-a="s2:4"], .link[data-b="s2:4"]') == "avoided"
    assert page.run(state, '.link[data-a="s1:4"], .link[data-b="s1:4"]') == ""
    slot = "return document.querySelector(arguments[0]).getAttribute('class')"
    assert page.run(slot, '[data-port="s1:3"]') == "slot down"
    peers = {row[0]: row[1] for row in page.run(ROWS)}
    assert (peers["s1:3"], peers["s2:4"], peers["s1:4"]) == ("s3:1 dead", "s4:2 avoided", "s4:1")
    recorded.set_port("s1", 3, sends(counters={"dpfr": {"went_down": 2, "came_up": 2}}))
    until(lambda: page.run(state, '.link[data-a="s1:3"], .link[data-b="s1:3"]') == "")


STRIPES = """return [...document.querySelectorAll(`.link[data-a="${arguments[0]}"] .stripes`)]
  .map((half) => [...half.children].map((path) => path.dataset.name))"""


def test_links_have_the_colours_of_those_who_take_them(
    page: Browser, recorded: Any, until: Any
) -> None:
    assert page.run("return document.querySelector('#marks').hidden")
    (link,) = [each for each in recorded.record.topology.links if {"s1", "s3"} == _ends(each)]
    a, b = str(link.a), str(link.b)
    flows = {"ring": {a: 2, b: 1}, "experts": {b: 4}}
    recorded.marked = [{"title": "job", "flows": flows}]
    until(lambda: page.run(STRIPES, a) == [["ring"], ["ring", "experts"]])
    assert page.text("#marks-title") == "job" and page.text("#marks-names") == "ringexperts"
    shown = "return getComputedStyle(document.querySelector('.stripes')).display"
    assert page.run(shown) == "none"
    page.run(CLICK, "#by-marks")
    assert page.run(shown) == "inline"
    colour = "return document.querySelector('[data-name=experts]').getAttribute('stroke')"
    before = page.run(colour)
    recorded.marked = [{"title": "job", "flows": {"experts": {b: 4}}}]
    until(lambda: page.run(STRIPES, a) == [[], ["experts"]])
    assert page.run(colour) == before
    recorded.marked = []
    until(lambda: page.run(STRIPES, a) == [[], []])
    assert page.run("return document.querySelector('#marks').hidden")
    page.run(CLICK, "#by-marks")


def test_queues_drops_and_links_that_are_down(
    page: Browser, recorded: Any, sends: Any, until: Any
) -> None:
    recorded.set_port("s2", 1, sends(queue_bytes=500_000, drops={"queue": 7}))
    recorded.set_port("s4", 2, sends(up=False))
    fill = (
        """return document.querySelector('[data-port="s2:1"]').nextSibling.getAttribute("height")"""
    )
    until(lambda: page.run(fill) == "8")  # half of the slot
    classes = "return document.querySelector(arguments[0]).getAttribute('class')"
    assert page.run(classes, '[data-port="s2:1"]') == "slot dropping"
    assert page.run(classes, '[data-port="s4:2"]') == "slot down"
    assert page.run(classes, '.link[data-b="s4:2"], .link[data-a="s4:2"]') == "link down"
    assert page.text("#tile-drops") == "70.0 k/s"  # in the fabric: its seconds are 10000 of ours
    assert page.text("#note-drops") == "7 in all, 7 /s here"
    assert page.text("#tile-queue") == "500 kB"
    assert page.text('[data-node="s2"] .badge text') == "− 70.0 k/s"
    page.run(CLICK, "input[value=here]")
    assert page.text("#base") == "rates on this machine"
    assert page.text("#tile-drops") == "7 /s"
    assert page.text("#note-drops") == "7 in all"
    page.run(CLICK, "input[value=fabric]")
    assert page.text("#base") == "rates in the fabric: × 10 000"


def test_a_switch_that_does_not_answer(page: Browser, recorded: Any, until: Any) -> None:
    recorded.now["s4"] = SwitchSample(1, error="no switch answers on 127.0.0.1:9572")
    until(lambda: page.text('[data-node="s4"] .figure') == "no answer")
    page.move_to('[data-node="s4"] rect')
    until(lambda: "no switch answers on 127.0.0.1:9572" in page.text("#tooltip"))


def test_the_table_sorts_and_filters(page: Browser, recorded: Any, sends: Any, until: Any) -> None:
    recorded.set_port("s3", 2, sends(20_000_000, marked_packets=40))
    until(lambda: any(row[3] == "195 G" for row in page.run(ROWS)))
    names = [row[0] for row in page.run(ROWS)]
    assert names[:3] == ["s1:1", "s1:2", "s1:3"]
    assert len(names) == 12
    page.run(CLICK, "#ports th:nth-child(4) button")  # tx
    assert page.run(ROWS)[0] == ["s3:2", "s2:3", "–", "195 G", "50 %", "–", "400 k", "–"]
    page.run(FILTER, "h3 s4")
    assert sorted(row[0] for row in page.run(ROWS)) == ["s1:4", "s2:1", "s2:4", "s4:1", "s4:2"]
    page.run(FILTER, "")
    assert len(page.run(ROWS)) == 12


def test_hops_of_flows_are_a_table_where_there_are_any(
    page: Browser, recorded: Any, until: Any
) -> None:
    until(lambda: page.text("#state") == "live")
    assert page.run("return document.querySelector('#hops').hidden")
    recorded.hops = HopsSeen((HOP,), possible=True)
    cells = "return [...document.querySelectorAll('#hops tbody td')].map((c) => c.textContent)"
    told = until(lambda: page.run(cells))
    assert told == ["h1 > h3", "5", "2 of 3", "s1:3", "512 B", "1.0 kB", "1.2 µs", ""]
    recorded.hops = HopsSeen(possible=True, problem="ask root")
    until(lambda: page.text("#hops tbody td") == "ask root")


def test_the_pointer_on_a_link_tells_both_directions(
    page: Browser, recorded: Any, sends: Any, until: Any
) -> None:
    recorded.set_port("s1", 1, sends(10_000_000, queue_bytes=2000, marked_packets=3))
    until(lambda: page.run(HALVES, "h1") == ["l0", "l2"])
    page.move_to('.link[data-a="h1"] .hit')
    told = until(lambda: page.text("#tooltip"))
    for part in ("h1 – s1:1", "400Gbps, 500ns one way", "s1:1 → h1", "97.6 Gb/s", "2.0 kB"):
        assert part in told
    hot = "return document.querySelector('#ports tr.hot')?.cells[0].textContent"
    assert page.run(hot) == "s1:1"


def test_the_pointer_on_a_port_tells_of_fast_cnps_where_there_are_any(
    page: Browser, recorded: Any, sends: Any, until: Any, tmp_path: Path
) -> None:
    file = tmp_path / "fast.yaml"
    file.write_text(
        "time_scale: 10000\n"
        "generator: leaf_spine\nspines: 2\nleaves: 2\nhosts_per_leaf: 2\n"
        "link: {rate: 400Gbps, delay: 500ns, queue: 1MB}\n"
        "classes: {roce: {dscp: 26, queue: 3, fast_cnp: true}}\n"
    )
    recorded.record = replace(recorded.record, run="w0002", topology=topologies.load(str(file)))
    until(lambda: page.text("#topology") == "fast")
    recorded.set_port(
        "s1", 1, sends(10_000_000, counters={"fast_cnps": {"sent": 55, "interval": 1147}})
    )
    page.move_to('[data-port="s1:1"]')
    until(lambda: "fast CNPs" in page.text("#tooltip"))
    assert "55" in page.text("#tooltip")
    page.move_to('[data-port="s1:2"]')
    until(lambda: "s1:2 to h2" in page.text("#tooltip"))
    assert "fast CNPs" not in page.text("#tooltip")


def test_the_end_of_the_run_and_of_the_server(page: Browser, recorded: Any, until: Any) -> None:
    recorded.is_up = False
    until(lambda: page.text("#state") == "waiting")
    assert "The run has ended (no run is up)" in page.text("#banner")
    recorded.is_up = True
    until(lambda: page.text("#state") == "live")
    assert page.run("return document.querySelector('#banner').hidden") is True


def test_text_of_a_topology_is_never_markup(
    browser: Browser, server: LoopbackServer, recorded: Any, until: Any
) -> None:
    recorded.record = recorded.record.__class__(
        "w0002", "<b>soft</b>", recorded.record.topology, recorded.record.addresses
    )
    browser.open(server.url)
    until(lambda: browser.text("#state") == "live")
    assert browser.text("#runtime") == "<b>soft</b>, real time"
    browser.open("about:blank")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_are_readable(page: Browser, theme: str) -> None:
    contrast = """
      document.documentElement.dataset.theme = arguments[0];
      const light = (colour) => {
        const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const of = (selector, property) =>
        light(getComputedStyle(document.querySelector(selector))[property]);
      const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      return [
        ratio(of("#ports td.port", "color"), of(".ports", "backgroundColor")),
        ratio(of("#description", "color"), of("body", "backgroundColor")),
        ratio(of('[data-node="s1"] .name', "fill"), of('[data-node="s1"] rect', "fill")),
      ];"""
    text, description, name = page.run(contrast, theme)
    page.run("delete document.documentElement.dataset.theme")
    assert min(text, name) > 7
    assert description > 4.5
