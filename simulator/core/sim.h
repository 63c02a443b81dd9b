/* The simulator's engine: one event loop over many switch cores, hosts and links.
 *
 * Virtual time is int64 picoseconds from 0. A packet is its header bytes plus a tail of which only the length and the
 * seed are kept (weft_switch.h: ws_packet_in). Nothing here reads a clock, allocates by the packet or computes in floating
 * point. Equal times are ordered by (time, node, port, sequence): the same calls give the same run on every machine.
 * Nodes, links, flows and messages are numbered from 0 in the order in which they were added. Functions that can
 * fail return 0 or a negative SIM_E*, and sim_error says why.
 */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include "host_program.h"
#include "weft_switch.h"
#include "rnic.h"

typedef struct sim sim;

enum sim_status { SIM_OK = 0, SIM_ENOMEM = -1, SIM_EINVAL = -2, SIM_ENOENT = -3 };

sim *sim_create(uint64_t seed);
/* As if made with this seed: before flows are added, and before anything goes wrong on hosts' wires. */
void sim_seed(sim *s, uint64_t seed);
void sim_destroy(sim *s); /* not the switches, which the caller made */
const char *sim_error(const sim *s);

/* --- the network --------------------------------------------------------------------------- */

/* A switch's ports carry their own rates, delays and queues (ws_configure_port: rate_bps and tx_delay_ps). The caller may
 * use the switch's control-plane calls between two sim_run, then says sim_touch. Returns the node. */
int sim_add_switch(sim *s, ws_switch *sw);
/* The switch `node` was written to or its ports were set: its next event may have changed, outputs may be there. */
int sim_touch(sim *s, uint32_t node);

struct sim_port_config {
    uint64_t rate_bps;     /* > 0; counts preamble, FCS and gap as switch ports do */
    ws_time delay_ps;      /* propagation of what the host sends */
    uint64_t mac;          /* the interface's */
    uint64_t gateway_mac;  /* where it sends everything to */
    uint32_t ip;           /* host order */
    uint32_t mtu;          /* largest IP packet */
};
/* A host of `n` interfaces. Returns the node. */
int sim_add_host(sim *s, const struct sim_port_config *ports, uint32_t n);
int sim_configure_host_port(sim *s, uint32_t node, uint32_t port, const struct sim_port_config *config);
/* The clock of an interface's card. Its line, its flows' rates and its queue pairs' rates are all `ppb` parts in 10^9 faster
 * than they say; what it sends arrives `phase_ps` later, always, and up to `jitter_ps` more, drawn anew for each
 * frame: with a jitter two frames may arrive closer together than a line allows, but never in another order. Without one all
 * cards run by the same clock and in step. Before flows are added. */
struct sim_clock {
    int64_t ppb; /* -10^6 .. 10^6 */
    ws_time phase_ps, jitter_ps;
    uint64_t seed;
};
int sim_set_clock(sim *s, uint32_t node, uint32_t port, const struct sim_clock *clock);
/* A host that takes what arrives at an interface only so fast. Frames wait in a buffer; what does not fit is lost. Above `xoff_bytes` it
 * pauses `classes` (PFC), at or below `xon_bytes` it lets them go on. */
struct sim_receiver {
    uint64_t rate_bps; /* > 0, as it counts on the wire */
    uint64_t buffer_bytes, xoff_bytes, xon_bytes; /* of frames without FCS; xon <= xoff <= buffer */
    uint32_t classes;  /* bit c; 0: no pauses */
    uint32_t pad_;
};
int sim_set_receiver(sim *s, uint32_t node, uint32_t port, const struct sim_receiver *receiver); /* once an interface */
struct sim_receiver_stats {
    uint64_t taken, dropped;  /* frames */
    uint64_t most_bytes;      /* that ever waited */
    uint64_t pauses, resumes; /* PFC frames */
};
int sim_receiver_stats_get(const sim *s, uint32_t node, uint32_t port, struct sim_receiver_stats *stats); /* SIM_ENOENT: it has none */
/* Joins two ends. Host interfaces are ports 0, 1, ...; switch ports have the switch's numbers. Returns the link. */
int sim_add_link(sim *s, uint32_t node_a, uint32_t port_a, uint32_t node_b, uint32_t port_b);
/* down: what is on the way is lost and both ends' ports go down (a switch's by ws_set_port); up again: both go up. */
int sim_set_link(sim *s, uint32_t link, int up);
/* Queue pairs over planes, in both uses, send nothing new by this interface of a host, or again (rnic_drain): what is on the way arrives, and what
 * comes by it is answered by it. Without one card for all of the host's interfaces nothing is to be drained. SIM_ENOENT: no such interface. */
