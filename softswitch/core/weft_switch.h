/* The switch core's public face: passive, no clock, no socket, no thread.
 *
 * Time is int64 picoseconds since the switch's start, `now` is monotone (a smaller `now` is taken as
 * the largest seen). Bytes are network order. All calls for one switch come from one thread at a
 * time. Functions that can fail return 0 or a negative WS_E*.
 */
#ifndef WEFT_SWITCH_H
#define WEFT_SWITCH_H

#include <stddef.h>
#include <stdint.h>

#include "pipeline_abi.h"

typedef int64_t ws_time; /* picoseconds */
#define WS_NEVER INT64_MAX

typedef struct ws_switch ws_switch;

enum {
    WS_PRIORITIES_MAX = 8,
    WS_PORTS_MAX = 65536,  /* ports are numbered below this */
    WS_PACKET_BIG = 16384, /* of a frame: above the 9 018 B of a jumbo frame with room for recirculated headers */
};

enum ws_error {
    WS_OK = 0,
    WS_ENOENT = -1,   /* no such object, entry, member, group */
    WS_EEXIST = -2,   /* an equal entry is there */
    WS_EFULL = -3,    /* table, profile, array at its size */
    WS_EINVAL = -4,   /* malformed key, mask, arguments */
    WS_EBUSY = -5,    /* still referenced (member in a group, group in an entry) */
    WS_ENOMEM = -6,
    WS_ELOAD = -7,    /* shared object can't be loaded, or ABI differs */
    WS_ECONST = -8,   /* table is immutable (const entries) */
};

struct ws_config {
    uint32_t cpu_port;        /* 0 = none */
    uint32_t drop_port;       /* 511 */
    uint32_t priorities;      /* queues a port, 1..8; a higher number is served first, as in BMv2 */
    ws_time tick_ps;          /* P4 timestamps' unit: 1 000 000 (us, BMv2) or 1 000 (ns) */
    uint32_t depth_cell_bytes;/* 0: queue depth in packets (BMv2); else cells of this many bytes */
    uint32_t queue_packets;   /* default capacity of a queue in packets (BMv2: 64) */
    ws_time recirculate_ps;   /* a recirculated or resubmitted packet re-enters after this (> 0, so that a loop takes time) */
    uint32_t recirculate_packets; /* capacity of that path, then it drops and counts */
    uint64_t seed;
};
void ws_config_default(struct ws_config *config);

/* A new switch has no pipeline (--no-p4); packets are dropped and counted until ws_load. */
ws_switch *ws_create(const struct ws_config *config);
/* As if made with this seed: before the first packet, and before anything goes wrong on its wires. */
void ws_seed(ws_switch *sw, uint64_t seed);
void ws_destroy(ws_switch *sw);
/* Loads a compiled pipeline. Forgets tables, profiles, arrays, groups, sessions; packets in flight are dropped.
 * On error nothing changes and ws_last_error says why. */
int ws_load(ws_switch *sw, const char *so_path);
const struct wp_pipeline *ws_pipeline(const ws_switch *sw);
/* 1 for the first program that the switch ran, and so on; 0: none yet. */
uint32_t ws_program_number(const ws_switch *sw);

/* What a new program takes over from the one that runs. */
enum ws_keep_kind { WS_KEEP_REGISTER = 0, WS_KEEP_COUNTER = 1, WS_KEEP_METER = 2, WS_KEEP_ENTRY = 3 };
struct ws_keep {
    uint32_t kind;     /* enum ws_keep_kind */
    uint32_t old_index, new_index; /* of the array (arrays of other size keep the cells that both have) or table */
    uint64_t old_handle, new_handle; /* WS_KEEP_ENTRY: counter, last hit and direct meter; 0 is the default entry */
};
/* From now on runs the program of `donor`, another switch of the same configuration, with its entries, groups and sessions
 * and with the handles that the donor gave; the donor is left without a program. Ports, queues and time go on. Packets
 * that wait for egress finish under the old program; what enters or enters again meets the new one.
 * WS_EINVAL: nothing changed (ws_last_error: what can't be kept). */
int ws_adopt(ws_switch *sw, ws_switch *donor, const struct ws_keep *keep, size_t n);
const char *ws_last_error(const ws_switch *sw);

/* --- packets ---------------------------------------------------------------------------- */

