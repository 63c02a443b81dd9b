"""How others use two ports, as parameters of path migration: `like:` of `failover:`.

They are as quick here as what they publish allows. One queue pair is one flow of a run: what
spreads a message over several queue pairs needs as many flows.
"""

from __future__ import annotations

from hostagent.rnic.planes import FIRST_HASH, FIRST_TURN, PlaneConfig, PlaneUse

MS, S = 10**9, 10**12

BOND_MIIMON_PS = 100 * MS
"""Linux bonding looks at links that often where it does as its documentation recommends; RoCE LAG
moves queue pairs after 0.1 to 1 s (docs/dual-plane.md)."""

NCCL_PROBE_DELAY_PS = 10 * MS
"""NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY, p2p_resiliency.cc at 5067397c."""

NCCL_RECOVERY_PS = 200 * MS + 5 * 500 * MS
"""The same file: START_DELAY, and a sequence of 5 batches of alive messages, 500 ms apart."""

NCCL_TIMEOUT_PS, NCCL_RETRIES = 4096 * 1000 * 2**20, 7
"""NCCL_IB_TIMEOUT 20, which is 4.096 us * 2^20, and NCCL_IB_RETRY_CNT: a run's own `timeout` and
`retries` say otherwise."""

OPPONENTS = {
    "bond": PlaneConfig(
        PlaneUse.SINGLE,
        first=FIRST_HASH,
        by_link=True,
        switch_ps=BOND_MIIMON_PS,
        return_ps=BOND_MIIMON_PS,
    ),
    "nccl": PlaneConfig(
        PlaneUse.SINGLE,
        first=FIRST_TURN,
        by_link=True,
        switch_ps=NCCL_PROBE_DELAY_PS,
        return_ps=NCCL_RECOVERY_PS,
    ),
}
"""By what `like` names. A bond goes by its own links alone, and is deaf to what is dead beyond
them; NCCL also hears of a queue pair whose retries are used up."""


def tries_of(like: str, retries: int) -> int:
    """Return how many time-outs in a row make one of them migrate; 0: none do."""
    return 0 if like == "bond" else retries + 1
