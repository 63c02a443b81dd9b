"""A look at the fabric as JSON: what `weft top --json` prints and the web page gets.

Rates are per real second; times `time_scale` they are the fabric's. Loads are shares of the link's
rate: 1.0 is all of it. null is what the target or its program does not tell; a switch's `plane` is
null in a fabric that has none. `hops` are there where switches write into packets what these meet.
"""

from __future__ import annotations

from typing import Any

from mechanisms.registry import all_counters
from observe.flow_hops import HopsSeen, row_json
from observe.follow import Moment
from observe.samples import PortRates, PortSample, SwitchRates, SwitchSample
from topologies.planes import planes_of

Json = dict[str, Any]

_NO_RATES = SwitchRates()
_NO_PORT_RATES = PortRates()


def moment_json(moment: Moment) -> Json:
    """Return counts and rates of all switches, with what they hold for."""
    topology = moment.record.topology
    planes = planes_of(topology).names
    return {
        "run": moment.record.run,
        "topology": topology.name,
        "runtime": moment.record.runtime,
        "time_scale": topology.time_scale,
        "at": round(moment.at, 3),
        "switches": {
            name: {
                "plane": planes.get(name),
                **_switch(sample, moment.rates.get(name, _NO_RATES)),
            }
            for name, sample in moment.sample.items()
        },
        **_hops(moment.hops),
    }


def _hops(seen: HopsSeen) -> Json:
    if not seen.possible:
        return {}
    why = {"hops_problem": seen.problem} if seen.problem else {}
    return {"hops": [row_json(row) for row in seen.rows], **why}


def _switch(sample: SwitchSample, rates: SwitchRates) -> Json:
    return {
        "error": sample.error,
        "cpu": _rounded(rates.cpu),
        "drops": dict(sample.drops),
        "drops_ps": {why: round(rate, 3) for why, rate in rates.drops_ps.items() if rate},
        "ports": {
            str(number): _port(port, rates.ports.get(number, _NO_PORT_RATES))
            for number, port in sample.ports.items()
        },
    }


def _port(sample: PortSample, rates: PortRates) -> Json:
    return {
        "up": sample.up,
        "state": sample.state(all_counters()),
        "rate_bps": sample.rate_bps,
        "rx_bps": round(rates.rx_bps),
        "tx_bps": round(rates.tx_bps),
        "rx_pps": _rounded(rates.rx_pps),
        "tx_pps": _rounded(rates.tx_pps),
        "rx_load": _rounded(rates.rx_load),
        "tx_load": _rounded(rates.tx_load),
        "queue_bytes": sample.queue_bytes,
        "queue_packets": sample.queue_packets,
        "queue_packets_max": sample.queue_packets_max,
        "queue_limit_bytes": sample.queue_limit_bytes,
        "drops": dict(sample.drops),
        "drops_ps": _rounded(rates.drops_ps),
        "marked": sample.marked_packets,
        "marks_ps": _rounded(rates.marks_ps),
        **{each.key: sample.count(each) for each in all_counters()},
        **{f"{each.key}_ps": _rounded(rates.per_second(each)) for each in all_counters()},
        "rx_packets": sample.rx_packets,
        "rx_bytes": sample.rx_bytes,
        "tx_packets": sample.tx_packets,
        "tx_bytes": sample.tx_bytes,
        "roce_packets": sample.roce_packets,
        "roce_naks": sample.roce_naks,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