struct ws_packet_in {
    uint32_t port;
    uint32_t length;
    const uint8_t *data;
    ws_time at; /* arrival; 0 = the call's now */
    uint32_t tail_length;
    uint64_t tail_seed;
};
/* A simulated packet is its first bytes and a tail of which only length and seed are kept: it stands for data[0..length)
 * followed by ws_payload(tail_seed, 0, ..., tail_length). Whatever counts bytes counts the tail. A pipeline that reads
 * as far as the tail gets the whole packet written out. An ordinary packet has a tail_length of 0. */
/* Bytes `offset`.. of the tail with this seed: words of splitmix64, little endian. */
void ws_payload(uint64_t seed, uint32_t offset, uint8_t *out, uint32_t n);
/* A tail whose seed has this bit ends with the ICRC of its RoCEv2 packet, computed when the tail is written out. */
#define WS_TAIL_ICRC 0x8000000000000000
/* Writes the tail out behind the `length` bytes at `frame`. */
void ws_write_tail(uint8_t *frame, uint32_t length, uint32_t tail_length, uint64_t tail_seed);
/* Arrival at `port` at `now`: runs ingress at once (or at now + rx_delay) and whatever egress is due. */
void ws_inject(ws_switch *sw, const struct ws_packet_in *packets, size_t n, ws_time now);

enum ws_port_state { WS_PORT_UP = 0, WS_PORT_DOWN = 1, WS_PORT_BLOCKED = 2 };
/* down: arrivals and departures are dropped and counted; blocked: queues hold what they have.
 * pause_mask: bit c set = priority c may not send (PFC). */
int ws_set_port(ws_switch *sw, uint32_t port, enum ws_port_state state, uint32_t pause_mask, ws_time now);
/* Reports to the program when a port goes down and when it is up again: this packet then comes in by `in`, and its last four
 * bytes are the port and 1 for up or 0 for down, 16 bits each in network order. `length` is 4 to WS_REPORT_BYTES; 0: no more
 * reports. */
enum { WS_REPORT_BYTES = 128 };
int ws_report_ports(ws_switch *sw, uint32_t in, const uint8_t *data, uint32_t length);
/* Reports every port that is down now: to a program that was loaded later than that. */
void ws_report_down_ports(ws_switch *sw);
int ws_port_state_get(const ws_switch *sw, uint32_t port, enum ws_port_state *state, uint32_t *pause_mask);
/* For drivers whose wire pushes back: of a port that is up, `packets` more may leave, then it is blocked until the next
 * grant, and what is to leave waits in its queues. Takes the place of an older grant. A packet that leaves the switch
 * takes one of them, unless it is lost on the way out; PFC frames take none. WS_UNLIMITED: as before the first grant. */
#define WS_UNLIMITED 0xffffffff
int ws_grant_port(ws_switch *sw, uint32_t port, uint32_t packets, ws_time now);

#define WS_QUEUE_CLOSED 0xffffffff /* a capacity of no packet: all are dropped, even while the port is idle */
#define WS_DELAY_MAX 0x1000000000000000 /* picoseconds: 13 days; longer is WS_EINVAL */
struct ws_port_config {
    uint64_t rate_bps;      /* 0 = not limited. Counts preamble, FCS and gap: frame + 24 B, at least 84 B */
    ws_time tx_delay_ps;    /* propagation after the last bit */
    ws_time rx_delay_ps;    /* added to arrivals (host links, where the far end can't delay) */
    uint32_t queue_packets; /* capacity of each queue of the port; 0 = not limited by count, or WS_QUEUE_CLOSED */
    uint64_t queue_bytes;   /* capacity in bytes; 0 = not limited by bytes */
    uint64_t rate_pps;      /* BMv2's packet rate per queue, 0 = none */
    uint64_t queue_cells;   /* capacity in cells of depth_cell_bytes (256 if that is 0); 0 = not limited by cells */
};
int ws_configure_port(ws_switch *sw, uint32_t port, const struct ws_port_config *config);
int ws_port_config_get(const ws_switch *sw, uint32_t port, struct ws_port_config *config);

/* BMv2's limits of one queue. ws_configure_port sets them for all queues of its port, this for one after that. */
struct ws_queue_config {
    uint32_t packets;  /* capacity; 0 = not limited by count, or WS_QUEUE_CLOSED */
    uint64_t rate_pps; /* 0 = none */
};
int ws_configure_queue(ws_switch *sw, uint32_t port, uint32_t priority, const struct ws_queue_config *config);
int ws_queue_config_get(const ws_switch *sw, uint32_t port, uint32_t priority, struct ws_queue_config *config);

