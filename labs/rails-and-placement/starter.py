"""Place a training job on a rail fabric, and relay what would cross its spines.

A rank is a GPU with a NIC of its own. A NIC is written (server, rail), both from 0. The servers of
a group share a leaf for each rail, so NICs of one rail and group are one switch apart. Between
rails and between groups traffic crosses the spines. GPUs of one server talk over NVLink.
"""

from __future__ import annotations

Nic = tuple[int, int]


def place(groups: int, servers: int, rails: int, tp: int) -> list[Nic]:
    """Return the NIC of each rank.

    `servers`: of each group; group g has the servers from g * servers on. Rank = data rank * tp +
    tensor rank. `tp` divides `rails`, and rails // tp is 1 or even.

    - The `tp` ranks of a data rank exchange most: they belong in one server.
    - The data ranks of a tensor rank form a ring, in order, the last one closing it.
    - `ep` consecutive data ranks exchange tokens (ep divides `servers`).
    """
    # TODO 1: this fills one server after the other. Let the rings stay on their rails instead.
    # TODO 2: when all servers have had one data rank, where is the next one free of spines?
    # TODO 3: with several groups, how often must a ring cross from one to the other?
    return [(server, rail) for server in range(groups * servers) for rail in range(rails)]


def relay(source: Nic, target: Nic) -> Nic:
    """Return the NIC that sends what the GPU at `source` has for the GPU at `target`.

    It is in the server of `source`, which hands the data over by NVLink: what NCCL calls PXN.
    """
    # TODO 4: which NIC of this server meets `target` at a leaf?
    return source
