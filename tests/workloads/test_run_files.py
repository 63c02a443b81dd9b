"""Run files: what ships loads; every mistake ends in one line with its place and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies import TopologyError, available
from workloads.loader import available_runs, load_run_file, read_run
from workloads.model import RunFile

TRAFFIC = """\
topology: leafspine
until: 20ms
buffer: {shared: 16MB, alpha: 1/8, headroom: formula, watchdog: 100ms}
controller: {delay: 1ms}
traffic:
  - cbr: {from: h1, to: h3, rate: 100Gbps}
  - incast: {to: h1, senders: 3, bytes: 64kB}
  - mix: {sizes: websearch, load: 50%, stop: 1ms}
  - message: {from: [h1, h2], to: h4, bytes: 1MB}
  - script: [{at: 1us, from: h1, to: h2, bytes: 100B}, {at: 2us, from: h1, hex: "%s"}]
"""

TRAFFIC = TRAFFIC.replace("%s", "0102030405060708090a0b0c0d0e")

JOB = """\
topology: fattree4
job:
  ranks: 16
  tp: 2
  pp: 2
  dp: 4
  ep: 2
  placement: stride
  phases:
    - compute: 10us
    - allreduce: {bytes: 1MB, over: dp}
    - alltoall: {bytes: 1MB, over: ep}
    - pipeline: {bytes: 1MB, microbatches: 4, forward: 1us, backward: 2us}
    - parallel: [{allgather: {bytes: 1MB, over: tp}}, {incast: {bytes: 1MB, root: 1}}]
"""

DUAL = """\
topology: dualplane
traffic: [{message: {from: h1, to: h2, bytes: 1MB}}]
job:
  ranks: 4
  phases: [{allreduce: {bytes: 1MB}}]