/* How a port chooses among its queues. Those of quantum 0 are strict: the highest non-empty one is always next. The
 * others share what is left by deficit round robin, `quantum` bytes a round, counted as a rate counts them. */
enum { WS_QUANTUM_MIN = 84, WS_QUANTUM_MAX = 1 << 24 }; /* a minimum frame; so that sums fit */
struct ws_scheduler { uint32_t quantum[8]; };
int ws_schedule_port(ws_switch *sw, uint32_t port, const struct ws_scheduler *scheduler);
int ws_port_scheduler_get(const ws_switch *sw, uint32_t port, struct ws_scheduler *scheduler);

/* What goes wrong on the wire, a direction of a port: `send` acts on frames that left (they were counted and took their
 * time on the wire), `receive` on frames before they arrive. Probabilities are a frame's, WS_ALWAYS being 1. Draws come
 * from generators of the port's own, one for each kind, made of the switch's seed, the port, the direction and
 * `seed`: the same frames meet the same fate on every run, whatever else is configured. All zero: a good wire. */
#define WS_ALWAYS 0x100000000
enum ws_direction { WS_SEND = 0, WS_RECEIVE = 1 };
struct ws_port_impair {
    uint64_t loss;            /* a frame is lost (Gilbert-Elliott: in the good state) */
    uint64_t burst_enter;     /* the state turns bad, asked before each frame; 0 = there is no bad state */
    uint64_t burst_leave;     /* the state turns good again */
    uint64_t burst_loss;      /* a frame is lost in the bad state */
    uint64_t bit_error;       /* a bit arrives wrong, in units of 2^-64; a NIC drops such a frame by its FCS */
    uint64_t corrupt;         /* one bit behind the Ethernet header is flipped after the FCS was checked: unnoticed */
    uint64_t duplicate;       /* a frame comes twice, the second right behind */
    uint64_t reorder;         /* a frame is held back by reorder_ps, so that later ones overtake it */
    ws_time reorder_ps;
    ws_time jitter_ps;        /* 0..jitter_ps more delay for each frame; never changes their order */
    uint64_t flow_loss;       /* a frame of the flow below is lost, silently; 0 = no such flow */
    uint32_t flow_src, flow_src_mask, flow_dst, flow_dst_mask; /* IPv4, VLAN tags are skipped; mask 0: any */
    uint32_t flow_protocol;   /* 0: any */
    uint32_t flow_sport, flow_dport; /* of TCP, UDP and SCTP; 0: any */
    uint64_t seed;
};
int ws_impair_port(ws_switch *sw, uint32_t port, enum ws_direction direction, const struct ws_port_impair *impair);
int ws_port_impair_get(const ws_switch *sw, uint32_t port, enum ws_direction direction, struct ws_port_impair *impair);
struct ws_impair_stats {
    uint64_t frames;     /* that met an impaired wire */
    uint64_t lost;       /* by loss and burst_loss */
    uint64_t lost_fcs;   /* by bit_error */
    uint64_t lost_flow;
    uint64_t corrupted, duplicated, reordered;
};
int ws_port_impair_stats_get(const ws_switch *sw, uint32_t port, enum ws_direction direction,
                             struct ws_impair_stats *stats);

/* --- shared buffer and priority flow control (PFC, IEEE 802.1Qbb) ------------------------ */

/* A class is what a DSCP makes of a packet where it arrives; PFC pauses the queue of the same number.
 * A lossless class: a packet may wait while less than a threshold is used by its (ingress port, class); when that is
 * reached the port's far end is asked to pause (XOFF), and what still comes goes to the port's headroom. What leaves gives
 * back headroom first. XON follows when the headroom is empty and the use is xon_gap_bytes below the threshold. Any other
 * class: a packet may wait while its queue, with it, is within the threshold. The threshold is dynamic: alpha x what is
 * left of the shared buffer, into which the packet has to fit. */
