"""All benchmarks, one table.

    python tests/bench/run.py [--json] [--quick]

Exit code 1 when a number misses its goal. Without root the packet loop's part is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import command_line

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Line:
    """One number with its goal; `met` is None where there is no goal."""

    what: str
    value: str
    goal: str
    met: bool | None


def script(name: str, *arguments: str) -> dict[str, Any]:
    """Return the JSON that one benchmark prints."""
    command = [sys.executable, str(HERE / name), "--json", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            said, _ = child.communicate()
        except KeyboardInterrupt:
            child.wait()  # it got the Ctrl-C too, and removes what it made
            raise
    if child.returncode:
        raise SystemExit(child.returncode)
    result: dict[str, Any] = json.loads(said)
    return result


def pipeline_lines(result: dict[str, float]) -> list[Line]:
    return [
        Line(f"pipeline in process, base L3, {name}", f"{mpps:.2f} Mpps", ">= 1 Mpps", mpps >= 1)
        for name, mpps in result.items()
    ]


def daemon_lines(result: dict[str, Any]) -> list[Line]:
    bare, switch = result["forwarder"], result["switch"]
    loss, ratio = switch["loss"], result["ratio"]
    return [
        Line(
            "bare AF_PACKET forwarder, 64 B, 100 kpps", f"{bare['cpu_us']:.2f} us/packet", "", None
        ),
        Line(
            "switch daemon, 64 B, 100 kpps",
            f"{switch['cpu_us']:.2f} us/packet",
            f"<= {bare['cpu_us'] * result['ratio_limit']:.2f}",
            ratio <= result["ratio_limit"],
        ),
        Line("  loss", f"{loss:.3%}", "<= 0.1 %", loss <= 0.001),
    ]


def idle_lines(result: dict[str, float]) -> list[Line]:
    share, limit = result["core_share"], result["limit"]
    what = f"{result['switches']:.0f} idle switches, CPU of one core"
    return [Line(what, f"{share:.2%}", f"< {limit:.0%}", share < limit)]


def ticker_lines(result: dict[str, Any]) -> list[Line]:
    period_us, lines = result["period_us"], []
    for name, row in result["rows"].items():
        what = f"ticks every {period_us} us late, p99: {name}"
        complete = row["skipped"] == 0 and (row["to_due"] is None or abs(row["to_due"] - 1) < 0.02)
        value = f"{row['p99']:.0f} us, {row['skipped']} of {row['ticks']} skipped"
        lines.append(Line(what, value, "0 skipped", complete))
    return lines


def runtime_lines(result: dict[str, Any]) -> list[Line]:
    real, _ = result["mean_queue"]
    goodput, queue, load = result["goodput_off"], result["queue_off"], result["load"]
    same, lost = result["same_drops"], f"{result['script_lost']} of {result['script_packets']}"
    return [
        Line("real against virtual: goodput apart", f"{goodput:.2%}", "<= 5 %", goodput <= 0.05),
        Line("  load of the bottleneck", f"{load:.0%}", ">= 90 %", load >= 0.9),
        Line("  mean queue, real", f"{real:.1f} packets", ">= 50", real >= 50),
        Line("  mean queue apart", f"{queue:.1%}", "<= 15 %", queue <= 0.15),
        Line("  a script's packets dropped", lost, "the same", bool(same)),
    ]


def engine_lines(result: dict[str, Any]) -> list[Line]:
    lines = []
    for each in result["fabrics"]:
        rate = each["hops_per_s"]
        goal = result["goal"] if each["hosts"] >= 1024 else 0
        lines.append(
            Line(
                f"simulator, fabric.p4, {each['hosts']} hosts",
                f"{rate / 1e6:.2f} M hops/s",
                f">= {goal / 1e6:.1f} M" if goal else "",
                rate >= goal if goal else None,
            )
        )
    growth, limit = result["growth"], result["growth_goal"]
    what = "  a hop's cost, most hosts against fewest"
    return [*lines, Line(what, f"{growth:.2f} x", f"<= {limit:.0f} x", growth <= limit)]


def controller_lines(result: dict[str, Any]) -> list[Line]:
    lines = []
    for each in result["fabrics"]:
        where = f"{each['hosts']} hosts, {each['mechanism']}"
        lines.append(Line(f"controller, {where}: entries", f"{each['entries_s']:.2f} s", "", None))
        goal = result["goal_ms"] if each["hosts"] >= result["goal_hosts"] else 0
        for kind, ms in each["event_ms"].items():
            said = f"<= {goal:.0f} ms" if goal else ""
            met = ms <= goal if goal else None
            lines.append(Line(f"  a link's event, {kind}", f"{ms:.2f} ms", said, met))
    return lines


def ns3_lines(result: dict[str, Any]) -> list[Line]:
    if "missing" in result:
        return [Line("simulator against ns-3", "not measured", result["missing"], None)]
    ours, theirs = result["ours"] / 1e6, result["ns3"] / 1e6
    ratio = result["ours"] / result["ns3"]
    return [
        Line("ns-3, nix-vector, 128 hosts", f"{theirs:.2f} M hops/s", "", None),
        Line("simulator, the same fabric and traffic", f"{ours:.2f} M hops/s", "", None),
        Line("  against ns-3", f"{ratio:.1f} x", ">= 1.5 x", ratio >= 1.5),
    ]


def card_lines(result: dict[str, float]) -> list[Line]:
    return [
        Line(f"RDMA card, a 4 KB packet, both ends, {name}", f"{ns:.0f} ns", "", None)
        for name, ns in result.items()
    ]


def worker_lines(result: dict[str, float]) -> list[Line]:
    return [
        Line(f"AllReduce's worker, a packet there and back, {name}", f"{ns:.0f} ns", "", None)
        for name, ns in result.items()
    ]


def ports_lines(result: dict[str, Any]) -> list[Line]:
    return [
        Line(
            f"  source ports for {row['flows']} flows, {row['fabric']}",
            f"{statistics.median(row['ms']):.0f} ms", "", None,
        )
        for row in result["rows"]
    ]  # fmt: skip


def pins_lines(result: dict[str, Any]) -> list[Line]:
    return [
        Line(
            f"  pins of a plan written, job or event: {each['event']}",
            f"{each['updates']} updates, {each['write_s']:.2f} s", "", None,
        )
        for each in result["events"]
    ]  # fmt: skip


def planner_lines(result: dict[str, Any]) -> list[Line]:
    lines = []
    for name, row in result["fabrics"].items():
        ms, goal = row["plan_ms"]["most"], result["goals_ms"].get(name)
        what = f"paths of {row['flows']} flows, {name}"
        said = f"< {goal:.0f} ms" if goal else ""
        lines.append(Line(what, f"{ms:.1f} ms", said, ms < goal if goal else None))
    for pairs, row in result["again"].items():
        ms, goal = row["again_ms"]["most"], result["again_goal_ms"]
        what = f"  again after a failed link, {row['flows']} flows"
        said = f"< {goal:.0f} ms" if pairs == "1" else ""
        lines.append(Line(what, f"{ms:.2f} ms", said, ms < goal if said else None))
    most, goal = max(row["proof_s"] for row in result["quality"]), result["program_goal_s"]
    lines.append(
        Line("  the linear program's proof", f"{most:.2f} s", f"< {goal:.0f} s", most < goal)
    )
    return lines


def moves_lines(result: dict[str, Any]) -> list[Line]:
    return [
        Line(f"{what} among 4 hosts, {name}", f"{took['median']:.0f} ms (real)", "", None)
        for name, row in result.items()
        for what, took in row.items()
    ]


def large_lines(result: dict[str, Any]) -> list[Line]:
    hosts = f"{result['hosts']} hosts"
    return [
        Line(f"set-up of {hosts}, simulator", f"{result['set_up_s']:.1f} s", "", None),
        Line(
            "  each further run", f"{result['further_s']:.2f} s", "< 1 s", result["further_s"] < 1
        ),
        Line("  a ring's message, 8 B", f"{result['message_ns']:.0f} ns", "", None),
    ]


def endpoint_lines(result: dict[str, Any]) -> list[Line]:
    flow = result["virtual"]
    lines = [
        Line(
            "one RDMA flow, simulator, 400 Gb/s, MTU 4096, DCQCN",
            f"{flow['share']:.2%} of link",
            f">= {flow['goal']:.0%}",
            flow["share"] >= flow["goal"],
        )
    ]
    real = result.get("real")
    if real is None:
        return lines
    if "missing" in real:
        lines.append(Line("endpoint, DCQCN in the kernel", "not measured", real["missing"], None))
    else:
        goal = real["goal"]
        for turns in real["turns"]:
            name, off, on, share = (turns[key] for key in ("control", "off", "on", "share"))
            name, through = name.upper(), ", through 5 hops" * (name == "encc")
            what = f"endpoint between namespaces, {real['mode'].upper()}, {name} off{through}"
            lines += [
                Line(what, f"{off['gbps']:.2f} Gb/s", "", None),
                Line(f"  {name} on: XDP, map, pacing", f"{on['gbps']:.2f} Gb/s", "", None),
                Line("  on against off", f"{share:.0%}", f">= {goal:.0%}", share >= goal),
                *cpu_lines(f"{name} off", off),
                *cpu_lines(f"{name} on", on),
            ]
    packet = real["packet"]
    lines.append(Line("endpoint by AF_PACKET", f"{packet['gbps']:.2f} Gb/s", "", None))
    if "turns" in real:
        ratio = real["turns"][0]["off"]["gbps"] / packet["gbps"]
        lines.append(Line("  AF_XDP against AF_PACKET", f"{ratio:.2f} x", "", None))
    lines += cpu_lines("AF_PACKET", packet)
    return lines


def algorithm_lines(result: dict[str, Any]) -> list[Line]:
    lines, goal = [], result["goal"]
    for name, ns in result["ns"].items():
        net = {result["where"]: f" ({result['net_ns'][name]:.0f} net)"}
        value = ", ".join(f"{each:.0f}{net.get(where, '')}" for where, each in ns.items())
        lines.append(Line(f"{name}: {', '.join(ns)}", f"{value} ns", "", None))
    for name, ratio in result["ratio"].items():
        said, met = (f"<= {goal:g} x", ratio <= goal) if name in result["judged"] else ("", None)
        lines.append(Line(f"  {name}, against DCQCN's", f"{ratio:.1f} x", said, met))
    return lines


def allreduce_lines(result: dict[str, Any]) -> list[Line]:
    built, hops = result["compile"], result["hop_ns"]
    return [
        *(
            Line(
                f"fabric.p4 with {lanes} lanes of AllReduce, compiled",
                f"{cost['cpu_s']:.1f} s of CPU",
                "< 10 s" if lanes == "256" else "",
                cost["cpu_s"] < 10 if lanes == "256" else None,
            )
            for lanes, cost in built.items()
        ),
        *(
            Line(f"a contribution of {lanes} lanes at a switch", f"{ns:.0f} ns", "", None)
            for lanes, ns in hops.items()
        ),
    ]


def cpu_lines(which: str, each: dict[str, float]) -> list[Line]:
    value = f"{each['send_us']:.2f}, {each['receive_us']:.2f} us"
    return [Line(f"  CPU a packet, sender and receiver, {which}", value, "", None)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="short rounds, for a first look")
    arguments = parser.parse_args()
    short = ["--rounds", "3", "--seconds", "0.2"] if arguments.quick else []
    results: dict[str, Any] = {"pipeline": script("bench_pipeline.py", *short)}
    lines = pipeline_lines(results["pipeline"])
    short = ["--lanes", "256", "--rounds", "10"] if arguments.quick else []
    results["allreduce"] = script("bench_allreduce.py", *short)
    lines += allreduce_lines(results["allreduce"])
    short = ["--hops", "500000"] if arguments.quick else []
    results["engine"] = script("bench_engine.py", *short)
    lines += engine_lines(results["engine"])
    short = ["--links", "4"] if arguments.quick else []
    results["controller"] = script("bench_controller.py", *short)
    lines += controller_lines(results["controller"])
    results["large"] = script("bench_large.py")
    lines += large_lines(results["large"])
    results["ns3"] = script("bench_ns3.py")
    lines += ns3_lines(results["ns3"])
    short = ["--rounds", "2"] if arguments.quick else []
    results["card"] = script("bench_rnic.py", *short)
    lines += card_lines(results["card"])
    results["worker"] = script("bench_worker.py", *short)
    lines += worker_lines(results["worker"])
    short = ["--rounds", "2", "--seeds", "1"] if arguments.quick else []
    results["planner"] = script("bench_iglb.py", *short)
    lines += planner_lines(results["planner"])
    short = ["--small"] if arguments.quick else []
    results["ports"] = script("bench_hash_ports.py", *short)
    lines += ports_lines(results["ports"])
    short = ["--flows", "256"] if arguments.quick else []
    results["pins"] = script("bench_iglb_live.py", *short)
    lines += pins_lines(results["pins"])
    short = ["--rounds", "7"] if arguments.quick else []
    results["endpoint"] = script("bench_endpoint.py", *short)
    lines += endpoint_lines(results["endpoint"])
    short = ["--rounds", "11"] if arguments.quick else []
    results["algorithms"] = script("bench_algorithms.py", *short)
    lines += algorithm_lines(results["algorithms"])
    short = ["--seconds", "2"] if arguments.quick else []
    results["ticker"] = script("bench_ticker.py", *short)
    lines += ticker_lines(results["ticker"])
    if os.geteuid() == 0:
        short = ["--rounds", "3", "--seconds", "1"] if arguments.quick else []
        results["daemon"] = script("bench_daemon.py", *short)
        lines += daemon_lines(results["daemon"])
        short = ["--seconds", "5"] if arguments.quick else []
        results["idle"] = script("bench_idle.py", *short)
        lines += idle_lines(results["idle"])
        short = ["--seconds", "4"] if arguments.quick else []
        results["runtimes"] = script("bench_runtimes.py", *short)
        lines += runtime_lines(results["runtimes"])
        short = ["--rounds", "2"] if arguments.quick else []
        results["moves"] = script("bench_moves.py", *short)
        lines += moves_lines(results["moves"])
    elif not arguments.json:
        print("the daemon's benchmarks need root and are left out")
    met = all(line.met is not False for line in lines)
    if arguments.json:
        print(json.dumps({**results, "lines": [asdict(line) for line in lines], "met": met}))
        return 0 if met else 1
    for line in lines:
        mark = {True: "met", False: "MISSED", None: ""}[line.met]
        print(f"{line.what:55} {line.value:>16}  {line.goal:12} {mark}")
    return 0 if met else 1


if __name__ == "__main__":
    command_line.run(main)
