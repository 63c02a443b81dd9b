"""Plans over P4Runtime: a session that is lost in mid-batch, another controller, a new one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator

import pytest

from controller import FabricController
from controller.entries import DefaultEntry, TableEntry
from controller.errors import ControllerError
from controller.jobs import JobsEnded, JobsSubmitted
from controller.session import SwitchSession
from mechanisms.iglb.entries import PIN_TABLE, PLAN_TABLE
from mechanisms.iglb.learner import PlannedPaths
from tests.free_port import free_port
from tests.mechanisms.iglb.held import renamed, ring
from tests.simulator.fabric_program import fabric_program
from topologies.loader import loads
from topologies.model import Topology

TOPOLOGY = """
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
time_scale: 1
link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
iglb: true
"""
PATIENCE_S = 30


class Daemons:
    """A process for each switch of the topology."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.addresses = {each.name: f"127.0.0.1:{free_port()}" for each in topology.switches}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in self.addresses:
            self.start(name)

    def start(self, name: str) -> None:
        number = str(self.topology.switch(name).device_id)
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", "softswitch", "--device-id", number, "--no-p4", "--",
             "--grpc-server-addr", self.addresses[name], "--cpu-port", "255"],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(PATIENCE_S)


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    made = Daemons(loads(TOPOLOGY))
    yield made
    made.stop()


async def connected(daemons: Daemons, **more: dict[str, int]) -> FabricController:
    """Connect as soon as all of them listen."""
    for _ in range(10 * PATIENCE_S):
        controller = FabricController(
            daemons.topology, daemons.addresses, fabric_program(), timeout=5, **more
        )
        try:
            return await controller.__aenter__()
        except ControllerError:
            await asyncio.sleep(0.1)
    raise AssertionError("the switches do not listen")


def learner_of(controller: FabricController) -> PlannedPaths:
    found = controller.loop.learners["iglb"]
    assert isinstance(found, PlannedPaths)
    return found


async def held(controller: FabricController, switch: str) -> tuple[int, dict[object, object]]:
    """Return which version a switch follows, and its pins."""
    (told,) = await controller.read_entries(switch, PLAN_TABLE)
    assert isinstance(told, DefaultEntry)
    pins = await controller.read_entries(switch, PIN_TABLE)
    found = {each.key: each.action for each in pins if isinstance(each, TableEntry)}
    return dict(told.action.arguments).get("number", 0), found


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(10 * PATIENCE_S):
        if await what():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not happen in time")


@pytest.mark.long
def test_a_session_lost_in_mid_batch_leaves_the_plan_before(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ring(daemons.topology, by=2, pairs=8)
    more = renamed(job, "more")
    write = SwitchSession.write

    async def cut(session: SwitchSession, updates):  # type: ignore[no-untyped-def]
        """s2 takes half of the pins, and is gone with all that it had."""
        if session.name == "s2" and len(updates) > 1:
            await write(session, updates[: len(updates) // 2])
            daemons.kill("s2")
            updates = updates[len(updates) // 2 :]
        await write(session, updates)

    async def scenario() -> None:
        controller = await connected(daemons)
        try:
            await controller.bring_up()
            await controller.schedule(JobsSubmitted((job,)))
            before = {name: await held(controller, name) for name in ("s1", "s2")}
            assert before["s1"][0] == 1 and len(before["s1"][1]) == 16
            monkeypatch.setattr(SwitchSession, "write", cut)
            await controller.schedule(JobsSubmitted((more,)))
            monkeypatch.setattr(SwitchSession, "write", write)
            assert "s2" in learner_of(controller).trouble
            assert await controller.planned("more") is None
            assert await held(controller, "s1") == before["s1"]
            daemons.start("s2")

            async def restored() -> bool:
                try:
                    await controller.restore("s2")
                except ControllerError:
                    return False
                return True

            await until(restored)

            async def in_force() -> bool:
                return await controller.planned("more") is not None

            await until(in_force)
            for name in ("s1", "s2"):
                version, pins = await held(controller, name)
                assert version == learner_of(controller).in_force.version > 1
                assert len([key for key in pins if f"value={version})" in str(key)]) == 32
        finally:
            await controller.close()

    asyncio.run(scenario())


@pytest.mark.long
def test_another_controller_that_has_a_switch_keeps_plans_from_changing(daemons: Daemons) -> None:
    job = ring(daemons.topology, by=2)

    async def scenario() -> None:
        controller = await connected(daemons)
        other = None
        try:
            await controller.bring_up()
            await controller.schedule(JobsSubmitted((job,)))
            before = [await held(controller, name) for name in ("s1", "s2")]
            session = controller.sessions["s2"]
            other = SwitchSession(
                "s2", daemons.addresses["s2"], session.device_id, session.program,
                election_id=session.election_id + 5,
            )  # fmt: skip
            await other.connect()

            async def lost() -> bool:
                return not session.is_primary

            await until(lost)
            await controller.schedule(JobsSubmitted((renamed(job, "more"),)))
            assert [await held(controller, name) for name in ("s1", "s2")] == before
            await other.close()
            other = None

            async def in_force() -> bool:
                return await controller.planned("more") is not None

            await until(in_force)
            assert len({(await held(controller, name))[0] for name in ("s1", "s2")}) == 1
        finally:
            if other is not None:
                await other.close()
            await controller.close()

    asyncio.run(scenario())


def test_without_a_controller_switches_go_on_and_a_new_one_takes_them_over(
    daemons: Daemons,
) -> None:
    job = ring(daemons.topology, by=2)

    async def scenario() -> None:
        first = await connected(daemons)
        await first.bring_up()
        for _ in range(2):  # the same again: another version
            await first.schedule(JobsSubmitted((job,)))

        async def swept() -> bool:
            return all([len((await held(first, name))[1]) == 4 for name in ("s1", "s2")])

        await until(swept)
        before = [await held(first, name) for name in ("s1", "s2")]
        assert [version for version, _ in before] == [2, 2]
        await first.close()
        second = await connected(daemons)
        try:
            assert [await held(second, name) for name in ("s1", "s2")] == before
            up = await second.bring_up((job,))
            assert sum(up.written.values()) == 0
            assert [await held(second, name) for name in ("s1", "s2")] == before
            await second.schedule(JobsEnded(("ring",)))
            assert (await held(second, "s1"))[0] == 0
        finally:
            await second.close()

    asyncio.run(scenario())