#define WS_CLASSES 8
struct ws_buffer_config {
    uint64_t shared_bytes;       /* 0: no shared buffer, ports' own limits alone */
    uint32_t alpha_q8[8];        /* in 1/256, by class */
    uint8_t class_of_dscp[64];
    uint8_t lossless;            /* bit c: class c is paused, not dropped; ports' queue limits do not hold for it */
    uint64_t xon_gap_bytes;
    ws_time watchdog_ps;         /* a queue paused for longer drops what it has and gets; 0: never */
    ws_time watchdog_restore_ps; /* until that long after the pause has ended */
};
/* WS_EBUSY while packets wait in queues. */
int ws_configure_buffer(ws_switch *sw, const struct ws_buffer_config *config);
/* What may still come in each lossless class after XOFF; 0: it is dropped. */
int ws_port_headroom_set(ws_switch *sw, uint32_t port, const uint64_t headroom[8]);

struct ws_pfc_stats { /* of a port, by class */
    uint64_t xoff_sent[8], xon_sent[8], xoff_received[8], xon_received[8];
    uint64_t paused_ps[8];      /* this port's queues, by its far end */
    uint64_t drop_headroom[8];  /* arrived here, and the headroom was full */
    uint64_t drop_shared[8];    /* were to leave here, over the threshold; by queue */
    uint64_t watchdog_events[8], watchdog_drops[8];
    uint64_t bytes[8], most_bytes[8]; /* waiting of what arrived here in lossless classes, now and at most */
};
int ws_pfc_stats_get(const ws_switch *sw, uint32_t port, struct ws_pfc_stats *stats);
struct ws_buffer_stats { uint64_t shared_bytes, used_bytes, most_used_bytes; };
int ws_buffer_stats_get(const ws_switch *sw, struct ws_buffer_stats *stats); /* WS_ENOENT: there is none */

/* Which packets wait behind which: packets of an ingress port in a queue, and whether that is paused now. Returns how
 * many rows there are; writes at most `max`. Where that is less, what it returns is an upper bound. */
struct ws_waiting { uint32_t ingress_port, egress_port, queue, paused; uint64_t packets, bytes; };
size_t ws_waiting(const ws_switch *sw, struct ws_waiting *rows, size_t max);

/* Runs everything due up to and at `now`, each event at its scheduled time. */
void ws_advance(ws_switch *sw, ws_time now);
/* When ws_advance next has work; WS_NEVER if none. */
ws_time ws_next_event(const ws_switch *sw);

enum ws_output_kind { WS_OUT_PACKET = 0, WS_OUT_CPU = 1, WS_OUT_DIGEST = 2 };
struct ws_output {
    uint32_t kind;   /* enum ws_output_kind; WS_OUT_CPU: a packet for cpu_port, its controller header still in front */
    uint32_t port;   /* egress port, or the digest's index in pipeline->learns */
    uint32_t length;
    const uint8_t *data;
    ws_time at;      /* when its last bit arrives at the far end (packet), or when it was made */
    uint64_t id;     /* running number: outputs with equal `at` are ordered by it */
    uint32_t program; /* number of the program that made it (ws_program_number); gives a digest's `port` its meaning */
    uint32_t tail_length; /* see ws_packet_in */
    uint64_t tail_seed;
};
/* Hands out up to `max` finished outputs in (at, id) order, only those with at <= `until`. Their bytes stay
 * valid until the next call of ws_take_output or ws_destroy. */
size_t ws_take_output(ws_switch *sw, struct ws_output *out, size_t max, ws_time until);
/* Drivers on a real wire want each packet when it leaves, not in `at` order: the same, with `until` = WS_NEVER,
 * is what the daemon uses when tx_delay is 0; with a delay it waits for ws_next_event (which counts pending outputs too). */

/* --- counters of the switch itself ------------------------------------------------------ */

struct ws_port_stats {
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
    uint64_t drop_down;      /* port down */
    uint64_t drop_queue;     /* tail drop */
    uint64_t depth_packets, depth_bytes, max_depth_packets;
    uint64_t waited, wait_ps; /* packets that left a queue, and how long they were there in all: wait_ps over a time is
                                 the mean number of packets that waited in it (Little's law) */
};
int ws_port_stats_get(const ws_switch *sw, uint32_t port, struct ws_port_stats *stats);
/* Starts to watch a queue: its peak is what it holds now, and `above_at` the first time that it holds more than `bytes`. */
int ws_queue_watch(ws_switch *sw, uint32_t port, uint32_t priority, uint64_t bytes);
struct ws_queue_peak { uint64_t bytes; ws_time above_at; /* -1: not since */ };
int ws_queue_peak_get(const ws_switch *sw, uint32_t port, uint32_t priority, struct ws_queue_peak *peak);
struct ws_stats {
    uint64_t ingress, egress, drop_ingress, drop_egress, drop_no_pipeline, drop_recirculate, drop_bad_port,
        drop_bad_priority, clone_unknown_session, multicast_unknown_group, parser_errors, assert_failures, recirculated, resubmitted,
        cloned, replicated, digests;
    uint64_t drop_no_memory; /* packets, digests and events of ports that the switch had no memory for */
    uint64_t endless_passes; /* of the drops in ingress and egress: the pipeline's graph went round without end */
};
void ws_stats_get(const ws_switch *sw, struct ws_stats *stats);
/* Lines of log_msg (level 0), failed assertions (1), ports (2) and endless passes (3); NULL = none. */
void ws_set_log(ws_switch *sw, void (*log)(void *opaque, int level, const char *line), void *opaque);

