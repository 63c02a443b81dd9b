"""What is run and what is seen: rounds of packets over one set of entries, and their answers.

A round starts on a fresh switch: `setup` are updates by name (softswitch.p4runtime.named_updates),
then the packets come one after the other, each once the switch has done with the last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]

PORTS = (0, 1, 2, 3, 4)
"""The ports that have an interface; what is sent to others vanishes. A program that sets no port
sends to port 0."""

CPU_PORT = 255


class VectorFileError(Exception):
    """A file of entries or vectors that can't be used; the message says where and why."""


@dataclass(frozen=True)
class Packet:
    """One packet: it comes in by `port`, or with `metadata` from the controller."""

    port: int
    data: bytes
    metadata: Mapping[str, int] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the packet as a case's `in`."""
        if self.metadata is not None:
            return {"packet_out": {"hex": self.data.hex(), "metadata": dict(self.metadata)}}
        return {"port": self.port, "hex": self.data.hex()}


@dataclass(frozen=True)
class Round:
    """Entries, and the packets that meet them in order."""

    setup: tuple[Json, ...]
    packets: tuple[Packet, ...]


@dataclass(frozen=True)
class Seen:
    """What a switch made of one packet.

    Frames by port in order; packet-ins as (payload, metadata); digests as (name, rows).
    """

    frames: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict)
    packet_ins: tuple[tuple[bytes, tuple[tuple[str, int], ...]], ...] = ()
    digests: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = ()

    @property
    def count(self) -> int:
        """How many things came out."""
        return sum(map(len, self.frames.values())) + len(self.packet_ins) + len(self.digests)


@dataclass
class Answer:
    """What one pairing made of a round.

    `refused`: by update, why it was refused, or "". `cells`: counters and registers by name at the
    end; `registers` says whether those of registers are among them. `died`: why it ended early.
    `undefined`: packets that made the program do what has no defined outcome.
    """

    seen: list[Seen]
    refused: list[str]
    cells: dict[str, int]
    registers: bool = False
    died: str = ""
    undefined: set[int] = field(default_factory=set)


def read_entries(path: Path) -> tuple[Json, ...]:
    """Read the updates of a file: a list, or the `setup` of vectors.

    Raises VectorFileError, OSError.
    """
    data = _load(path)
    updates = data.get("setup") if isinstance(data, dict) else data
    if not isinstance(updates, list) or not all(isinstance(u, dict) for u in updates):
        raise VectorFileError(f"{path}: no list of updates, and no object with one as `setup`")
    return tuple(updates)


def read_vectors(path: Path) -> tuple[Round, list[Json]]:
    """Read a round, and the recorded answer of each packet. Raises VectorFileError, OSError."""
    data = _load(path)
    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        raise VectorFileError(f"{path}: no object with a list of `cases`")
    packets: list[Packet] = []
    for number, case in enumerate(data["cases"]):
        try:
            packets.append(_packet(case["in"]))
        except (KeyError, TypeError, ValueError) as error:
            raise VectorFileError(
                f"{path}: cases[{number}]: `in` is not one packet with `port` and `hex`, nor a "
                f"`packet_out` ({error})"
            ) from error
    return Round(read_entries(path), tuple(packets)), data["cases"]


def write_vectors(
    path: Path, program: str, recorded_with: str, round_: Round, answers: Sequence[Seen], note: str
) -> None:
    """Write a round and its answers as tests/golden/*.vectors.json has them.

    A packet that the switch did not live to answer has no `out`.
    """
    answered = [seen_as_json(seen) for seen in answers]
    unanswered: list[dict[str, Any]] = [{}] * (len(round_.packets) - len(answered))
    cases = [
        {"name": f"packet-{number}", "in": packet.as_json(), **answer}
        for number, (packet, answer) in enumerate(
            zip(round_.packets, answered + unanswered, strict=True)
        )
    ]
    document = {
        "program": program,
        "recorded_with": recorded_with,
        "note": note,
        "ports": list(PORTS),
        "cpu_port": CPU_PORT,
        "setup": list(round_.setup),
        "cases": cases,
        "counters": [],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def seen_as_json(seen: Seen) -> dict[str, Any]:
    """Return the `out`, `packet_in` and `digest` of a case."""
    result: dict[str, Any] = {
        "out": [
            {"port": port, "hex": frame.hex()}
            for port, frames in sorted(seen.frames.items())
            for frame in frames
        ]
    }
    if seen.packet_ins:
        result["packet_in"] = [
            {"hex": payload.hex(), "metadata": {name: hex(value) for name, value in metadata}}
            for payload, metadata in seen.packet_ins
        ]
    if seen.digests:
        result["digest"] = [
            {"name": name, "data": [[hex(value) for value in row] for row in rows]}
            for name, rows in seen.digests
        ]
    return result


def _packet(given: Any) -> Packet:
    if "packet_out" in given:
        out = given["packet_out"]
        metadata = {name: int(str(value), 0) for name, value in out.get("metadata", {}).items()}
        return Packet(CPU_PORT, bytes.fromhex(out["hex"]), metadata)
    return Packet(int(given["port"]), bytes.fromhex(given["hex"]))


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise VectorFileError(f"{path}: not JSON: {error}") from error