int sim_drain(sim *s, uint32_t node, uint32_t port, int on);
/* What goes wrong on the wire from a host to its switch: as ws_impair_port(WS_SEND) of a switch's port. */
int sim_impair_host_port(sim *s, uint32_t node, uint32_t port, const struct ws_port_impair *impair);
/* A switch that is dead neither takes nor sends anything; its links are down. Alive again, its queues are empty. */
int sim_set_node(sim *s, uint32_t node, int alive);

/* --- traffic ------------------------------------------------------------------------------- */

/* How a flow's two ends deal with each other: reliable connections by the card of hostagent/rnic. */
struct sim_transport_config {
    uint32_t repeat;            /* enum rnic_repeat */
    uint32_t ack_every, window_packets, retries, rnr_retries, udp_ports, max_reads; /* as struct rnic_qp_config */
    uint32_t cnp_dscp, cnp_queue; /* one for all transports of a host */
    uint32_t ack_apart, ack_dscp, ack_queue; /* as struct rnic_qp_config */
    uint32_t path_kind, path_idle_rounds, path_rounds; /* as struct rnic_qp_config */
    ws_time timeout_ps, reorder_ps;
    uint64_t path_pause_ns;
    uint64_t cnp_interval_ns;   /* UINT64_MAX: no CNPs */
    struct cc_params cc;        /* line_rate: that of the sender's interface, of planes that of one of them */
    struct rnic_plane_config planes; /* what a queue pair of several interfaces makes of them */
    ws_time link_delay_ps;      /* after which a host that has one card for all its interfaces hears what its links do. Until then
                                   the card sends, and all of that is lost. Of several transports of a host the longest */
};
int sim_add_transports(sim *s, const struct sim_transport_config *transports, uint32_t n); /* returns the first one's number */

/* A flow is a RoCEv2 queue pair's one direction: UDP 4791, BTH with the flow's number + 1 as destination QP, PSN counting up.
 * Its packets' Ethernet, IPv4 and UDP addresses come from the interfaces. Without a transport nothing is acknowledged
 * and what is lost is lost. With one it is a reliable connection whose two queue pairs have that number; the payload
 * is the path MTU then, a power of two. READ: `src` asks, and the data flows from `dst` to it. */
struct sim_flow_config {
    uint32_t src, src_port, dst, dst_port; /* nodes and interfaces */
    uint16_t udp_port;  /* source port: what ECMP hashes */
    uint8_t dscp;       /* ECN field is ECT(0) */
    uint8_t queue;      /* of the sender's NIC, 0..7: a PFC pause of that class stops it */
    uint32_t payload;   /* bytes a packet, behind BTH, at most: 0 = what the MTU allows as a power of two, 256..4096 */
    uint64_t rate_bps;  /* of this flow's frames as they count on a wire; 0 = the interface's */
    uint32_t transport; /* 0: none; else a transport's number + 1 */
    uint16_t operation; /* of its messages: enum rnic_operation, SEND, WRITE or READ */
    uint16_t interfaces; /* 0 or 1: those; n: the queue pair has interfaces 0 .. n - 1 of both hosts, ports are 0 */
};
/* A host has a card for each interface that flows begin or end at, or one for all of them where a flow has several interfaces:
 * that one is among the first flows of the host that are added. */