/* --- control plane ---------------------------------------------------------------------- */
/* Objects are named by their index in the pipeline's descriptor arrays. Handles are > 0. */

/* What an entry does: an action with data, a member, or a group. */
enum ws_target { WS_ACTION = 0, WS_MEMBER = 1, WS_GROUP = 2 };
struct ws_spec {
    uint32_t target;      /* enum ws_target */
    uint32_t action;      /* WS_ACTION: index into actions */
    const uint64_t *args; /* WS_ACTION: `limbs` words as wp_entry.args */
    uint32_t limbs;
    uint64_t ref;         /* WS_MEMBER, WS_GROUP: handle */
};
/* `key`, `mask`: key_bytes each, in wp_key_desc layout. exact/valid: mask ignored. lpm/ternary/optional: value and mask.
 * range: key = low, mask = high. `priority`: higher wins (used by ternary and range tables, else 0). A table whose match is
 * WP_LPM orders by prefix length. Keys must be canonical (value & ~mask == 0). */
int ws_table_insert(ws_switch *sw, uint32_t table, const uint8_t *key, const uint8_t *mask,
                    int32_t priority, const struct ws_spec *spec, uint64_t *handle);
int ws_table_modify(ws_switch *sw, uint32_t table, uint64_t handle, const struct ws_spec *spec);
int ws_table_delete(ws_switch *sw, uint32_t table, uint64_t handle);
int ws_table_clear(ws_switch *sw, uint32_t table);
int ws_table_set_default(ws_switch *sw, uint32_t table, const struct ws_spec *spec); /* spec NULL: no action */
uint32_t ws_table_count(const ws_switch *sw, uint32_t table);
int ws_table_counter(ws_switch *sw, uint32_t table, uint64_t handle, struct wp_counter *out); /* handle 0: default entry */
int ws_table_counter_set(ws_switch *sw, uint32_t table, uint64_t handle, const struct wp_counter *value);
int ws_table_last_hit(const ws_switch *sw, uint32_t table, uint64_t handle, ws_time *last_hit);

int ws_member_add(ws_switch *sw, uint32_t profile, uint32_t action, const uint64_t *args, uint32_t limbs, uint64_t *handle);
int ws_member_modify(ws_switch *sw, uint32_t profile, uint64_t handle, uint32_t action, const uint64_t *args, uint32_t limbs);
int ws_member_delete(ws_switch *sw, uint32_t profile, uint64_t handle);
/* `members`: in selection order, repeated by weight. `watch`: NULL, or for each of them the port without which it is not
 * selected (WS_NO_PORT: none): while that is down the group is as if the member were not in it. */
#define WS_NO_PORT 0xffffffffu
int ws_group_add(ws_switch *sw, uint32_t profile, const uint64_t *members, const uint32_t *watch, uint32_t n,
                 uint64_t *handle);
int ws_group_set(ws_switch *sw, uint32_t profile, uint64_t handle, const uint64_t *members, const uint32_t *watch,
                 uint32_t n);
int ws_group_delete(ws_switch *sw, uint32_t profile, uint64_t handle);

/* `backup`: stands in for the last one before it that is no backup, while its port and those of all between are down. */
struct ws_replica { uint32_t port; uint32_t rid; uint8_t backup; };
int ws_multicast_set(ws_switch *sw, uint32_t group, const struct ws_replica *replicas, uint32_t n); /* n = 0 deletes */
struct ws_session { uint32_t egress_port; uint8_t port_valid; uint32_t group; uint8_t group_valid; uint32_t truncate; /* bytes, 0 = no */ uint8_t priority; /* of the clones' queue; 0: as their metadata has it */ };
int ws_clone_session_set(ws_switch *sw, uint32_t session, const struct ws_session *value); /* NULL deletes */

