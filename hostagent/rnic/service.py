"""The endpoint's daemon: one a host, in the host's namespace, spoken to over a Unix socket.

    python -m hostagent.rnic.service --interface h1-eth0 --ip 10.0.1.1 --socket PATH
        [--mac MAC] [--gateway-mac MAC] [--maps PINDIR] [--af-packet] [--line-rate BPS]
        [--max-qps N]

It writes `ready: ...` (one line) on standard output once the socket takes clients, and ends on
SIGTERM and SIGINT, leaving nothing behind. Errors before that are one line, `error: ...`, exit
code 1. `hostagent.rnic.client` is the Python side of what follows.

The protocol: one JSON object a line, both ways. A request has a `command`; each gets one answer, in
order, `{"error": "..."}` if it failed, and then it changed nothing. A connection's queue pairs
vanish when it closes, whatever they are doing; others' are not touched. Addresses are text
("10.0.1.1", "02:00:..."), times are ns of CLOCK_MONOTONIC or differences of them, sizes bytes,
rates bits/s of payload.

info {} -> {interface, ip, mac, mode, mode_reason, mtu, line_rate_bps, max_qps, qps, kernel}
    mode: "af_xdp" or "af_packet", and why not the better one; mtu: the largest that a queue pair
    may have on this interface; kernel: whether DCQCN runs in the kernel (--maps) or in the endpoint.
open {qps, buffer_bytes, mtu?, udp_ports?, repeat?, ack_every?, window?, timeout_us?, retries?,
      rnr_retries?, rate_bps?, dscp?, queue?, max_reads?, params?, cnp_interval_ns?}
        -> {pairs: [{qpn, psn, rkey, address, ip, mac}]}
    Makes queue pairs, each with `buffer_bytes` that its peer may write and read, and as much to
    send from. mtu: 256 .. 4096, default the largest that fits; repeat: "go-back-n" (default) or
    "selective-repeat"; window: packets; timeout_us: default 200000; retries: default 7; rate_bps:
    a limit beside congestion control's. params: null (default: no congestion control) or the
    fields of `topologies.congestion.DcqcnParameters`; cnp_interval_ns: of this end as receiver,
    default that of params, else no CNPs are sent.
connect {pairs: [{qpn, peer_ip, peer_qpn, peer_psn, peer_rkey?, peer_address?, peer_mac?}]} -> {}
    What the other end's `open` said. All or none are connected. peer_mac: default the gateway.
serve {qpns, operation, mode, size} -> {}
    The answering side, from now on: keeps receives posted (operation "send"), and in mode
    "latency" answers each message with one of `size`. To be called before the other end measures.
measure {qpns, operation, mode, size, count, depth?, duration_ms?, timeout_ms?}
    -> {mode, operation, size, qps, messages, bytes, elapsed_ns, average_bps, peak_bps,
        messages_per_s, times_ns, cpu_ns, interrupted, failures, pairs}
    Posts `count` messages on each queue pair (or as many as fit duration_ms), in mode "bandwidth"
    with `depth` (default 128) of them outstanding on each. operation: "write", "send", "read".
    mode "latency": one queue pair, one message at a time, `times_ns` has each one's time: half the
    round trip of send and write, post to completion of read, as perftest counts. peak_bps: the
    best run of messages, from the posting of its first to the completion of its last.
    failures: [{qpn, why}]; the others go on. Nothing completed for timeout_ms (default 10000):
    a failure too. pairs: [{qpn, messages, bytes, elapsed_ns, average_bps}] and what `stats` says
    of it, counted from the start of the measurement.
    While it runs, the only request that is taken is `cancel` (or the end of the connection).
stats {} -> {pairs: [{qpn, peer_ip, peer_qpn, connected, failure, ...}], endpoint: {...}}
    The connection's queue pairs with all of `struct rnic_qp_stats` (rate_bps: congestion
    control's, null if it does not limit); `endpoint`: the daemon's counts and CPU time.
watch {interval_ms, all?} -> a line {at_ns, pairs: [...], endpoint: {...}} each interval_ms, as
    `stats` has it, until `cancel`, which is answered by {}. all: every connection's queue pairs.
cancel {} -> {} (nothing to cancel), or the answer of what it ended
close {qpns} -> {}
"""