int sim_add_flows(sim *s, const struct sim_flow_config *flows, uint32_t n); /* returns the first one's number */

/* What the flow's data is sent with from now on has another source port, so that hashes take other paths (rnic_set_udp_port); a READ's
 * data is sent by its `dst`. Between two sim_run: at sim_now. Acknowledgements keep theirs. */
int sim_set_source_port(sim *s, uint32_t flow, uint16_t udp_port);

/* `queue_pairs` flows from `flow` on carry messages together, as they drain: what is added for `flow` is cut into pieces, and one of them takes the
 * next piece, in turn, while fewer than `outstanding` of its own are not acknowledged (of a READ: not there). A message is done when
 * all its pieces have arrived. What was handed to a queue pair that fails is lost; the others take the rest. Their ends, payload
 * and queue are the same, and each has a transport. Before messages are added. */
struct sim_stripes {
    uint32_t flow, queue_pairs;
    uint64_t piece_bytes;  /* 1 .. 2^30; the last one of a message is what is left */
    uint32_t outstanding;  /* 1 .. 1024 */
    uint32_t pad_;
};
int sim_stripe_flows(sim *s, const struct sim_stripes *stripes, uint32_t n);

/* A stream sends packets of one flow at given times, whatever happens to them. */
enum sim_stream_kind { SIM_CBR = 0, SIM_POISSON = 1 };
struct sim_stream_config {
    uint32_t flow;
    uint32_t kind;         /* enum sim_stream_kind */
    uint32_t payload;      /* bytes a packet */
    uint64_t seed;
    ws_time start_ps, stop_ps; /* stop: WS_NEVER for no end */
    ws_time interval_ps;   /* mean time between packets */
    uint64_t packets;      /* at most; 0 = no limit */
};
int sim_add_streams(sim *s, const struct sim_stream_config *streams, uint32_t n);

/* A message is `bytes` to be carried by a flow, in order behind the flow's earlier messages. It becomes ready `gap_ps`
 * after the last of the messages that it waits for was done, and not before start_ps. It is done when all its bytes
 * have arrived. A message without bytes is done when it is ready: computing alone. Sent as SEND first/middle/last/only. */
struct sim_message {
    uint32_t flow;
    uint32_t waits;     /* how many messages it waits for */
    uint64_t bytes;
    ws_time start_ps, gap_ps;
};
/* `first`[i] .. `first`[i + 1] - 1 index `next`: the messages that wait for message i (numbers within these n). Copied.
 * SIM_EINVAL: a message waits for more than point to it. Returns the first one's number. */
int64_t sim_add_messages(sim *s, const struct sim_message *messages, const uint64_t *first, const uint32_t *next, uint32_t n);

/* The same, but nothing begins before sim_start_messages: what collectives' messages wait for is added so. */
int64_t sim_hold_messages(sim *s, const struct sim_message *messages, const uint64_t *first, const uint32_t *next, uint32_t n);
int sim_start_messages(sim *s);

/* A collective whose messages are not added one by one: each is made when all is done that it waits for, and forgotten when
 * it has arrived. RING: in step s each rank sends a piece of the bytes to the next one, as soon as its own barrier is done
 * and what the rank before it sent in step s - 1 has come. DIRECT: in step s to the rank 1 + s * stride behind it;
 * `at_once` steps of a rank begin with its barrier, any other when its own message of `at_once` steps before is done.
 * workloads/collectives.py has the same as messages of their own, and the same times come of both. */
enum sim_pattern_kind { SIM_RING = 0, SIM_DIRECT = 1 };
struct sim_pattern {
    uint32_t kind; /* enum sim_pattern_kind */
    uint32_t ranks, channels, steps;
    uint32_t stride, at_once; /* of DIRECT */
    uint64_t bytes; /* of a rank: cut among channels and then ranks (RING), or among steps and then channels (DIRECT) */
};
/* `flows` and their messages' ideal times, copied: by (channel, rank) in a ring, and ideal times twice, for the smaller
 * and for the larger pieces; else by (step, channel, rank). All flows were added before. Returns the pattern's number. */
