"""Jobs on a fabric of daemons: the ports that a scheduler is told of lead over spines of their own.

h1 h2 h3 h4 - s1 =< s3, s4, s5, s6 >= s2 - h5 h6 h7 h8      rank r + 1 is always on the other leaf
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulation.scheduler.client import JobsClient, JobsError
from emulation.scheduler.states import JobState
from tests.weft.prompt_lab import Lab, opened

pytestmark = [pytest.mark.root, pytest.mark.long]

FABRIC = """\
time_scale: 10000
generator: leaf_spine
spines: 4
leaves: 2
hosts_per_leaf: 4
link: {rate: 100Gbps, delay: 500ns, queue: 4MB}
iglb: PINNING
classes:
  roce: {dscp: 26, queue: 3}
  rest: {queue: 0}
"""
RING = "job: {ranks: 8, placement: stride, phases: [{allreduce: {bytes: 64MB}}]}"


def spines_of(lab: Lab, job: JobState) -> set[str]:
    """Return the spines that packets of s1's hosts take."""
    found = set()
    for pair in job.queue_pairs:
        if pair.source not in ("h1", "h2", "h3", "h4"):
            continue
        asked = ("path", pair.source, pair.target, "--udp-port", str(pair.udp_port))
        done = lab.other_terminal(*asked, "--count", "2", "--json")
        assert done.returncode == 0, done.stderr
        leaf, spine, _ = [hop["switch"] for hop in json.loads(done.stdout)["hops"]]
        assert leaf == "s1"
        found.add(spine)
    return found


@pytest.mark.parametrize("pinning", ["{pinning: ports}", "{pinning: entries}"])
def test_a_jobs_queue_pairs_share_no_link(tmp_path: Path, pinning: str) -> None:
    net, file = tmp_path / "net.yaml", tmp_path / "ring.yaml"
    net.write_text(FABRIC.replace("PINNING", pinning))
    file.write_text(RING)
    with opened(tmp_path, "softswitch", str(net)) as lab:
        said = lab.do(f"job submit {file}")
        assert "ring: 8 ranks on h1 h5 h2 h6 h3 h7 h4 h8; 8 queue pairs" in said
        assert "quality 1.000" in said
        address = json.loads(lab.other_terminal("job", "list", "--json").stdout)["address"]
        with JobsClient(address) as jobs:
            (job,) = jobs.jobs().jobs
            assert all(pair.by_entry is ("entries" in pinning) for pair in job.queue_pairs)
            assert len(spines_of(lab, job)) == 4, "each of four has an uplink to itself"
            assert " 0 updates written" in lab.do("controller restart"), "all was there"
            (again,) = jobs.jobs().jobs
            assert [p.udp_port for p in again.queue_pairs] == [p.udp_port for p in job.queue_pairs]
            if "ports" in pinning:
                assert len(spines_of(lab, again)) == 4
            with pytest.raises(JobsError, match="of which other jobs leave 0"):
                jobs.submit(RING, name="another")
            assert jobs.end("ring").jobs == ()
        assert lab.do("job list").startswith("no jobs run")
        assert "error: no job 'ring' runs" in lab.do("job end ring")
