"""How busy switches take their ports to be, read from their registers in the middle of traffic."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mechanisms import registry
from mechanisms.dlb.entries import PACKETS_A_BAND, SHARE
from simulator.runner import Simulation
from tests.mechanisms.dlb.test_policies import RUN, TWO_TIERS, message, permutation, program
from workloads.loader import read_run

PACKET_NS = (4154 + 24) * 8 / 100
FRACTION = 16


@dataclass(frozen=True)
class Port:
    """A port's registers: busy until and sent lately (1/65536 ns), when computed (ns), its band."""

    until: int
    lately: int
    when: int
    band: int


def stopped(traffic: list[str], until_us: int, policy: str = "packet-dlb") -> Simulation:
    text = RUN.format(
        shape=TWO_TIERS, delay="500ns", balancing=f", load_balancing: {policy}", more="",
        until=until_us, events="", traffic="\n".join(traffic),
    )  # fmt: skip
    run = read_run(text)
    simulation = Simulation(run, program(registry.defines(run.topology)), seed=1)
    simulation.run()
    return simulation


def ports_of(simulation: Simulation, switch: str, count: int) -> list[Port]:
    device = simulation.fabric.switches[switch].device
    assert device.pipeline is not None
    registers = simulation.control.program.p4info.registers
    schema = device.pipeline.schema.registers

    def cell(name: str, index: int) -> int:
        return device.core.register_get(schema[registers[name].id].index, index)

    planes = [cell("dlb_bands", bit) for bit in range(4)]
    found = []
    for number in range(count):
        busy = cell("dlb_busy", number)
        band = sum((plane >> number & 1) << bit for bit, plane in enumerate(planes))
        found.append(
            Port(busy >> 64, busy >> 32 & 0xFFFFFFFF, busy & 0xFFFFFFFF, band),
        )
    return found


def band_of(port: Port, share: int, unit: int) -> int:
    """Return floor(log2) + 1 of what is ahead, in units; 0 for less than one, 15 at most."""
    ahead = port.until - (port.when << FRACTION) + (port.lately >> share)
    return min(15, (ahead >> FRACTION >> unit).bit_length())


@pytest.mark.parametrize("at_us", [20, 77, 160])
def test_bands_are_what_the_registers_say(at_us: int) -> None:
    """Overload: 8 hosts at line rate on 4 uplinks, so that queues grow through many bands."""
    simulation = stopped([message(host, 8 + host, 900) for host in range(1, 9)], at_us)
    unit = int(PACKET_NS * PACKETS_A_BAND).bit_length() - 1
    found = ports_of(simulation, "s1", 4)
    assert [port.band for port in found] == [band_of(port, SHARE, unit) for port in found]
    assert max(port.band for port in found) >= (1 if at_us < 50 else 2)


def test_what_is_ahead_of_a_port_is_its_queue() -> None:
    """Twice what four links carry: the other half waits, less what is in flight to the switch."""
    at_us = 100
    simulation = stopped([message(host, 8 + host, 900) for host in range(1, 9)], at_us)
    found = ports_of(simulation, "s1", 4)
    ahead_us = sum((port.until >> FRACTION) - port.when for port in found) / 1000
    assert ahead_us == pytest.approx(4 * (at_us - 1), rel=0.05)


def test_an_idle_port_is_found_idle_by_others_packets() -> None:
    """Spines send to their leaves: the one that nobody sends to any more falls back to band 0."""
    simulation = stopped(permutation(16, 1, packets=50), 60)
    for port in ports_of(simulation, "s1", 4):
        assert port.band == 0