int sim_add_pattern(sim *s, const struct sim_pattern *config, const uint32_t *flows, const ws_time *ideal_ps);
/* Before messages start, behind all others. `heads`: by rank, the message with which the rank begins. `after`: `n_after` rows of
 * messages by rank, which wait for all that the rank sends and receives; each waits for another message, too. Returns its number. */
int sim_add_collective(sim *s, uint32_t pattern, const uint32_t *heads, const uint32_t *after, uint32_t n_after);

/* Frames as they are, sent at `at` from an interface: the packet script. Copied. */
struct sim_script_packet { uint32_t node, port; ws_time at; uint32_t length, tail_length; uint64_t tail_seed; const uint8_t *data; };
int sim_add_script(sim *s, const struct sim_script_packet *packets, uint32_t n);

/* A ticker: the same packet into a port of a switch that has no link there, at start_ps + k * period_ps for every k from 0; of
 * one that is added later, from now on. An instant's ticks come behind all else of that instant at the switch, in the
 * order in which its tickers were added. A dead switch does not tick; alive again, it goes on where its ticks would be. Ticks are
 * no work: SIM_DONE is looked for as without them, and they cease once all has been sent. Copied. Returns its number. */
enum { SIM_TICKER_BYTES = 1514 };
struct sim_ticker {
    uint32_t node, port;
    ws_time start_ps, period_ps; /* >= 0; >= 1 ns */
    uint32_t length, pad_;       /* 14 .. SIM_TICKER_BYTES */
    const uint8_t *data;
};
int sim_add_ticker(sim *s, const struct sim_ticker *ticker);
struct sim_ticker_stats {
    uint64_t ticks;
    uint64_t missed; /* while its switch was dead, or after a run to the end had come to its end */
    ws_time next_ps;
};
int sim_ticker_stats_get(const sim *s, uint32_t number, struct sim_ticker_stats *stats); /* SIM_ENOENT: there is none */

/* --- programs ------------------------------------------------------------------------------ */

/* What runs on hosts and reacts (hostagent/programs/host_program.h). `settings`: those that differ from what `ops` has, of its names;
 * copied. `ops` and `opaque` are used until sim_destroy. Returns the program's number. */
int sim_add_program(sim *s, uint32_t node, const struct program_ops *ops, void *opaque, const struct program_setting *settings,
                    uint32_t n);
/* Calls their `start`, in the order in which they were added, once all are there. Their clocks run at 1 / `time_scale` of
 * virtual time; `queue_of_dscp`: 64 numbers. SIM_EINVAL: one failed. */
int sim_start_programs(sim *s, uint32_t time_scale, const uint8_t *queue_of_dscp);
/* Calls their `stop`, once. SIM_EINVAL: one failed. */
int sim_stop_programs(sim *s);
/* The first one that failed ended the run; SIM_ENOENT: none has. `why` lives as long as the simulation. */
/* Message `message` is carried by a program, which takes orders: it is handed over when it would be sent, and done when the program
 * says so. `what` is the program's own (host_program.h). Before the run. */
int sim_order(sim *s, uint64_t message, uint32_t program, uint32_t what);

struct sim_program_failure { uint32_t program, pad_; int64_t at_ns; const char *why; };
int sim_program_failure_get(const sim *s, struct sim_program_failure *failure);
/* A program's counter `i`, in the order of their first use; SIM_ENOENT behind the last one. */
struct sim_program_counter { const char *name; uint64_t value; };
int sim_program_counter_get(const sim *s, uint32_t program, uint32_t i, struct sim_program_counter *counter);

/* --- running ------------------------------------------------------------------------------- */

