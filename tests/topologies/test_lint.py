"""Each fault that the lint knows, made by one change to a good topology, and told at its place."""

from __future__ import annotations

import pytest

import topologies
from mechanisms import registry
from topologies.lint.findings import Finding, Severity
from topologies.lint.topology import LintReport, lint
from topologies.loader import Source, load_source, read

#   h1, h2 - s1 - s3, s4 - s2 - h3, h4        every host has an interface at s1 and at s2
GOOD = """\
time_scale: 100000
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
classes:
  cnp: {dscp: 48, queue: 7}
  roce: {dscp: 26, queue: 3, lossless: true, ecn: 200kB}
switches: [s1, s2, {name: s3, role: spine}, {name: s4, role: spine}]
hosts: [h1, h2]
links:
  - {a: h1, b: s1:1}
  - {a: h2, b: s1:2}
  - {a: h1:1, b: s2:1}
  - {a: h2:1, b: s2:2}
  - {a: s1:3, b: s3:1}
  - {a: s1:4, b: s4:1}
  - {a: s2:3, b: s3:2}
  - {a: s2:4, b: s4:2}
"""

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

# (what is replaced, by what, severity, line and column, start of the message, part of the advice)
FAULTS = [
    (
        "{a: h1, b: s1:1}",
        "{a: h1, b: s1:1, rate: 800Gbps}",
        WARNING,
        (9, 5),
        "h1-s1:1: at 800Gbps the host sends faster than any uplink of its leaf (400Gbps)",
        "at least the hosts' rate",
    ),
    (
        "b: s4:1}",
        "b: s4:1, rate: 200Gbps}",
        WARNING,
        (14, 5),
        "s1:4-s4:1: 200Gbps, where the uplinks of s1 to its spine switches have 400Gbps",
        "give them one rate",
    ),
    (
        "b: s4:1}",
        "b: s4:1}\n  - {a: s1:5, b: s4:3, rate: 100Gbps}",
        WARNING,
        (15, 5),
        "s1:5-s4:3: 100Gbps, where the links between s1 and s4 have 400Gbps",
        "give them one rate",
    ),
    (
        "b: s4:1}",
        "b: s4:1, delay: 2us}",
        WARNING,
        (14, 5),
        "s1:4-s4:1: delay 2us, where the uplinks of s1 to its spine switches have 500ns",
        "give them one delay",
    ),
    (
        "b: s4:1}",
        "b: s4:1, rate: 200Gbps}",
        WARNING,
        (6, 12),
        "s1: oversubscribed 1.33:1 upwards",
        "would make it 1:1",
    ),
    (
        "b: s3:1}",
        "b: s3:1, mtu: 1000B}",
        ERROR,
        (13, 5),
        "s1:3-s3:1: MTU 1000 B, and hosts send packets of 1500 B",
        "give it mtu: 1500B",
    ),
    (
        "{a: h1, b: s1:1}",
        "{a: h1, b: s1:1, mtu: 1400B}",
        WARNING,
        (9, 5),
        "h1-s1:1: MTU 1400 B, where the other hosts have 1500 B",
        "give it mtu: 1500B",
    ),
    (
        "b: s3:1}",
        "b: s3:1, queue: 2kB}",
        ERROR,
        (13, 5),
        "s1:3-s3:1: a queue of 2kB does not hold 2 full packets",
        "3kB is the least",
    ),
    (
        "b: s3:1}",
        "b: s3:1, queue: 40kB}",
        WARNING,
        (13, 5),
        "s1:3-s3:1: a queue of 40kB is shorter than what is in flight over this link",
        "queue: 50kB or more",
    ),
    (
        "queue: 7}",
        "}",
        ERROR,
        (4, 3),
        "class cnp: no queue serves it",
        "give it queue: 0 to 7",
    ),
    (
        "queue: 7}",
        "queue: 2}",
        WARNING,
        (4, 19),
        "class cnp: congestion notifications in queue 2 wait behind 'roce' in queue 3",
        "the highest queue, 7",
    ),
    (
        "queue: 7}",
        "queue: 7, lossless: true}",
        WARNING,
        (4, 29),
        "class cnp: congestion notifications in a lossless class",
        "make it lossy",
    ),
    (
        "queue: 7}",
        "queue: 7, weight: 2}",
        WARNING,
        (4, 29),
        "class cnp: congestion notifications in a queue that shares",
        "leave weight out",
    ),
    (
        "switches: [s1",
        "  more: {dscp: 27, queue: 3, lossless: true, ecn: 200kB, weight: 1}\nswitches: [s1",
        ERROR,
        (6, 58),
        "class more: shares queue 3 with 'roce', and their weights differ",
        "a queue each",
    ),
    ("dscp: 48, ", "", WARNING, (4, 3), "class cnp: no DSCP is mapped to it", "give it a dscp"),
    (
        "dscp: 48",
        "dscp: 47",
        WARNING,
        (3, 1),
        "classes: no class has DSCP 48",
        "cnp: {dscp: 48, queue: 7}",
    ),
    (
        "dscp: 26, ",
        "",
        ERROR,
        (5, 3),
        "class roce: lossless, and no DSCP is mapped to it",
        "the DSCP that RoCE uses",
    ),
    (
        "queue: 3,",
        "queue: 0,",
        ERROR,
        (5, 20),
        "class roce: lossless in queue 0, which serves every unmapped DSCP too",
        "a queue of its own",
    ),
    (
        "ecn: 200kB",
        "ecn: 1MB",
        ERROR,
        (5, 46),
        "class roce: ECN marks above 1MB, and the shortest queue ends at 1MB",
        "well below",
    ),
    (
        "switches: [s1",
        "  bulk: {dscp: 10, queue: 3}\nswitches: [s1",
        ERROR,
        (6, 20),
        "class bulk: shares queue 3 with 'roce', and only one is lossless",
        "a queue of its own",
    ),
    (
        "switches: [s1",
        "  more: {dscp: 27, queue: 3, lossless: true}\nswitches: [s1",
        ERROR,
        (6, 3),
        "class more: shares queue 3 with 'roce', and their ecn differs",
        "a queue each",
    ),
    (
        "[h1, h2]",
        "[h1, h2, h3]\n",
        INFO,
        (7, 1),
        "h3: one link: it, its port and its leaf are single points of failure",
        "a second interface",
    ),
    (
        "role: spine}]",
        "role: spine}, s5]",
        WARNING,
        (6, 70),
        "s5: has no link",
        "leave it out",
    ),
    (
        "role: spine}]",
        "role: spine}, s5]",
        ERROR,
        (7, 17),
        "h1 and h3: no way between them; 2 pairs of hosts can't reach each other",
        "join their switches",
    ),
    (
        "role: spine}]",
        "role: spine}, s5, s6]",
        WARNING,
        (6, 70),
        "s5: a single point of failure: without it h1 and h3 can't reach each other",
        "a second way",
    ),
    (
        "time_scale: 100000",
        "time_scale: 1000",
        WARNING,
        (1, 1),
        "time_scale 1000: a full packet on the fastest link takes 0.031 ms of real time",
        "time_scale: 4000 or more",
    ),
    (
        "time_scale: 100000",
        "time_scale: 10000",
        INFO,
        (1, 1),
        "time_scale 10000: a full packet on the fastest link takes 0.31 ms of real time",
        "time_scale: 40000 or more",
    ),
    (
        "time_scale: 100000",
        "time_scale: 100",
        WARNING,
        (1, 1),
        "time_scale 100: with all hosts at line rate (16000 Mb/s) switches forward",
        "run it in the simulator",
    ),
    (
        "b: s3:1}",
        "b: s3:1, length: 20km, queue: 20MB}",
        WARNING,
        (1, 1),
        "time_scale 100000: the link s1:3-s3:1 delays by 10 s of real time",
        "shorter link",
    ),
    (
        "time_scale: 100000",
        f'time_scale: 9999\ntickers: [{{period: 10ns, packet: "{"ff" * 60}"}}]',
        WARNING,
        (2, 12),
        "time_scale 9999: ticks every 99990ns of real time; one machine keeps 100us and more",
        "time_scale: 10000 would do",
    ),
]

