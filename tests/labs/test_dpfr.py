"""The lab dpfr: what dies is what the seed draws, who notices what, and its quick variants hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import topologies
from compiler import compile_p4
from controller.program import CompiledProgram
from experiments.api import Context, Runtime
from experiments.lab_code import Hooks
from experiments.loader import load
from hostagent.programs.frames import udp_frame
from hostagent.programs.program import Frame, Interface
from mechanisms import registry
from mechanisms.program import FABRIC
from simulator.flow_paths import FlowPaths
from simulator.prepared import PreparedFabric
from softswitch.jobs import in_child
from topologies.document import Document
from topologies.model import Topology
from workloads.loader import run_of
from workloads.plan import plan

LAB = Path(__file__).parents[2] / "labs" / "dpfr"
SETTINGS = {"cut_us": 300, "controller_us": 10_000, "bfd_us": 150_000}


def part(name: str) -> ModuleType:
    """Return a module beside the lab's checks.py."""
    checks = Hooks.of(LAB).get("checks")
    assert checks is not None
    return sys.modules[f"{checks.__module__.rpartition('.')[0]}.{name}"]


@pytest.fixture
def fat_tree() -> Topology:
    return topologies.loads(
        "time_scale: 1\ngenerator: fat_tree\nk: 4\nlink: {rate: 100Gbps, delay: 1us, queue: 1MB}\n"
    )


def test_every_variant_is_a_run_file() -> None:
    lab = load("dpfr")
    lab.check()
    assert len(lab.variants(Runtime.SIMULATOR)) == 6 * 5 + 6 + 2 * 2 + 2 + 5
    for runtime in (Runtime.SOFTSWITCH, Runtime.BMV2):
        assert [each.variant.name for each in lab.variants(runtime)] == [
            "dpfr-leaf-link-usual",
            "dpfr-spine-usual",
        ]


@pytest.mark.parametrize(
    ("kind", "links", "where"),
    [
        ("none", 0, set()),
        ("leaf-link", 1, {"leaf", "spine"}),
        ("core-link", 1, {"spine", "core"}),
        ("one-way", 1, {"spine", "core"}),
        ("spine", 4, {"leaf", "spine", "core"}),
        ("core", 4, {"spine", "core"}),
    ],
)
def test_the_seed_draws_what_dies(
    fat_tree: Topology, kind: str, links: int, where: set[str]
) -> None:
    found = [part("faults").fault(fat_tree, kind, seed) for seed in range(20)]
    assert {len(each.links) for each in found} == {links}
    ends = {end.node for each in found for link in each.links for end in (link.a, link.b)}
    assert {fat_tree.switch(node).role.value for node in ends} == where
    assert (len({each.says for each in found}) > 3) == (kind != "none")
    assert all(bool(each.towards) == (kind == "one-way") for each in found)
    assert found == [part("faults").fault(fat_tree, kind, seed) for seed in range(20)]


def test_what_a_fabric_has_not_can_not_die() -> None:
    leaf_spine = topologies.loads(
        "time_scale: 1\ngenerator: leaf_spine\nspines: 2\nleaves: 2\nhosts_per_leaf: 1\n"
        "link: {rate: 100Gbps, delay: 1us, queue: 1MB}\n"
    )
    with pytest.raises(ValueError, match="nothing that could die as 'core-link' says"):
        part("faults").fault(leaf_spine, "core-link", 1)


@pytest.mark.parametrize(
    ("repair", "cut", "one_way"),
    [
        ("nothing", None, None),
        ("dpfr", None, None),
        ("watch-ports", 0, None),
        ("controller", 10_000, None),
        ("bfd", 150_000, 150_000),
    ],
)
def test_who_notices_when(
    fat_tree: Topology, repair: str, cut: int | None, one_way: int | None
) -> None:
    faults = part("faults")
    for kind, after_us in (("core-link", cut), ("one-way", one_way)):
        found = faults.fault(fat_tree, kind, 1)
        made = list(faults.events(found, repair, SETTINGS))
        losses = [event for event in made if "loss" in event]
        downs = [event["at"] for event in made if event.get("do") == "down"]
        assert len(losses) == (after_us != 0)
        assert all(("towards" in event) == (kind == "one-way") for event in losses)
        assert downs == ([] if after_us is None else [f"{300 + after_us}us"])


# --- the probes -------------------------------------------------------------------------------


class Stand:
    """A host of which a test is the clock and the network."""

    def __init__(self, name: str, addresses: dict[str, int]) -> None:
        self.name, self.addresses, self.now_ns = name, addresses, 0
        self.counted: dict[str, int] = {}

    def listen_udp(self, port: int) -> None: ...

    def set_timer(self, token: int, at_ns: int) -> None: ...

    def count(self, name: str, by: int = 1) -> None:
        self.counted[name] = self.counted.get(name, 0) + by


ADDRESSES = {"h1": 0x0A000101, "h2": 0x0A000201}


def heard(arrivals: list[tuple[int, int]], end_ns: int, **settings: int) -> Any:
    """Return the gaps of a flow from h1 to h2 that arrives as (time, number) says."""
    probe = part("probe")
    (flow,) = [f for f in probe.flows(ADDRESSES, 1, 1) if f.target == "h2"]
    program, host = probe.Probe(every_ns=1000, ports=1, **settings), Stand("h2", ADDRESSES)
    program.started(host)
    interface = Interface(10**9, 1, 2, ADDRESSES["h1"], 1500)
    for at_ns, number in arrivals:
        said = probe.PAYLOAD.pack(0, number)
        frame = udp_frame(interface, ADDRESSES["h2"], flow.udp_port, probe.PORT, said)
        program.packet(host, Frame(frame, 0), at_ns)
    host.now_ns = end_ns
    program.stopped(host)
    return part("gaps").Gaps.of([{"counters": host.counted}], 1000)