enum sim_stop {
    SIM_UNTIL = 0,    /* reached `until` */
    SIM_IDLE = 1,     /* nothing can happen any more, whatever the time: now is the last event's. To the end without `until`:
                         or nothing but ticks and what comes of them, for long enough (ticker.c) */
    SIM_DONE = 2,     /* all messages are done and no stream or script has more to send (asked for by `to_the_end`) */
    SIM_BUDGET = 3,   /* handled `budget` events */
    SIM_PUNT = 4,     /* a switch has something for the controller: sim_take_punts */
    SIM_FAILED = 5,   /* memory ran out, sim_error says for what. Part of what happened is missing: no run goes on */
};
/* Runs until virtual time `until` (included) or another reason to stop. SIM_DONE, SIM_BUDGET and SIM_PUNT are looked for
 * once in a window (engine.h) of at most the smallest delay of a link: all that was due by sim_now has then happened
 * at every node, and nothing later. Punts are handed out in the order of (at, node, id). */
enum sim_stop sim_run(sim *s, ws_time until, uint64_t budget, int to_the_end);
ws_time sim_now(const sim *s);

/* Packets for the controller and digests, as ws_take_output gives them; data is valid until the next sim_run. */
struct sim_punt { uint32_t node; struct ws_output output; };
size_t sim_take_punts(sim *s, struct sim_punt *punts, size_t max);

/* --- what happened ------------------------------------------------------------------------- */

struct sim_totals {
    uint64_t events;          /* handled */
    uint64_t hops;            /* packets through one switch's ingress and egress */
    uint64_t sent, received;  /* packets of hosts, PFC frames not counted */
    uint64_t lost_link;       /* on a link that went down, or behind a dead switch */
    uint64_t received_other;  /* packets that belong to no flow (scripts), or not to the host that got them */
    uint64_t in_flight;       /* packets on links now */
    uint64_t messages, messages_done;
    uint64_t failed_flows;    /* whose queue pair is in error: what they had to send will not arrive */
};
void sim_totals_get(const sim *s, struct sim_totals *totals);

struct sim_flow_stats {
    uint64_t received_packets, received_bytes; /* bytes: payload */
    ws_time first_received, last_received;     /* -1: none */
    uint64_t timed_packets, delay_sum_ps, delay_max_ps; /* from the first bit sent to the last received; of packets that
                                 no switch had to write out */
    uint64_t marked;          /* received with CE */
    uint64_t out_of_order;    /* received with a PSN below one that came before */
    uint64_t duplicates;      /* received again, or too late to tell (65,536 packets behind) */
    uint64_t sent_packets, sent_bytes;
    ws_time first_sent, last_sent;
    uint64_t paused_ps;       /* had something to send while its NIC queue was paused */
};
int sim_flow_stats_get(sim *s, uint32_t first, uint32_t n, struct sim_flow_stats *stats);

struct sim_transport_stats { /* of a flow with a transport; all 0 without */
    uint64_t repeated_packets, repeated_bytes; /* data sent again; sim_flow_stats counts it as sent, too */
    uint64_t timeouts, acks, naks, cnps;       /* acknowledgements, NAKs and CNPs that the sender got */
    uint64_t notified;                         /* switches' notifications that it heard as such */
    ws_time first_cut_at;                      /* when congestion control first lowered its rate; -1: never */
    uint64_t acked_bytes;
    uint64_t dropped;                          /* data that came before its turn and was not kept */
    uint64_t rate_bps;                         /* by congestion control, now; 0: not limited */
    uint32_t state, failure;                   /* enum rnic_qp_state, rnic_failure, of the end that has the work */
};
int sim_transport_stats_get(sim *s, uint32_t first, uint32_t n, struct sim_transport_stats *stats);
/* The congestion control of a flow's data, as of its last event; NULL: it has none. Valid as long as the flow. */
const struct cc_slot *sim_flow_slot(sim *s, uint32_t flow);

/* A plane of one end of a flow whose interfaces are planes, as rnic_plane_stats_get has it. */
struct sim_plane_row {
    uint32_t flow, interface;
    uint32_t sends;             /* 1: the end that the flow's data comes from */
    uint32_t state, why, pad_;  /* enum rnic_plane_state, rnic_plane_loss */
    uint64_t losses, sent_packets, sent_bytes, moved_packets, outstanding, probes_sent, probes_answered;
    uint64_t rate_bps;          /* by congestion control, now; 0: not limited */
    ws_time heard_at, lost_at, up_at; /* -1: never */
};
/* By flow, end (`src` first) and interface. Returns how many there are, of which `max` are written. */
size_t sim_plane_rows(sim *s, struct sim_plane_row *rows, size_t max);

