"""Faults of a run's shared buffer: marks, pauses and headroom against its classes and links.

Bytes and times are the fabric's. What a port's class may have of the shared buffer is alpha times
what is free, at most alpha * shared / (1 + alpha) for one that is alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from topologies.buffers import headroom_bytes
from topologies.lint.findings import Remark, Severity
from topologies.units import format_size
from workloads.model import BufferSettings, RunFile

_ALPHA_ONE = 256


def alone_bytes(buffer: BufferSettings) -> int:
    """Return how much of the shared buffer one port's class can fill when it is alone."""
    return buffer.shared_bytes * buffer.alpha_q8 // (_ALPHA_ONE + buffer.alpha_q8)


def buffer_faults(run: RunFile) -> Iterator[Remark]:
    """Yield what is wrong with a run's shared buffer."""
    lossless = [each for each in run.topology.classes if each.lossless]
    if run.buffer is None:
        for each in lossless:
            message = (
                "lossless, and the run has no buffer: there are no pauses, so packets are lost"
            )
            right = "add one: buffer: {shared: 64MB, alpha: 1/8, headroom: formula}"
            yield Remark(Severity.WARNING, (), f"class {each.name}", message, right)
        return
    if lossless:
        yield from _headroom(run, run.buffer)
    elif run.buffer.headroom_bytes:
        message = "headroom is given, and no class is lossless: it is not used"
        path = ("buffer", "headroom")
        yield Remark(Severity.INFO, path, "buffer", message, "make a class lossless, or say none")


def _headroom(run: RunFile, buffer: BufferSettings) -> Iterator[Remark]:
    path = ("buffer", "headroom")
    if buffer.headroom_bytes == 0:
        message = "no headroom: what arrives after a pause was sent is lost"
        right = "headroom: formula keeps lossless classes lossless"
        yield Remark(Severity.WARNING, path, "buffer", message, right)
        return
    if buffer.headroom_bytes is None:
        return
    needed = {link: headroom_bytes(run.topology, link) for link in run.topology.links}
    short = [link for link in run.topology.links if needed[link] > buffer.headroom_bytes]
    for link in short:
        message = (
            f"{format_size(buffer.headroom_bytes)} of headroom are less than what still arrives "
            f"after a pause was sent, {format_size(needed[link])}"
        )
        right = "headroom: formula gives each port what its link needs"
        yield Remark(Severity.ERROR, path, f"{link.a}-{link.b}", message, right)