int ws_counter_get(const ws_switch *sw, uint32_t counter, uint32_t index, struct wp_counter *out);
int ws_counter_set(ws_switch *sw, uint32_t counter, uint32_t index, const struct wp_counter *value);
int ws_register_get(const ws_switch *sw, uint32_t reg, uint32_t index, uint64_t *limbs);
int ws_register_set(ws_switch *sw, uint32_t reg, uint32_t index, const uint64_t *limbs);

/* Replaces the members of a parser value set, in the layout of struct wp_value_set. WS_EFULL above its size. */
int ws_value_set_set(ws_switch *sw, uint32_t set, const uint64_t *members, uint32_t n);

/* Two-rate three-colour (RFC 2698); rates per second of the meter's unit (bytes or packets), bursts in that unit. */
struct ws_meter_config { uint64_t cir, cburst, pir, pburst; uint8_t configured; /* 0: always green */ };
int ws_meter_set(ws_switch *sw, uint32_t meter, uint32_t index, const struct ws_meter_config *config);
int ws_meter_get(const ws_switch *sw, uint32_t meter, uint32_t index, struct ws_meter_config *config);
int ws_direct_meter_set(ws_switch *sw, uint32_t table, uint64_t handle, const struct ws_meter_config *config);

/* --- tracing ------------------------------------------------------------------------------- */

/* While at least one tracer is there, a received packet that a tracer takes runs through the program's traced variant,
 * and so do its clones, replicas and later rounds. Each step appends a record to a buffer of fixed size; when a quarter of
 * it or less is free no further packet is begun (`missed`), when it is full records are lost (`lost`, WS_TRACE_GAP). */