/* One end of a flow that uses one of its interfaces at a time, as rnic_migration_stats_get has it. */
struct sim_migration_row {
    uint32_t flow, sends;       /* sends: as above */
    uint32_t state, cause;      /* enum rnic_migration_state, rnic_migration_cause */
    uint32_t interface, pad_;
    uint64_t migrations, probes_sent, probes_answered;
    ws_time found_at, migrated_at; /* -1: never */
};
/* By flow and end. Returns how many there are, of which `max` are written. */
size_t sim_migration_rows(sim *s, struct sim_migration_row *rows, size_t max);

struct sim_message_times { ws_time ready, first_sent, last_sent, done; }; /* -1: not yet */
int sim_message_times_get(const sim *s, uint64_t first, uint64_t n, struct sim_message_times *times);

/* What is known of a collective's messages. Sums are high * 2^32 + low. */
enum sim_spread_of { SIM_COMPLETION = 0, SIM_SLOWDOWN = 1 }; /* ps from ready to done; that over the ideal time, in millionths */
struct sim_sum { uint64_t high, low, most; };
struct sim_collective_stats { uint64_t messages, done; ws_time first_ready, last_done; struct sim_sum sums[2]; }; /* -1: none */
int sim_collective_stats_get(sim *s, uint32_t first, uint32_t n, struct sim_collective_stats *stats);
/* How often values came, ascending: exact below 128, else without all but their highest eight bits. Returns how many rows, at most SIM_SPREAD_ROWS. */
enum { SIM_SPREAD_ROWS = 7296 };
struct sim_spread_row { uint64_t value, count; };
int sim_collective_spread_get(sim *s, uint32_t number, enum sim_spread_of of, struct sim_spread_row *rows);
/* The messages of collectives that a flow has carried: how many are done, when the first was ready and the last done (-1: none). */
struct sim_flow_messages { uint64_t done; ws_time first_ready, last_done; };
int sim_flow_messages_get(sim *s, uint32_t first, uint32_t n, struct sim_flow_messages *rows);

struct sim_host_port_stats { uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes, pfc_received, queue_packets, queue_bytes, paused_ps[8]; };
int sim_host_port_stats_get(const sim *s, uint32_t node, uint32_t port, struct sim_host_port_stats *stats);

/* What switches have said to a host's interface in datagrams, as rnic_notifications and rnic_notification_counts_get have it. What came
 * before the interface's first flow with a transport was added is not there any more. Returns how many rows, or SIM_ENOENT. */
int64_t sim_notifications(const sim *s, uint32_t node, uint32_t port, struct rnic_notification *rows, size_t max);
int sim_notification_counts_get(const sim *s, uint32_t node, uint32_t port, struct rnic_notification_counts *counts);

/* A series of samples of switch queues and of links, one every `interval_ps` from `start_ps` on; a row only where
 * something is not zero. 0 ends it. */
int sim_sample(sim *s, ws_time start_ps, ws_time interval_ps);
/* A sample now, of what has happened since the last one: at the end of a run, so that samples add up to the totals. */
void sim_sample_rest(sim *s);
struct sim_queue_sample { ws_time at; uint32_t node, port, queue, packets; uint64_t bytes; uint32_t paused, pad_; }; /* paused: 0 or 1, now */
struct sim_link_sample { ws_time at; uint32_t link, direction; uint64_t bytes, packets; }; /* since the last one; direction 0: a to b; bytes as they count on the wire */
struct sim_flow_sample { ws_time at; uint32_t flow, pad_; uint64_t bytes, rate_bps; }; /* payload received since the last one; the sender's rate by congestion control, 0: not limited */
/* Hand out and forget up to `max` rows each. */
size_t sim_take_queue_samples(sim *s, struct sim_queue_sample *rows, size_t max);
size_t sim_take_link_samples(sim *s, struct sim_link_sample *rows, size_t max);
size_t sim_take_flow_samples(sim *s, struct sim_flow_sample *rows, size_t max);