def test_a_gap_is_from_arrival_to_arrival_and_counts_what_is_missing() -> None:
    found = heard([(1000, 0), (2000, 1), (9000, 8), (10_000, 9)], 11_000)
    assert (found.blackout_us, found.missing, found.for_good) == (7.0, 6, 0)


def test_a_flow_that_is_silent_at_the_end_is_cut_off_for_good() -> None:
    found = heard([(1000, 0), (2000, 1)], 6000)
    assert (found.blackout_us, found.for_good) == (None, 1)
    stopped = heard([(1000, 0), (2000, 1)], 6000, stop_ns=3000)
    assert (stopped.blackout_us, stopped.for_good) == (1.0, 0)


def test_gaps_before_the_fault_do_not_count() -> None:
    arrivals = [(1000, 0), (5000, 4), (6000, 5), (8000, 7)]
    assert heard(arrivals, 8000).blackout_us == 4.0
    assert heard(arrivals, 8000, after_ns=6000).blackout_us == 2.0


def test_nothing_heard_is_no_blackout_of_nothing() -> None:
    assert heard([], 5000).blackout_us is None


# --- the whole --------------------------------------------------------------------------------


@pytest.mark.long
def test_the_quick_variants_hold(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "weft"), "lab", "run", "dpfr", "--quick",
        "--seeds", "1", "--out", str(tmp_path / "out"), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads((tmp_path / "out" / "results.json").read_text())
    verdicts = {check["row"]: check["verdict"] for check in results["checks"]}
    for row in (
        "DPFR, core-link: longest blackout",
        "DPFR, core-link: flows cut off for good",
        "DPFR, core-link: failed queue pairs",
        "watch ports, core-link: flows cut off for good",
    ):
        assert verdicts[row] == "pass", row
    assert {each["file"] for each in results["figures"]} == {
        "blackout.png", "flows.png", "course.png",
    }  # fmt: skip


# --- many cuts --------------------------------------------------------------------------------


def test_cuts_are_of_all_links_between_switches_and_of_all_directions(fat_tree: Topology) -> None:
    cuts = part("cuts").Cuts
    found = list(cuts(fat_tree, 1).draw(1000))
    between = [
        link for link in fat_tree.links if all(fat_tree.is_switch(e.node) for e in (link.a, link.b))
    ]
    assert len(found) == len({cut.link for cut in found}) == len(between) == 32
    kinds = {
        "both" if not cut.towards else "up" if cut.towards == cut.upper.node else "down"
        for cut in found
    }
    assert kinds == {"both", "up", "down"}
    assert found == list(cuts(fat_tree, 1).draw(1000)) != list(cuts(fat_tree, 2).draw(1000))


def test_cuts_need_pods() -> None:
    leaf_spine = topologies.loads(
        "time_scale: 1\ngenerator: leaf_spine\nspines: 2\nleaves: 2\nhosts_per_leaf: 1\n"
        "link: {rate: 100Gbps, delay: 1us, queue: 1MB}\n"
    )
    with pytest.raises(ValueError, match="three tiers"):
        part("cuts").Cuts(leaf_spine, 1)


@pytest.fixture(scope="module")
def small() -> tuple[Any, Any, Any]:
    """Return the lab's cuts in a fabric of k = 4: its context, run file, and the fabric to be
    forked.
    """
    lab = load("dpfr")
    planned = next(v for v in lab.variants(Runtime.SIMULATOR) if v.variant.name == "cuts-8400ns")
    mapping = json.loads(json.dumps(planned.mapping))
    mapping["topology"]["k"] = 4
    run = run_of(Document("lab.yaml", mapping, {}), "cuts", lab.folder)
    made = CompiledProgram.of(compile_p4(FABRIC, defines=registry.defines(run.topology)))
    context = Context(
        "dpfr", lab.folder, planned.variant, mapping, 1, Runtime.SIMULATOR, 1, Path(), made
    )
    return context, run, PreparedFabric(run, made)


def test_every_flow_over_a_cut_is_hit_and_none_for_long(small: Any) -> None:
    """Both ways: each flow that crosses it. One way: what goes there; the rest loses nothing."""
    context, run, prepared = small
    many, cuts = part("many"), part("cuts").Cuts(run.topology, 1)
    paths = FlowPaths(prepared.set_up.topology, context.program, prepared.control.model.installed)
    kinds = set()
    for number, cut in enumerate(cuts.draw(8)):
        probes = tuple(cuts.probes(cut, paths, plan(run).flow(0)))
        play = many.Play(context, run, cut, probes, number)
        seen = in_child(lambda play=play: play.seen(prepared))  # type: ignore[misc]
        assert (len(seen.down), len(seen.up)) == ((3, 2) if seen.tier == "core" else (7, 4))
        assert all(us < 60 for us in seen.all)
        if cut.towards != cut.upper.node:
            assert all(us > 10 for us in seen.down), cut
        if cut.towards != cut.lower.node:
            assert all(us > 10 for us in seen.up), cut
        assert seen.found_dead == 2
        kinds.add((seen.tier, bool(cut.towards)))
    assert len(kinds) == 4, "of each kind"


def test_heartbeats_take_their_share_of_an_idle_link(small: Any) -> None:
    """84 bytes of wire in 8.4 us are 80 Mb/s: 0.02 % of 400 Gb/s."""
    share = in_child(lambda: part("many").share_of_links(*small))
    assert share == pytest.approx(0.0002, rel=1e-9)