# A host that the fault needs beside what is replaced, at the end of the file.
EXTRA = {
    "h3: one link": "  - {a: h3, b: s1:5}\n",
    "s5: has no link": "",
    "h1 and h3: no way": "  - {a: h3, b: s5:1}\n",
    "s5: a single point": "  - {a: s5:1, b: s3:3}\n  - {a: s5:2, b: s6:2}\n  - {a: h3, b: s6:1}\n",
}


def report(source: Source) -> LintReport:
    """Return what the rules and the mechanisms report."""
    return lint(source, registry.remarks(source.topology))


def findings(text: str) -> tuple[Finding, ...]:
    return report(read(text, file="net.yaml")).findings


def test_the_good_one_is_good() -> None:
    assert findings(GOOD) == ()
    found = report(read(GOOD))
    assert found.is_good(strict=True)
    assert [str(tier) for tier in found.tiers] == ["leaf 1:1"]


@pytest.mark.parametrize(("old", "new", "severity", "at", "message", "right"), FAULTS)
def test_a_fault_is_found_and_placed(
    old: str, new: str, severity: Severity, at: tuple[int, int], message: str, right: str
) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    for start, links in EXTRA.items():
        if message.startswith(start):
            text = text.replace("[h1, h2]", "[h1, h2, h3]") if links else text
            text += links
    found = [each for each in findings(text) if each.message.startswith(message)]
    assert len(found) == 1, "\n".join(str(each) for each in findings(text))
    (finding,) = found
    assert (finding.severity, (finding.line, finding.column)) == (severity, at)
    assert right in finding.right
    assert str(finding).startswith(f"net.yaml:{at[0]}:{at[1]}: {severity.value}: {message}")