/* From now on, of the data of flows, repeated packets and all: which links each flow takes, the gaps between its packets as
 * they leave its sender, and what arrives behind a later packet. Once, after flows were added and before the run.
 * `most`: of rows of paths and gaps together; a run that has more ends as SIM_FAILED, and sim_error says so. */
int sim_record_paths(sim *s, uint64_t most);
struct sim_path_row { uint32_t flow, link, direction, pad_; uint64_t packets, bytes; }; /* direction 0: a to b; bytes as they count on the wire */
struct sim_gap_row { uint32_t flow, pad_; uint64_t gap_ns, packets; }; /* gap_ns: 0, or a power of two: gaps from it to the next one */
/* Both in no order. Return how many rows there are, of which up to `max` are written; SIM_ENOENT: nothing is recorded. */
int64_t sim_path_rows(const sim *s, struct sim_path_row *rows, size_t max);
int64_t sim_gap_rows(const sim *s, struct sim_gap_row *rows, size_t max);
struct sim_flow_order { uint64_t arrived, reordered, most_behind; }; /* packets; with a PSN below one that came before, and how far below the highest at most */
int sim_flow_orders_get(sim *s, uint32_t first, uint32_t n, struct sim_flow_order *rows);

/* Data of a flow with a transport collects what switches write into it, whatever its congestion control wants (rnic_collect). */
int sim_collect(sim *s, uint32_t flow);
int sim_collects(sim *s, uint32_t flow); /* 1: it does, because of the one or the other */
/* From now on: of each of these flows at most one packet in `every_ps` that has collected records of hops, as it arrives, a row a hop. The
 * fabric's time, in which switches write, runs at 1 / `time_scale` of virtual time. Once, after flows were added. */
int sim_record_hops(sim *s, const uint32_t *flows, uint32_t n, ws_time every_ps, uint32_t time_scale);
struct sim_hop_sample {
    ws_time at, sent;        /* the packet's last bit arrived, its first one left; sent -1: a switch has written the packet out */
    uint32_t flow;
    uint32_t place, places;  /* which hop of how many, from 0 at the sender; of more than SIM_HOPS those next to the receiver */
    uint32_t hop;            /* the number of the port in the fabric */
    ws_time latency;         /* from the queue of the hop before until out of this one's; of place 0 since `sent`. -1: not known */
    uint64_t queue_bytes;    /* what waited behind the packet, in steps of 512; the most a record says: that much or more */
    uint64_t used_bytes;     /* what the line has carried between two of the flow's packets that left by this port, */
    ws_time used_ps;         /* the last one being this, and the first the one of the row before; 0: not known */
};
enum { SIM_HOPS = 32 };
size_t sim_take_hop_samples(sim *s, struct sim_hop_sample *rows, size_t max);

/* Copies of what a port receives and sends, as many as fit in `capacity` until taken; more are counted as missed. */
int sim_tap(sim *s, uint32_t node, uint32_t port, size_t capacity); /* 0: no more */
struct sim_tapped { ws_time at; uint32_t node, port, sent, length, tail_length, pad_; uint64_t tail_seed; const uint8_t *data; };
size_t sim_take_tapped(sim *s, struct sim_tapped *rows, size_t max); /* data is valid until the next call or sim_run */
uint64_t sim_tap_missed(const sim *s);

/* --- numbers that must be the same everywhere ----------------------------------------------- */

/* An exponentially distributed time of mean `mean_ps` from 64 random bits, in integer arithmetic. */
ws_time sim_exponential(ws_time mean_ps, uint64_t random);
/* splitmix64: advances `*state` and returns 64 bits. */
uint64_t sim_random(uint64_t *state);

#endif
