"""What `weft agent` sees at one moment, and the same as JSON."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from emulation import run_state
from emulation.fabric_record import FabricRecord
from hostagent.notifications import Heard, HeardCounts
from hostagent.pinned_maps import Slot
from observe import agent_cards, agent_rows, notification_rows
from observe.agent_cards import NO_CARD, CardPair, CardPath, Cards
from workloads.senders import columns, name_of

_NO_COUNTS = HeardCounts({}, 0, 0, 0)


@dataclass(frozen=True)
class Look:
    """All queue pairs at one moment; packets/s since the look before, by host's address and QP.

    `cards`: what hosts' cards say of queue pairs over several interfaces.
    `notifications`: the latest of each host, type, switch and port; their counts are of all hosts.

    `at`: seconds since the epoch; `now_ns`: CLOCK_MONOTONIC.
    """

    record: FabricRecord
    at: float
    now_ns: int
    slots: tuple[Slot, ...]
    counters: Mapping[str, int]
    packets_ps: Mapping[tuple[int, int], float]
    notifications: tuple[Heard, ...] = ()
    notification_counts: HeardCounts = _NO_COUNTS
    cards: Cards = field(default_factory=dict)

    def card(self, slot: Slot) -> CardPair:
        """Return what the card says of a slot's queue pair."""
        return self.cards.get((slot.local_ip, slot.qpn), NO_CARD)


def cards_of(record: FabricRecord) -> Cards:
    """Ask a run's endpoints, where queue pairs may have several interfaces."""
    if all(len(host.interfaces) == 1 for host in record.topology.hosts):
        return {}
    return agent_cards.card_pairs(run_state.run_root() / record.run)


def title(look: Look) -> str:
    """Say which run this is and what its numbers hold for."""
    topology = look.record.topology
    text = f"{topology.name}, run {look.record.run}; real time; time_scale {topology.time_scale}"
    return text + ("; rates are the fabric's" if topology.time_scale != 1 else "")


def look_json(look: Look, names: agent_rows.Names) -> dict[str, object]:
    """Return a look as JSON. Rates are per real second; alpha is a share; null: not limited."""
    topology = look.record.topology
    return {
        "run": look.record.run,
        "topology": topology.name,
        "time_scale": topology.time_scale,
        "at": round(look.at, 3),
        "counters": agent_rows.counters(look.counters),
        "notification_counts": notification_rows.counts_json(look.notification_counts),
        "notifications": [
            notification_rows.row_json(each, names, topology, look.now_ns)
            for each in look.notifications
        ],
        "queue_pairs": [_pair_json(slot, look, names) for slot in look.slots],
    }


def _pair_json(slot: Slot, look: Look, names: agent_rows.Names) -> dict[str, object]:
    data, card = asdict(slot), look.card(slot)
    last, cut, lost = data.pop("last_ns"), data.pop("first_cut_at"), data.pop("lost_at")
    plane, shared, answers = data.pop("plane"), data.pop("shared"), data.pop("probes")
    for name in ("algorithms", "rates", "states"):
        del data[name]
    data |= {
        **{each.name: data.pop(each.counter) for each in columns()},
        **agent_rows.states(slot, card),
        "host": names.host_of(slot.local_ip),
        "peer_host": names.host_of(slot.peer_ip),
        "local_ip": slot.local,
        "peer_ip": slot.peer,
        "algorithm": name_of(slot.algorithms),
        "packets_ps": round(look.packets_ps.get((slot.local_ip, slot.qpn), 0.0), 1),
        "last_seen_s": round((look.now_ns - last) / 1e9, 6) if last else None,
        "first_cut_s": round((look.now_ns - cut) / 1e9, 6) if cut else None,
        "plane_number": plane if slot.planes else None,
        "first_number": shared if slot.planes else None,
        "lost_s": round((look.now_ns - lost) / 1e9, 6) if lost else None,
        "answers": answers if slot.planes else None,
        "cause": card.cause(slot.plane) or None,
        "path": None if card.path is None else _path_json(card.path, names),
    }
    if not slot.rate_bps:
        data |= {"rate_bps": None, "line_rate_bps": None}
    return data


def _path_json(path: CardPath, names: agent_rows.Names) -> dict[str, object]:
    return asdict(path) | {
        "address": str(ipaddress.IPv4Address(path.address)),
        "interface": names.end_of(path.address),
        "alternate": names.end_of(path.alternate),
    }