"""

# (text, what is replaced, by what, position and message of the one problem)
MISTAKES = [
    (TRAFFIC, "until: 20ms", "untl: 20ms", "2:1: untl: unknown key 'untl'; did you mean 'until'?"),
    (TRAFFIC, "until: 20ms", "until: 0ms", "2:1: until: has to be more than nothing"),
    (
        TRAFFIC,
        "until: 20ms",
        "until: 1ms\nrecord: {paths: {window: 15us}}",
        "3:18: record.paths.window: 15us is not a multiple of 'sample', 10us",
    ),
    (
        TRAFFIC,
        "until: 20ms",
        "until: 1ms\nsample: 1ms\nrecord: {paths: {}}",
        "4:10: record.paths.window: 100us is not a multiple of 'sample', 1ms: a window is made of "
        "samples; write for example sample: 100us",
    ),
    (
        TRAFFIC,
        "until: 20ms",
        "until: 1ms\nrecord: {paths: {window: 0us}}",
        "record.paths.window: has to be more than nothing",
    ),
    (TRAFFIC, "until: 20ms", "until: 1ms\nrecord: {}", "record: say what is recorded: paths:"),
    (
        TRAFFIC,
        "until: 20ms",
        "until: 1ms\nrecord: {paths: {windows: 1us}}",
        "3:18: record.paths.windows: unknown key 'windows'; did you mean 'window'?",
    ),
    (TRAFFIC, "until: 20ms", "until: 1ms\nsample: 0us", "3:1: sample: has to be more than nothing"),
    (TRAFFIC, "until: 20ms", "until: 20", "2:1: until: 20 has no unit: write 20 with one of ps"),
    (TRAFFIC, "until: 20ms\n", "", "5:5: traffic[0].cbr: sends without end: give the run 'until:"),
    (TRAFFIC, "leafspine", "leafspin", "1:1: topology: no topology 'leafspin'; did you mean 'leaf"),
    (TRAFFIC, "leafspine", "3", "1:1: topology: a topology is a name, a file, or the topology"),
    (TRAFFIC, "1/8", "1/7", "3:24: buffer.alpha: alpha is a multiple of 1/256, from 1/256 to 128"),
    (
        TRAFFIC,
        "1/8",
        "eighth",
        "3:24: buffer.alpha: 'eighth' is not an alpha: write a fraction such as",
    ),
    (
        TRAFFIC,
        "headroom: formula",
        "headroom: lots",
        "3:36: buffer.headroom: 'lots' is not a headroom",
    ),
    (TRAFFIC, "delay: 1ms", "dealy: 1ms", "4:14: controller.dealy: unknown key 'dealy'; did you"),
    (TRAFFIC, "- cbr:", "- cbrr:", "6:5: traffic[0].cbrr: unknown key 'cbrr'; did you mean 'cbr'?"),
    (TRAFFIC, "to: h3, rate", "to: h3, cat: 1, rate", "traffic[0].cbr.cat: unknown key 'cat': kn"),
    (
        TRAFFIC,
        "rate: 100Gbps",
        "rate: 0Gbps",
        "6:29: traffic[0].cbr.rate: a rate must be at least 1",
    ),
    (
        TRAFFIC,
        "to: h3",
        "to: h33",
        "6:21: traffic[0].cbr.to: no host is called 'h33'; did you mean",
    ),
    (TRAFFIC, "to: h3", "to: s3", "6:21: traffic[0].cbr.to: s3 is a switch"),
    (TRAFFIC, "to: h3", "to: 'h3:1'", "6:21: traffic[0].cbr.to: h3 has no interface '1': it has 0"),
    (TRAFFIC, "to: h3", "to: h1", "6:21: traffic[0].cbr.to: h1 would send to itself"),
    (TRAFFIC, "Gbps}", "Gbps, stop: 0us}", "traffic[0].cbr.stop: stop is not after start: nothing"),
    (TRAFFIC, "Gbps}", "Gbps, payload: 4096B}", "cbr.payload: 4096B do not fit the MTU of 1500B"),
    (TRAFFIC, "Gbps}", "Gbps, payload: 9000B}", "cbr.payload: must be at most 4096, not 9000B"),
    (TRAFFIC, "from: h1, to: h3, ", "to: h3, ", "6:5: traffic[0].cbr.from: 'from' is missing here"),
    (TRAFFIC, "senders: 3", "senders: 9", "7:22: traffic[1].incast.senders: 9 senders, but there"),
    (TRAFFIC, "senders: 3, ", "", "7:5: traffic[1].incast: say who sends: from: [h1, h2], or sen"),
    (TRAFFIC, "senders: 3", "from: [h2, h1]", "traffic[1].incast.from: h1 would send to itself"),
    (
        TRAFFIC,
        "bytes: 64kB",
        "rounds: 2",
        "7:5: traffic[1].incast: say what each sends: bytes: 64kB",
    ),
    (TRAFFIC, "sizes: websearch", "sizes: websurch", "mix.sizes: no flow-size mix 'websurch'; did"),
    (TRAFFIC, "load: 50%", "load: 0%", "8:29: traffic[2].mix.load: a share is more than 0% and at"),
    (
        TRAFFIC,
        "load: 50%",
        "load: much",
        "8:29: traffic[2].mix.load: 'much' is not a ratio: use 20%",
    ),
    (
        TRAFFIC,
        "load: 50%",
        "load: 50%, hosts: h1",
        "traffic[2].mix.hosts: a mix needs at least two",
    ),
    (
        TRAFFIC,
        "from: [h1, h2], to: h4",
        "from: [h1, hx], to: h4",
        "9:26: traffic[3].message.from[1]",
    ),
    (
        TRAFFIC,
        "bytes: 100B",
        "bytes: 20B",
        "script[0].bytes: a UDP frame has at least 42B of heade",
    ),
    (
        TRAFFIC,
        "bytes: 100B",
        "bytes: 2kB",
        "script[0].bytes: a frame of 2000B: the link's MTU allo",
    ),
    (
        TRAFFIC,
        ", bytes: 100B",
        "",
        "10:14: traffic[4].script[0]: say how long the frame is: bytes: 10",
    ),
    (TRAFFIC, '"0102', '"01:02 0g', "script[1]: 'hex' has to be pairs of hexadecimal digits, 0 to"),
    (
        TRAFFIC,
        '"0102030405060708',
        '"',
        "script[1]: a frame has at least 14 bytes (its Ethernet he",
    ),
    (
        TRAFFIC,
        "  - cbr: {",
        "  - {}\n  - cbr: {",
        "6:5: traffic[0]: one kind an entry: cbr, poisson,",
    ),
    (JOB, "ranks: 16", "ranks: 1", "3:3: job.ranks: must be at least 2, not 1"),
    (JOB, "ranks: 16", "ranks: 32", "3:3: job.ranks: tp x pp x dp = 2 x 2 x 4 = 16, not 32 ranks"),
    (
        JOB,
        "  dp: 4\n  ep: 2",
        "  ep: 3",
        "6:3: job.ep: ep 3 does not divide dp 4: experts are spread",
    ),
    (
        JOB,
        "tp: 2\n  pp: 2\n  dp: 4",
        "tp: 3\n  pp: 2",
        "3:3: job.ranks: tp x pp = 3 x 2 = 6 does not",
    ),
    (JOB, "ep: 2\n", "iterations: 1\n", "12:30: job.phases[2].alltoall.over: over ep, but the job"),
    (
        JOB,
        "placement: stride",
        "placement: strid",
        "8:3: job.placement: no placement 'strid'; did you",
    ),
    (
        JOB,
        "placement: stride",
        "placement: [h1, h2]",
        "8:3: job.placement: 2 hosts for 16 ranks: name",
    ),
    (
        JOB,
        "placement: stride",
        "placement: 4",
        "job.placement: a placement is linear, stride, random",
    ),
    (JOB, "placement: stride", "stride: 4", "8:3: job.stride: 'stride' is for placement: stride"),
    (
        JOB,
        "allreduce: {",
        "allreduc: {",
        "11:7: job.phases[1].allreduc: unknown key 'allreduc'; did",
    ),
    (JOB, "over: dp", "over: xp", "job.phases[1].allreduce.over: must be 'all', 'tp', 'pp', 'dp',"),
    (
        JOB,
        "{bytes: 1MB, over: dp}",
        "{bytes: 3B, over: dp}",
        "allreduce.bytes: 3B are too few for 4",
    ),
    (
        JOB,
        "{bytes: 1MB, over: dp}",
        "{over: dp}",
        "11:7: job.phases[1].allreduce.bytes: 'bytes' is mis",
    ),
    (
        JOB,
        "over: dp}",
        "over: dp, algorithm: star}",
        "allreduce.algorithm: must be 'ring', 'tree', 'hierarchical' or 'in-",
    ),
    (
        JOB,
        "1MB, over: dp}",
        "1MB, over: all, algorithm: hierarchical}",
        "allreduce: 'inside' goes with algorithm hierarchical: ranks in one place",
    ),
    (
        JOB,
        "1MB, over: dp}",
        "1MB, over: all, algorithm: hierarchical, inside: 16}",
        "allreduce.inside: 16 in each place, and groups of 16: no two places of so many",
    ),
    (
        JOB,
        "1MB, over: dp}",
        "1MB, over: all, algorithm: hierarchical, inside: 3}",
        "allreduce.inside: 3 in each place, and groups of 16: no two places of so many",
    ),
    (JOB, "  ep: 2\n", "  jitter: 0%\n", "job.jitter: a share is more than 0%"),
    (JOB, "over: ep}", "over: ep, fraction: 8}", "alltoall.fraction: 8 is not such a fraction"),
    (
        JOB,
        "over: ep}",
        "over: ep, fraction: 1/8}",
        "alltoall.fraction: one rank in 8: the groups have",
    ),
    (
        JOB,
        "root: 1",
        "root: 16",
        "14:77: job.phases[4].parallel[1].incast.root: root 16: the group",
    ),
    (JOB, "- compute: 10us", "- {compute: 1us, incast: {bytes: 1MB}}", "phases[0]: one kind a pha"),
    (JOB, "- compute: 10us", "- {compute: 1us, background: true}", "computing is never in the ba"),
    (JOB, "compute: 10us", "compute: 10", "10:7: job.phases[0].compute: 10 has no unit"),
    (
        JOB,
        "fattree4",
        "leafspine",
        "3:3: job.ranks: 16 ranks, but leafspine has 4 hosts: give at m",
    ),
    (JOB, "fattree4\n", "fattree4\njobs: [{ranks: 2, phases: [{compute: 1us}]}]\n", "not both"),
    (
        DUAL,
        "to: h2",
        "to: 'h2:1'",
        "2:32: traffic[0].message.to: h1 can't reach h2:1: no links join",
    ),
    (
        DUAL,
        "ranks: 4",
        "ranks: 8",
        "4:3: job.ranks: 8 ranks, but dualplane has 4 hosts: 'interfaces",
    ),
    (
        DUAL,
        "ranks: 4",
        "ranks: 8\n  interfaces: all",
        "rank 0 (h1) can't reach rank 1 (h1:1): no li",
    ),
    (
        DUAL,
        "ranks: 4",
        "ranks: 3\n  placement: [h1, h2, h1]",
        "placement[2]: h1 already runs rank 0",
    ),
    (
        DUAL,
        "ranks: 4",
        "ranks: 2\n  placement: [h1, h9]",
        "5:19: job.placement[1]: no host is call",
    ),
    (
        DUAL,
        "[{allreduce: {bytes: 1MB}}]",
        "[{compute: 1us}]",
        "5:3: job.phases: the job only comput",
    ),
    (DUAL, "[{allreduce: {bytes: 1MB}}]", "[]", "5:3: job.phases: must not be empty"),
    (
        TRAFFIC,
        "bytes: 64kB",
        "bytes: 64kB, rounds: 99999999",
        "incast.rounds: about 299999997 mess",
    ),
    (
        TRAFFIC,
        "bytes: 64kB",
        "bytes: 64kB, rounds: 3, every: 9000s",
        "the last one would come after",
    ),
    (TRAFFIC, "stop: 1ms", "stop: 900s", "8:40: traffic[2].mix.stop: about "),
    (TRAFFIC, "bytes: 1MB}", "bytes: 1MB, count: 20000000}", "count: about 40000"),
    (
        TRAFFIC,
        "bytes: 1MB}",
        "bytes: 2000GB}",
        "9:39: traffic[3].message.bytes: at most 1000GB at a tim",
    ),
    (TRAFFIC, "bytes: 100B}", "bytes: 100B, times: 9999999, every: 1ns}", "at most 1048576 times"),
    (TRAFFIC, "h1, to: h2, bytes: 100B", "all, to: h2, bytes: 100B", "no host is called 'all'"),
    (
        TRAFFIC,
        "until: 20ms",
        "until: 20000s",
        "2:1: until: a time in a run is at most 10000s, not 20",
    ),
    (
        TRAFFIC,
        "{from: h1, to: h3, rate: 100Gbps}",
        "null",
        "6:5: traffic[0]: cbr: is empty: say what",
    ),
    (
        JOB,
        "{bytes: 1MB, over: dp}",
        "",
        "11:7: job.phases[1]: allreduce: is empty: say what, as in",
    ),
    (
        JOB,
        "{bytes: 1MB, over: dp}",
        "{bytes: 1MB, repeat: 99999999}",
        "allreduce: about 1599999984 messages beside those of rings and all-to-alls up to here",
    ),
    (
        JOB,
        "{bytes: 1MB, over: dp}",
        "{bytes: 1MB, repeat: 2000000, channels: 64}",
        "allreduce: about 61472000000 messages up to here: a run has at most 4294967296",
    ),
    (
        JOB,
        "bytes: 1MB, microbatches: 4",
        "bytes: 1MB, microbatches: 9999999",
        "pipeline: about ",
    ),
]


@pytest.mark.parametrize("text", [TRAFFIC, JOB, DUAL])
def test_what_the_mistakes_are_made_in_is_right(text: str) -> None:
    assert isinstance(read_run(text), RunFile)


@pytest.mark.parametrize(("text", "old", "new", "expected"), MISTAKES)
def test_a_mistake_is_one_line(text: str, old: str, new: str, expected: str) -> None:
    assert old in text
    wrong = text.replace(old, new, 1)
    with pytest.raises(TopologyError) as raised:
        read_run(wrong, file="run.yaml")
    lines = str(raised.value).splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("run.yaml:")
    assert expected in lines[0]


def test_several_mistakes_are_all_told() -> None:
    wrong = TRAFFIC.replace("to: h3", "to: h9").replace("sizes: websearch", "sizes: email")
    with pytest.raises(TopologyError) as raised:
        read_run(wrong)
    assert [problem.field for problem in raised.value.problems] == [
        "traffic[0].cbr.to",
        "traffic[2].mix.sizes",
    ]


def test_two_jobs_share_no_host() -> None:
    text = "topology: leafspine\njobs:\n"
    job = "  - {name: %s, ranks: %d, placement: %s, phases: [{allreduce: {bytes: 1MB}}]}\n"
    read_run(text + job % ("a", 2, "linear") + job % ("b", 2, "[h1, h3]"))
    with pytest.raises(
        TopologyError, match=r"jobs\[1\].name: the name 'a' is taken by another job"
    ):
        read_run(text + job % ("a", 2, "linear") + job % ("a", 2, "linear"))
    with pytest.raises(TopologyError, match="3 ranks, but leafspine has 4 hosts, of which other"):
        read_run(text + job % ("a", 3, "linear") + job % ("b", 2, "[h1, h3]"))
    with pytest.raises(TopologyError, match="h1 already runs rank 0 of a: every rank needs its"):
        read_run(text + job % ("a", 2, "[h1, h2]") + job % ("b", 2, "[h1, h3]"))


def test_mistakes_of_an_inline_topology_have_their_place() -> None:
    text = "topology:\n  generator: single\n  hosts: 2\n  link: {rate: 0Gbps}\n"
    text += "traffic: [{message: {from: h1, to: h2, bytes: 1MB}}]\n"
    with pytest.raises(TopologyError, match=r"^run.yaml:4:10: link.rate: a rate must be at least"):
        read_run(text, file="run.yaml")


def test_events_of_the_run_stand_behind_the_topologys() -> None:
    text = "topology: leafspine\nevents: [{at: 1us, link: s1-s3, do: down}]\n"
    text += "traffic: [{message: {from: h1, to: h3, bytes: 1MB}}]\n"
    assert [event.says for event in read_run(text).topology.events] == ["s1-s3 down"]
    with pytest.raises(TopologyError, match=r"2:20: events\[0\].link: no link leads to 's9'"):
        read_run(text.replace("s1-s3", "s1-s9"))


def test_a_topology_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text("time_scale: 1\ngenerator: single\nhosts: 2\n")
    with pytest.raises(TopologyError, match="this is a topology, which says nothing of traffic"):
        load_run_file(path)
    with pytest.raises(TopologyError, match="this is a topology: write 'topology: leafspine' into"):
        load_run_file("leafspine")
    with pytest.raises(TopologyError, match="no such run file; did you mean 'allreduce-small'"):
        load_run_file("allreduce-smal")
    with pytest.raises(TopologyError, match="a run file is a mapping"):
        read_run("- 1\n")
    with pytest.raises(TopologyError, match="nothing to carry: give 'traffic', 'job' or 'prog"):
        read_run("topology: leafspine\n")


def test_a_topology_file_is_found_beside_the_run_file(tmp_path: Path) -> None:
    link = "{rate: 1Gbps, delay: 1us, queue: 1MB}"
    net = f"time_scale: 10\ngenerator: single\nhosts: 2\nlink: {link}\n"
    (tmp_path / "net.yaml").write_text(net)
    run = "topology: net.yaml\ntraffic: [{message: {from: h1, to: h2, bytes: 1MB}}]\n"
    (tmp_path / "run.yaml").write_text(run)
    found = load_run_file(tmp_path / "run.yaml").topology
    assert (found.name, found.time_scale, len(found.hosts)) == ("net", 1, 2)


@pytest.mark.parametrize("name", available_runs())
def test_a_shipped_run_file_loads(name: str) -> None:
    run = load_run_file(name)
    assert run.topology.time_scale == 1
    assert run.description
    assert name not in available()  # a run and a topology of one name would be hard to tell apart
