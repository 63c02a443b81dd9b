"""What a training job is: the same for all ranks, and what each rank has beside.

Also the lines that ranks say, one JSON object each: `{"rank": 0, "step": 3, "loss": 1.9, ...}`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from hostagent.algorithms import Parameters
from hostagent.collective.rdma import Line, RdmaSettings
from hostagent.collective.worker_settings import WorkerSettings
from hostagent.rnic.planes import NO_PLANES, PlaneConfig, PlaneUse

STORE_PORT = 29500
"""TCP, at rank 0's host: torch.distributed's store."""


class Transport(Enum):
    """What carries the gradients."""

    IN_NETWORK = "in-network"
    RING = "ring"
    RDMA = "rdma"
    GLOO = "gloo"


@dataclass(frozen=True)
class Training:
    """The model and how it learns; the seed decides data, shuffling and first weights."""

    steps: int = 40
    batch: int = 32  # of a rank
    hidden: int = 48
    rate: float = 0.2
    seed: int = 1
    samples: int = 2000
    tests: int = 500


@dataclass(frozen=True)
class Card:
    """A rank's card, as `hostagent.collective.rdma` takes it beside its first interface."""

    maps: str = ""
    line_rate_bps: int = 0
    timeout_us: int = 200_000
    also: tuple[Line, ...] = ()
    planes: PlaneConfig = NO_PLANES
    control: Parameters | None = None
    reorder_us: int = 0

    @staticmethod
    def of(said: dict[str, Any]) -> Card:
        """Return what JSON has made a mapping of."""
        planes = said["planes"]
        return Card(
            **{
                **said,
                "also": tuple(Line(**each) for each in said["also"]),
                "planes": PlaneConfig(**{**planes, "use": PlaneUse(planes["use"])}),
            }
        )


@dataclass(frozen=True)
class RankJob:
    """The settings of one rank.

    `block_rate_bps`: the pace of blocks that switches multicast; 0: none are sent.
    `namespace` is the host's, "" to stay where the launcher is. `lanes`: values that share an
    exponent. `timeout_s`: after how long the tree's packets are repeated first, `give_up_s`: when
    it is left for the ring. `patience_s`: a call that takes longer fails.
    """

    rank: int
    ranks: int
    host: str
    namespace: str
    interface: str
    address: str
    gateway: str
    store: tuple[str, int]
    transport: Transport
    training: Training
    lanes: int
    worker: WorkerSettings | None = None
    card: Card | None = None
    block_rate_bps: int = 0
    timeout_s: float = 0.01
    give_up_s: float = 5.0
    patience_s: float = 120.0
    ring_port: int = 0

    def rdma(self) -> RdmaSettings | None:
        """Return what makes the ring one of this rank's card, None for another ring."""
        card = self.card
        if card is None:
            return None
        return RdmaSettings(self.interface, self.address, self.gateway, **vars(card))

    def line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps({**asdict(self), "transport": self.transport.value})

    @staticmethod
    def of(said: dict[str, Any]) -> RankJob:
        """Return what `line` was made of."""
        worker, card = said["worker"], said["card"]
        return RankJob(
            **{
                **said,
                "store": tuple(said["store"]),
                "transport": Transport(said["transport"]),
                "training": Training(**said["training"]),
                "worker": None if worker is None else WorkerSettings(**worker),
                "card": None if card is None else Card.of(card),
            }
        )
