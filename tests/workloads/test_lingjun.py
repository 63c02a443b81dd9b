"""Jobs of the Lingjun dataset where they ran: lines of its format, none of its data."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

import topologies
from tests.topologies.test_lingjun import TOPO
from topologies import lingjun as networks
from topologies.document import parse_document
from topologies.import_file import ImportFailedError
from workloads import lingjun
from workloads.job_files import placed_jobs

JOB = """\
id,job_name,kind,model,gmt_job_submitted,gmt_job_running,gmt_job_finished
1,one,PyTorchJob,llm,2023/8/1 00:00,2023/8/1 00:05,2023/8/1 12:00
2,two,PyTorchJob,llm,2023/8/1 01:00,2023/8/1 01:05,
3,alone,PyTorchJob,llm,2023/8/1 01:00,2023/8/1 01:05,
4,never,PyTorchJob,llm,,,
"""
WORKER = """\
id,job_name,worker_name,replica_type,host_ip,RES
1,one,one-master-0,master,aa01,"{""nvidia.com/gpu"": 8}"
2,one,one-worker-0,worker,aa02,"{""nvidia.com/gpu"": 8}"
3,two,two-worker-0,worker,aa02,
4,two,two-worker-1,worker,aa03,
5,alone,alone-worker-0,worker,aa04,
6,alone,alone-worker-1,worker,elsewhere,
7,never,never-worker-0,worker,aa01,
8,never,never-worker-1,worker,aa02,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("topo", TOPO), ("job", JOB), ("worker", WORKER)):
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_jobs_are_those_of_several_hosts_that_ran(folder: Path) -> None:
    jobs = lingjun.read_jobs(folder)
    assert [(job.name, job.hosts) for job in jobs] == [("one", ("h1", "h2")), ("two", ("h2", "h3"))]
    assert lingjun.busiest(jobs) == datetime(2023, 8, 1, 1, 5)
    late = lingjun.placed(jobs, lingjun.moment("2023-08-01 12:00"))
    assert late.jobs == {"two": ("h2", "h3")} and late.left_out == ()


def test_workers_share_a_host_while_it_has_nics(folder: Path) -> None:
    jobs = lingjun.read_jobs(folder)
    at = lingjun.busiest(jobs)
    one = lingjun.placed(jobs, at)
    assert one.jobs == {"one": ("h1", "h2")} and one.left_out == ("two",)
    both = lingjun.placed(jobs, at, nics=2)
    assert both.jobs == {"one": ("h1", "h2"), "two": ("h2:1", "h3")}


def test_the_job_file_runs_on_the_imported_topology(folder: Path) -> None:
    sizes = networks.Sizes.of({"nics": 2, "spines": 2, "cores": 2})
    topology = topologies.loads(networks.text(folder / "topo.csv", folder / "net.yaml", sizes))
    jobs = lingjun.read_jobs(folder)
    text = lingjun.job_file(lingjun.placed(jobs, lingjun.busiest(jobs), nics=2), "64MB")
    found = placed_jobs(topology, parse_document(text, "jobs.yaml"))
    assert [(job.name, job.entry.placement) for job in found] == [
        ("job1", ["h1", "h2"]),
        ("job2", ["h2:1", "h3"]),
    ]
    assert found[0].declared.sets[0].bytes.tolist() == [64_000_000] * 2


def test_what_is_wrong_is_said(folder: Path) -> None:
    (folder / "job.csv").write_text(JOB.replace("2023/8/1 12:00", "noon"))
    with pytest.raises(ImportFailedError, match=r"job.csv:2: 'noon' is not a time"):
        lingjun.read_jobs(folder)
    (folder / "worker.csv").write_text(WORKER.replace("aa02", "bb").replace("aa03", "bb"))
    (folder / "job.csv").write_text(JOB)
    with pytest.raises(ImportFailedError, match="no job has workers on two hosts"):
        lingjun.read_jobs(folder)
    (folder / "job.csv").unlink()
    with pytest.raises(ImportFailedError, match=r"job.csv: can't be read: No such file"):
        lingjun.read_jobs(folder)
