"""Names of hosts: what is written for `ip netns exec`, and that all of it is removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation import host_names, run_state, teardown
from emulation.live_host import LiveHost
from emulation.run_state import Run

HOSTS = [
    LiveHost("h1", 1, "w1-h1", "10.0.1.1", "", "h1-eth0", "", "s1"),
    LiveHost("h1:1", 1, "w1-h1", "10.1.1.1", "", "h1-eth1", "", "s2"),
    LiveHost("h2", 2, "w1-h2", "10.0.1.2", "", "h2-eth0", "", "s1"),
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    monkeypatch.setattr(host_names, "ETC", tmp_path / "etc")
    monkeypatch.setattr(host_names, "NETNS_ETC", tmp_path / "etc" / "netns")
    lock, _ = teardown.claim()
    made = Run.start(lock, "two")
    yield made
    made.finish()


def test_every_host_knows_all(run: Run, tmp_path: Path) -> None:
    assert host_names.write(run, HOSTS)
    etc = tmp_path / "etc" / "netns"
    assert sorted(path.name for path in etc.iterdir()) == ["w1-h1", "w1-h2"]
    assert (etc / "w1-h2" / "hosts").read_text().splitlines() == [
        "# hosts of this run",
        "10.0.1.1 h1 h1-eth0",
        "10.1.1.1 h1-eth1",
        "10.0.1.2 h2 h2-eth0",
        "",
        "127.0.0.1 localhost",
    ]
    assert not (etc / "w1-h1" / "resolv.conf").exists()  # this machine has none to put it over


def test_it_goes_with_the_run_and_what_is_others_stays(run: Run, tmp_path: Path) -> None:
    (tmp_path / "etc" / "resolv.conf").write_text("nameserver 192.0.2.1\n")
    assert host_names.write(run, HOSTS)
    etc = tmp_path / "etc" / "netns"
    assert "nameserver" not in (etc / "w1-h1" / "resolv.conf").read_text()
    (etc / "w1-h1" / "nsswitch.conf").write_text("somebody's own\n")
    teardown.remove(run.record)
    assert [path.name for path in etc.rglob("*")] == ["w1-h1", "nsswitch.conf"]
    (etc / "w1-h1" / "nsswitch.conf").unlink()
    teardown.remove(run.record)
    assert not etc.exists()


def test_where_it_can_not_be_written_the_run_goes_on(run: Run, tmp_path: Path) -> None:
    (tmp_path / "etc" / "netns").write_text("a file where the folder should be")
    assert not host_names.write(run, HOSTS)
    (tmp_path / "etc" / "hosts").unlink()
    assert not host_names.write(run, HOSTS)