def test_an_only_link_between_two_switches_is_a_single_point() -> None:
    text = """\
time_scale: 100000
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
switches: [s1, s2]
hosts: [h1, h2]
links: [{a: h1, b: s1:1}, {a: h2, b: s2:1}, {a: s1:2, b: s2:2}]
"""
    warnings = [each for each in findings(text) if each.severity is WARNING]
    assert [str(each) for each in warnings] == [
        "net.yaml:5:45: warning: s1:2-s2:2: a single point of failure: without it h1 and h2 can't "
        "reach each other; a second link would survive its failure"
    ]
    twice = text.replace("b: s2:2}]", "b: s2:2}, {a: s1:3, b: s2:3}]")
    assert not [each for each in findings(twice) if each.severity is WARNING]


def test_what_many_have_in_common_is_said_once_and_worst_first() -> None:
    text = (
        "time_scale: 1000\ngenerator: leaf_spine\nspines: 1\nleaves: 4\nhosts_per_leaf: 4\n"
        "link: {rate: 400Gbps, delay: 500ns, queue: 2kB}\n"
    )
    found = findings(text)
    severities = [list(Severity).index(each.severity) for each in found]
    assert severities == sorted(severities)
    (queue,) = [each for each in found if "does not hold" in each.message]
    assert queue.message.startswith("h1-s1:1, h2-s1:2, h3-s1:3 and 17 more: a queue of 2kB")
    assert (queue.line, queue.column) == (6, 1)
    (narrow,) = [each for each in found if "oversubscribed" in each.message]
    assert narrow.message == "s1, s2, s3 and 1 more: oversubscribed 4:1 upwards"
    (spine,) = [each for each in found if "a single point of failure" in each.message]
    assert spine.message.startswith("s5: a single point of failure: without it h1 and h5")


def test_a_long_haul_that_is_less_than_its_hosts_is_stated() -> None:
    text = (
        "time_scale: 10000\ngenerator: data_centres\ncentres: 3\nspines: 2\nleaves: 2\n"
        "hosts_per_leaf: 4\nlink: {rate: 400Gbps, delay: 500ns, queue: 1GB}\n"
        "long_link: {rate: 200Gbps, length: 100km}\n"
    )
    (said,) = [each for each in findings(text) if "long haul" in each.message]
    assert said.severity is INFO
    assert said.message == (
        "dc 1, dc 2, dc 3: the long haul is oversubscribed 8:1: "
        "3200Gbps of hosts, 400Gbps out of it"
    )


@pytest.mark.parametrize("name", topologies.available())
def test_shipped_topologies_have_no_errors_and_no_warnings(name: str) -> None:
    assert report(load_source(name)).is_good(strict=True)


def test_planes_that_share_only_hosts_are_no_fault() -> None:
    found = report(load_source("dualplane"))
    assert not [each for each in found.findings if "no way" in each.message]
    assert not [each for each in found.findings if "single point" in each.message]
