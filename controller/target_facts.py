"""What the controller must know about a target to speak its units.

Programs compare ticks and depths with installed numbers and never know which unit that is.
"""

from __future__ import annotations

from dataclasses import dataclass

BMV2_TICK_PS = 1_000_000
PACKET_DEPTH = None
MAX_DEPTH = (1 << 19) - 1


@dataclass(frozen=True)
class TargetFacts:
    """One target. The defaults are BMv2's.

    `tick_ps`: length of a P4 timestamp's tick, in real picoseconds. `depth_cell_bytes`: the unit of
    queue depths, None for packets. `priorities`: queues a port. `clone_classes`: whether a clone
    session may have a class of service. `reconciles`: whether it loads a changed program with its
    entries kept. `watches_ports`: whether it leaves out members of groups whose port is down (BMv2
    knows of no link that is down here: it goes down by a queue that drops everything).
    `digest_jitter_ns`: how much later than another of the same moment a digest may be heard.
    `time_scale`: real over fabric time.
    """

    tick_ps: int = BMV2_TICK_PS
    depth_cell_bytes: int | None = PACKET_DEPTH
    priorities: int = 1
    clone_classes: bool = False
    reconciles: bool = False
    watches_ports: bool = False
    digest_jitter_ns: int = 50_000_000
    time_scale: int = 1

    def ticks(self, fabric_ps: int) -> int:
        """Return a fabric duration (picoseconds) in ticks, at least 1."""
        return max(1, fabric_ps * self.time_scale // self.tick_ps)

    def depth(self, queued_bytes: int, packet_bytes: int) -> int:
        """Return a queue length (bytes) in the target's unit, within what P4 can compare.

        Where the unit is packets, `packet_bytes` says how large they are taken to be.
        """
        unit = self.depth_cell_bytes or packet_bytes
        return min(queued_bytes // unit, MAX_DEPTH)