/* An instruction of classic BPF, as libpcap compiles filters. */
struct ws_filter_insn {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
struct ws_trace_request {
    const struct ws_filter_insn *filter; /* on the bytes as received; `filter_n` 0: every packet */
    uint32_t filter_n;
    const uint32_t *ports; /* received there; `ports_n` 0: anywhere */
    uint32_t ports_n;
    uint64_t limit; /* packets, 0: no limit */
};
enum { WS_TRACERS_MAX = 8 };

enum ws_trace_kind { /* beyond enum wp_trace_kind; what a, b, c, x, y are, 0 unless said */
    WS_TRACE_BEGIN = 32,     /* a: origin, b: parent branch, c: port of arrival, x: length, y: bit t set: tracer t took it;
                                data: the bytes as received, the first WS_TRACE_SNAP (origin RECEIVED only) */
    WS_TRACE_INGRESS = 33,   /* a: ingress port */
    WS_TRACE_PARSED = 34,    /* a: bytes consumed, b: error, c: 1 when a checksum is wrong */
    WS_TRACE_ENQUEUE = 35,   /* a: port, b: priority, c: depth as P4 sees it, x: packets and y: bytes in front of it */
    WS_TRACE_EGRESS = 36,    /* a: port, b: priority, c: depth as P4 sees it */
    WS_TRACE_DEPARSED = 37,  /* a: bytes of headers, x: length of the packet */
    WS_TRACE_CLONE = 38,     /* a: origin, b: session, c: 0 when there is no such session */
    WS_TRACE_REPLICATE = 39, /* a: group, b: copies */
    WS_TRACE_DIGEST = 40,    /* a: index in learns */
    WS_TRACE_LOG = 41,       /* a: 0 log_msg, 1 failed assertion; data: the text */
    WS_TRACE_END = 42,       /* a: enum ws_trace_end, b: port, x: length; `at`: for SENT, when the last bit arrives */
    WS_TRACE_UNLOADED = 43,  /* all packets in flight are gone: another program was loaded (packet 0) */
};
/* Of WP_TRACE_TABLE: a: table, b: bit 0 hit, bit 1 from a group, c: action, WP_NO_ACTION = none, x: handle of the entry,
 * y: its priority; data: key, on a hit the entry's key and mask (or low and high), the action's limbs. Of the other steps:
 * a: object, x: index, y: value. */

enum ws_trace_origin {
    WS_TRACE_RECEIVED = 0,
    WS_TRACE_INGRESS_CLONE = 1,
    WS_TRACE_EGRESS_CLONE = 2,
    WS_TRACE_REPLICA = 3,
    WS_TRACE_RESUBMIT = 4,
    WS_TRACE_RECIRCULATE = 5,
    WS_TRACE_DUPLICATE = 6, /* made by the link (ws_port_impair) */
};
enum ws_trace_end {
    WS_TRACE_SENT = 0,
    WS_TRACE_TO_CPU = 1,
    WS_TRACE_DROP_INGRESS = 2,      /* egress_spec was the drop port at the end of ingress */
    WS_TRACE_DROP_EGRESS = 3,
    WS_TRACE_DROP_QUEUE = 4,        /* full */
    WS_TRACE_DROP_PORT_DOWN = 5,
    WS_TRACE_DROP_BAD_PORT = 6,     /* no such port */
    WS_TRACE_DROP_BAD_PRIORITY = 7, /* no such queue */
    WS_TRACE_DROP_RECIRCULATE = 8,  /* the path is full */
    WS_TRACE_NO_GROUP = 9,          /* no such multicast group */
    WS_TRACE_RESUBMITTED = 10,      /* goes on as another branch */
    WS_TRACE_RECIRCULATED = 11,
    WS_TRACE_GONE = 12,             /* freed without any of these */
    WS_TRACE_LOST = 13,             /* by the link (ws_port_impair) */
    WS_TRACE_DROP_BUFFER = 14,      /* over the shared buffer's threshold, or its headroom is full */
    WS_TRACE_PAUSE = 15,            /* a PFC frame: taken below the pipeline */
};
enum { WS_TRACE_WHOLE = 1, WS_TRACE_GAP = 2, WS_TRACE_SNAP = 512 };

/* A record: this, `data_len` bytes padded to 8, then `words` changes of the PHV. */
struct ws_trace_record {
    uint32_t size;   /* of all that */
    uint16_t kind;   /* enum wp_trace_kind or ws_trace_kind */
    uint16_t flags;  /* WS_TRACE_WHOLE: the PHV was all zero before; WS_TRACE_GAP: records before this one were lost */
    uint32_t packet; /* the received packet: its first branch */
    uint32_t branch; /* 1, 2, ...: the received packet or one made of it */
    uint32_t program;/* number of the program, as ws_program_number */
    uint32_t data_len;
    uint32_t words;
    uint32_t a, b, c;
    uint64_t x, y;
    ws_time at;
};
/* The 32-bit word at byte 4 * `index` of the PHV has become `value` since the branch's record before. */
struct ws_trace_word {
    uint32_t index;
    uint32_t value;
};
struct ws_trace_stats {
    uint64_t packets; /* begun */
    uint64_t missed;  /* taken by a tracer and not begun: buffer nearly full, or no traced variant */
    uint64_t lost;    /* records */
    uint32_t tracers;
    uint32_t ready;   /* 1: the current program has its traced variant */
};

/* Gives the current program its traced variant; WS_ELOAD when it is not the variant of this program, WS_ENOENT without
 * a program. It stays as long as the program. */
int ws_trace_variant(ws_switch *sw, const char *so_path);
/* Where the fields are in the current program's PHV; NULL without a traced variant. */
const struct wp_trace *ws_trace_layout(const ws_switch *sw);
/* Starts a tracer, returns its number (below WS_TRACERS_MAX) or WS_EFULL, WS_EINVAL (filter malformed), WS_ENOMEM.
 * The first one makes the buffer, of `capacity` bytes. */
int ws_trace_start(ws_switch *sw, const struct ws_trace_request *request, size_t capacity);
/* Ends it; the last one frees the buffer. */
int ws_trace_stop(ws_switch *sw, uint32_t tracer);
/* Moves whole records into `buffer`; returns how many bytes. */
size_t ws_trace_read(ws_switch *sw, uint8_t *buffer, size_t size);
void ws_trace_stats_get(const ws_switch *sw, struct ws_trace_stats *stats);

/* --- daemon loop (AF_PACKET; the only part with sockets, a clock and a thread) ------------- */

typedef struct wd_loop wd_loop;
struct wd_stats {
    uint64_t rx, tx;         /* frames */
    uint64_t tx_blocked;     /* how often an interface pushed back: its port was blocked until it took frames again */
    uint64_t tx_errors;      /* frames that no interface took (too long, down, dropped by its queueing discipline) */
    uint64_t wakeups;
    uint64_t truncated;      /* longer than the receive ring's frames, dropped */
    uint64_t rx_dropped;     /* the kernel found a receive ring full */
    uint64_t events_dropped; /* CPU packets and digests that were not fetched in time */
    int64_t cpu_ns;          /* CPU time of the thread in wd_run */
    int64_t held_back_ns;    /* how far the switch's time is behind its clock: what went round took longer than it lasts */
};
wd_loop *wd_create(ws_switch *sw);
/* 0 or -errno; ws_last_error says which interface and why. Takes the lock itself. `pcap_path`: NULL, or the stem
 * of PATH_in.pcap and PATH_out.pcap (nanosecond pcap). An interface that goes down marks its port down, one
 * that comes back marks it up; a deleted one closes the port. Both are said through ws_set_log (level 2). */
int wd_add_port(wd_loop *loop, uint32_t port, const char *ifname, const char *pcap_path);
int wd_remove_port(wd_loop *loop, uint32_t port);
/* Runs until wd_stop; holds the lock except while it waits and while others want it. 0 or -errno. */
int wd_run(wd_loop *loop);
void wd_stop(wd_loop *loop);
/* wd_run must have returned. */
void wd_destroy(wd_loop *loop);
/* Control-plane calls of other threads go between lock and unlock; the loop gives way between two
 * batches, and unlock makes it look at new work. */
void wd_lock(wd_loop *loop);
void wd_unlock(wd_loop *loop);
/* Packets of the controller: enters ingress at cpu_port. Takes the lock itself. 0, -ENOENT without a cpu_port. */
int wd_packet_out(wd_loop *loop, const uint8_t *data, uint32_t length);
/* CPU packets and digests, copied into `buffer` (each: struct ws_output with data pointing into buffer). Waits up to timeout_ms
 * without the lock; returns how many. Bounded ring: when full the newest is dropped and counted. After wd_stop
 * it returns at once. */
size_t wd_wait_events(wd_loop *loop, struct ws_output *out, size_t max, uint8_t *buffer, size_t buffer_size, int timeout_ms);
/* Lets wd_wait_events return although nothing came: its caller has something to do earlier than it thought. */
void wd_nudge_events(wd_loop *loop);
/* The switch's time: CLOCK_MONOTONIC since wd_create, less what it was held back; that may be some ms, back from here. */
ws_time wd_now(const wd_loop *loop);
void wd_stats_get(const wd_loop *loop, struct wd_stats *stats);
struct wd_port_stats {
    char discipline[16]; /* root queueing discipline of the port's interface: "noqueue", "htb", ... */
    uint64_t blocked;    /* how often the port had to wait until its interface took frames again */
    uint64_t lost;       /* frames that left the switch and that the interface did not take: its discipline dropped
                            them, too long, down */
};
/* Between wd_lock and wd_unlock. -ENOENT: the port has no interface. */
int wd_port_stats_get(const wd_loop *loop, uint32_t port, struct wd_port_stats *stats);

/* A ticker: the same packet comes in by a port without an interface, at start + k * period of wd_now for every k from 0; of one that
 * is added later, from now on. It enters with the time at which it was due. A loop that comes late makes up for all ticks,
 * but of more than WD_TICKS_BEHIND it skips the oldest. */
enum { WD_TICKS_BEHIND = 1024, WD_TICKER_PERIOD_PS = 10000000, WD_TICKER_BYTES = 1514 };
struct wd_ticker_config {
    uint32_t port, length;       /* 14 .. WD_TICKER_BYTES */
    const uint8_t *data;         /* copied */
    ws_time start_ps, period_ps; /* real time; at least WD_TICKER_PERIOD_PS */
};
/* Takes the lock itself. The ticker's number, or -errno (ws_last_error says why). */
int wd_add_ticker(wd_loop *loop, const struct wd_ticker_config *config);
/* How late: from when a tick was due to when its packet entered; percentiles are at most an eighth above the true ones. */
struct wd_ticker_stats {
    uint32_t port, pad_;
    ws_time start_ps, period_ps;
    uint64_t ticks, skipped;
    ws_time late_p50_ps, late_p99_ps, late_max_ps;
};
/* Between wd_lock and wd_unlock. -ENOENT: there is no such ticker. */
int wd_ticker_stats_get(const wd_loop *loop, uint32_t number, struct wd_ticker_stats *stats);

#endif
