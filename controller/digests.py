"""What switches' digests say, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.p4info import P4Info
from softswitch.p4runtime.protos import p4r


@dataclass(frozen=True)
class DigestMessage:
    """One message of a digest, with its members by name."""

    switch: str
    digest: str
    values: Mapping[str, int]


def digest_messages(switch: str, received: p4r.DigestList, p4info: P4Info) -> list[DigestMessage]:
    """Return the messages of a digest list. Raises UnknownName: the program has no such digest."""
    digest = p4info.digests[received.digest_id]
    names = [field.name for field in digest.fields]
    return [
        DigestMessage(
            switch,
            digest.alias,
            {
                name: int.from_bytes(member.bitstring, "big")
                for name, member in zip(names, data.struct.members, strict=False)
            },
        )
        for data in received.data
    ]
