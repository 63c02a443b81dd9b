/* A RoCEv2 network card's queue pairs: reliable connections (RC) over UDP 4791, passive as the switch core is.
 *
 * Nothing here reads a clock, owns a socket or sleeps. The driver brings frames and time, and takes frames when the card's
 * line is free:
 *
 *     rnic_receive(frame, now)   rnic_advance(now)   rnic_transmit(now) -> packet   rnic_next_event() -> time
 *
 * A card is a device of up to RNIC_INTERFACES interfaces, each with its addresses, its line, its pauses and its link. A queue
 * pair belongs to the card: it has one interface or several, and then each of its packets takes one of them.
 *
 * Time is int64 picoseconds, monotone; addresses are in host order. Functions that can fail return 0 or a negative RNIC_E*.
 * All calls for one card come from one thread at a time. Memory is taken when queue pairs are made and work is
 * posted, never for a packet; but header-only cards take what selective repeat needs when something is missing, and
 * queue pairs what telemetry and round-trip times need when the first comes and when more packets are on the way than ever.
 *
 * Source: InfiniBand Architecture Specification vol. 1, chapter 9 (transport), annexes A16, A17 (RoCE, RoCEv2). Selective
 * repeat follows IRN (Mittal et al., SIGCOMM 2018): the NAK carries a bitmap (docs/wire-formats.md).
 */
#ifndef RNIC_H
#define RNIC_H

#include <stddef.h>
#include <stdint.h>

#include "cc_sent.h"
#include "cc_slot.h"

typedef int64_t rnic_time; /* picoseconds */
#define RNIC_NEVER INT64_MAX

typedef struct rnic rnic;

enum rnic_status {
    RNIC_OK = 0,
    RNIC_ENOENT = -1,  /* no such queue pair, region */
    RNIC_EEXIST = -2,  /* the number or key is taken */
    RNIC_EFULL = -3,   /* queue pair limit, send queue, receive queue */
    RNIC_EINVAL = -4,
    RNIC_ENOMEM = -5,
    RNIC_ESTATE = -6,  /* the queue pair is in error, or not connected */
};

enum {
    RNIC_QUEUES = 8,       /* as PFC's classes; a higher one is served first */
    RNIC_MTU_MIN = 256,
    RNIC_MTU_MAX = 4096,
    RNIC_HEADERS_MAX = 152, /* Ethernet, IPv4, UDP, telemetry, BTH and what may follow before the payload */
    RNIC_ICRC = 4,
    RNIC_QPN_MAX = 0xffffff,
    RNIC_INTERFACES = 8,
    RNIC_PATHS = 256,      /* of a queue pair of several interfaces: these by its UDP ports */
};

struct rnic_config {
    uint64_t mac, gateway_mac; /* own, and where everything is sent to */
    uint32_t ip;
    uint32_t max_qps;
    uint64_t line_rate_bps;    /* a queue pair that may send as fast is not paced */
    uint32_t whole;            /* 1: packets carry their payload and ICRC; 0: header-only, payloads are lengths alone */
    uint32_t check_icrc;       /* of whole packets; a wrong one is dropped and counted */
    uint32_t cnp_dscp, cnp_queue; /* 0..63, 0..7 */
    uint64_t cc_base_ns;       /* the congestion control's clock at rnic_time 0 */
    int64_t clock_ppb;         /* its clock is so many parts in 10^9 faster than that: what it paces goes so much faster */
    rnic_time pace_slack_ps;   /* a paced packet that leaves late brings the next ones forward by so much at most: 0 in virtual time */
};

rnic *rnic_create(const struct rnic_config *config); /* NULL: no memory, or CNPs of a DSCP or queue that there is not */
void rnic_destroy(rnic *r);
const char *rnic_error(const rnic *r); /* why the last call failed */
int rnic_configure(rnic *r, const struct rnic_config *config); /* addresses and rate; the rest stays as it was */

/* An interface of the card, as rnic_config says it of the first one. */
struct rnic_interface {
    uint64_t mac, gateway_mac;
    uint64_t line_rate_bps;
    int64_t clock_ppb; /* of what queue pairs pace that have this interface alone, or have it first */
    uint32_t ip;
    uint32_t pad_;
};
/* One more, which is up, before there are queue pairs. Returns its number (the first one's is 0) or RNIC_E*. */
int rnic_add_interface(rnic *r, const struct rnic_interface *interface);
/* Other addresses and another rate; those of queue pairs that are connected stay. */
int rnic_configure_interface(rnic *r, uint32_t interface, const struct rnic_interface *config);

/* --- memory ---------------------------------------------------------------------------------- */

enum rnic_access { RNIC_REMOTE_WRITE = 1, RNIC_REMOTE_READ = 2 };
/* What peers may write and read by `rkey`. `base` is the byte at `address`; NULL where payloads are lengths alone. */
int rnic_register(rnic *r, uint32_t rkey, uint64_t address, uint8_t *base, uint64_t length, uint32_t access);
int rnic_deregister(rnic *r, uint32_t rkey);

/* --- queue pairs ----------------------------------------------------------------------------- */

enum rnic_repeat { RNIC_GO_BACK_N = 0, RNIC_SELECTIVE = 1 };

/* What a queue pair of several interfaces makes of them. */
enum rnic_plane_use {
    RNIC_PLANES_TURNS = 0,  /* one device: as "several interfaces" below says */
    RNIC_PLANES_SHARED = 1, /* planes: each interface with congestion control, rate and CNPs of its own, lost and found again by
                               itself ("planes" below). Selective repeat, and both ends the same */
    RNIC_PLANES_SINGLE = 2, /* automatic path migration (InfiniBand vol. 1, 17.2.8): one interface at a time, the others are alternates */
};
struct rnic_plane_config {
    uint32_t use;          /* enum rnic_plane_use */
    uint32_t misses;       /* SHARED: probes in a row that stay without answer; with the last one the plane is lost. 1 .. 255 */
    rnic_time silence_ps;  /* SHARED: who has sent something by a plane and heard nothing by it for so long probes it, and again after as long; > 0 */
    rnic_time probe_ps;    /* SHARED: the time between probes of a plane that is lost; > 0 */
    uint32_t first;        /* SINGLE: the interface that it begins with, counted among its own, or of enum rnic_first */
    uint32_t tries;        /* SINGLE: with so many time-outs in a row it migrates; 0: never because of time-outs. At most `retries` + 1: those of
                              the path before do not count for the next one */
    uint32_t by_link;      /* SINGLE, 1: it also migrates when the link of its own interface goes down */
    uint32_t pad_;
    rnic_time switch_ps;   /* SINGLE: so long after it has found that out it sends by the other interface, and nothing until then: what
                              software takes. >= 0 */
    rnic_time return_ps;   /* SINGLE: it returns by itself to the interface that it began with ("migration" below); 0: never. >= 0 */
};
/* How queue pairs are spread over interfaces. Both ends of one find the same. */
enum rnic_first {
    RNIC_FIRST_TURN = 0x100, /* the smaller of both ends' numbers, modulo interfaces */
    RNIC_FIRST_HASH = 0x101, /* a hash of both ends' addresses and numbers: as a bond, which looks at nothing else */
};
struct rnic_qp_config {
    uint32_t qpn;            /* 1 .. RNIC_QPN_MAX; both ends may have the same */
    uint32_t mtu;            /* payload bytes a packet: 256, 512, 1024, 2048 or 4096 */
    uint16_t udp_port;       /* first source port */
    uint16_t udp_ports;      /* how many, packets taking turns (PSN modulo them); 0 as 1 */
    uint8_t dscp, queue;     /* of data, and of acknowledgements unless */
    uint8_t ack_apart;       /* 1: these have a class of their own, and so may overtake READ responses: */
    uint8_t ack_dscp, ack_queue;
    uint8_t repeat;          /* enum rnic_repeat */
    uint8_t ttl;             /* 0 as 64 */
    uint32_t first_psn;      /* of what this end sends */
    uint32_t ack_every;      /* an acknowledgement for so many packets at least; 0 as 1. A message's last packet is always acknowledged */
    uint32_t window_packets; /* sent and not acknowledged; 0: 2^22 (selective: 1024). Selective: at most 8192 */
    rnic_time reorder_ps;    /* selective: packets may overtake each other by so much before what is missing counts as lost */
    uint32_t retries;        /* time-outs without progress that it stands; the next one fails it */
    uint32_t rnr_retries;    /* 7: for ever */
    rnic_time timeout_ps;    /* > 0 */
    rnic_time rnr_timer_ps;  /* what a receiver that is not ready asks for; 0: 10 us */
    uint64_t rate_bps;       /* never faster than that; 0: the line's rate */
    uint32_t max_reads;      /* READs under way at once, both as requester and responder; 0: 16 */
    uint32_t send_depth;     /* work requests not completed; 0: as many as there is memory for */
    uint64_t cnp_interval_ns;/* notification point: at most one CNP in that time; UINT64_MAX: none are sent */
    struct cc_slot *slot;    /* NULL: one of the queue pair's own; else the caller's, which stays valid */
    uint32_t slot_is_ours;   /* 1: rnic updates the slot; 0: the kernel does, it is only read */
    struct cc_sent *sent;    /* of a slot that the kernel updates: where it looks for send times; NULL: it does not get any */
    uint32_t interface;      /* the first of the card's that it has */
    uint32_t interfaces;     /* how many, from that one on; 0 as 1 */
    uint32_t path_kind;      /* enum path_kind, which chooses among the UDP ports; needs selective repeat. 0: packets take turns. Both ends
                                have the same: but for PATH_OBLIVIOUS, acknowledgements say by which ports packets came */
    uint32_t path_idle_rounds, path_rounds; /* as struct path_config */
    uint64_t path_pause_ns;
    struct rnic_plane_config planes;
    struct cc_slot *plane_slots[RNIC_INTERFACES]; /* SHARED: as `slot`, for each of its interfaces, and `slot` is not used. All NULL:
                                                     its own ones, which start with what `cc` says and the interface's line rate */
    struct cc_sent *plane_sent[RNIC_INTERFACES];  /* as `sent`: the first one has times and paths, each of them `lost_at` */
};
/* A slot whose algorithms limit by a window: new packets wait while payload bytes that were sent and not acknowledged have reached it,
 * though one packet may always be on the way; each asks to be acknowledged. Where round-trip times are wanted, too, one more leaves after
 * two round trips without a word, in case acknowledgements were lost. What was lost is sent again at once by selective
 * repeat, and within the window by go-back-N. A READ counts with all that it asks for; its responses, which
 * nobody acknowledges, are limited by the rate of the end that sends them, and by no window.
 * Its own slot, if `slot` is NULL, starts with what `cc` says; NULL as without an algorithm. */
int rnic_add_qp(rnic *r, const struct rnic_qp_config *config, const struct cc_params *cc);
/* Now it can send and receive. `peer_psn`: the other end's first_psn. `peer_mac` 0: the gateway. Once only. */
int rnic_connect(rnic *r, uint32_t qpn, uint32_t peer_ip, uint64_t peer_mac, uint32_t peer_qpn, uint32_t peer_psn);
/* The same with the peer's addresses by interface: the i-th of ours talks to the i-th of these. `n`: as many as it has. */
struct rnic_address {
    uint64_t mac; /* 0: the gateway of our interface */
    uint32_t ip;
    uint32_t pad_;
};
int rnic_connect_ways(rnic *r, uint32_t qpn, const struct rnic_address *peers, uint32_t n, uint32_t peer_qpn, uint32_t peer_psn);
/* What it sends from now on, also again, has source ports from this one on, at any time: as mlx5dv_modify_qp_udp_sport. The peer takes any. What
 * was sent before may come behind what is sent now: go-back-N then sends again from what was overtaken, selective repeat what
 * counts as missing, and nothing within `reorder_ps`. Echoes of the ports before say nothing of paths. */
int rnic_set_udp_port(rnic *r, uint32_t qpn, uint16_t udp_port);
int rnic_remove_qp(rnic *r, uint32_t qpn); /* its work is dropped without events */

/* Its data (SENDs and WRITEs) collects telemetry from now on, whatever its congestion control wants, or does as that says. The receiver returns it
 * with acknowledgements all the same. RNIC_EINVAL: it shares its load over planes. */
int rnic_collect(rnic *r, uint32_t qpn, int on);
int rnic_collects(const rnic *r, uint32_t qpn); /* 1: it does, because of the one or the other, and its shim is free for it */

/* --- work ------------------------------------------------------------------------------------ */

enum rnic_operation { RNIC_SEND = 0, RNIC_SEND_IMM = 1, RNIC_WRITE = 2, RNIC_WRITE_IMM = 3, RNIC_READ = 4 };
struct rnic_work {
    uint64_t id;              /* comes back in events */
    uint32_t operation;       /* enum rnic_operation */
    uint32_t immediate;
    uint64_t length;          /* at most 2^31 */
    uint8_t *local;           /* sent from, READ: into; whole packets need it unless length is 0. Stays valid until completion */
    uint64_t remote_address;  /* WRITE and READ */
    uint32_t rkey;
    uint32_t pad_;
};
int rnic_post(rnic *r, uint32_t qpn, const struct rnic_work *work, rnic_time now);
/* A buffer for one SEND or for the notice of one WRITE with immediate. */
int rnic_post_receive(rnic *r, uint32_t qpn, uint64_t id, uint8_t *buffer, uint64_t length);
/* Whenever a SEND needs a buffer and none is posted it is taken and forgotten (the simulator's receivers). */
int rnic_receive_anything(rnic *r, uint32_t qpn);

enum rnic_event_kind {
    RNIC_COMPLETED = 0, /* a work request of ours was acknowledged, or a READ has all its data */
    RNIC_RECEIVED = 1,  /* a SEND, or a WRITE with immediate, has arrived: a receive buffer is used up */
    RNIC_PLACED = 2,    /* the last packet of a message arrived in order, whatever its kind (not of READs) */
    RNIC_FAILED = 3,    /* a work request (or receive buffer) will not complete: `status` */
    RNIC_QP_FAILED = 4, /* the queue pair is in error, and why; comes before its works' RNIC_FAILED */
    RNIC_MIGRATED = 5,  /* it sends by another interface, `id` of the card's (IBV_EVENT_PATH_MIG) */
};
enum rnic_failure {
    RNIC_NO_FAILURE = 0,
    RNIC_FLUSHED = 1,        /* an earlier one failed */
    RNIC_RETRY_EXCEEDED = 2, /* the peer does not answer */
    RNIC_RNR_EXCEEDED = 3,   /* the peer posts no receive buffers */
    RNIC_REMOTE_ACCESS = 4,  /* the peer refuses address, length or key */
    RNIC_REMOTE_INVALID = 5, /* the peer can't take the request: a SEND longer than its buffer, a broken sequence */
    RNIC_REMOTE_OPERATION = 6,
    RNIC_LOCAL_LENGTH = 7,   /* receiver: a SEND did not fit the posted buffer */
};
struct rnic_event {
    uint32_t kind, qpn;
    uint64_t id;            /* of the work or buffer; PLACED: number of the message, from 0 */
    uint64_t bytes;
    uint32_t immediate, has_immediate;
    uint32_t status;        /* enum rnic_failure */
    uint32_t operation;     /* enum rnic_operation of COMPLETED, FAILED; RECEIVED: SEND or WRITE_IMM */
    rnic_time at;
};
/* Which kinds are wanted, bit 1 << kind; all by default. */
void rnic_want_events(rnic *r, uint32_t kinds);
size_t rnic_take_events(rnic *r, struct rnic_event *events, size_t max);
size_t rnic_events_waiting(const rnic *r);

/* --- packets --------------------------------------------------------------------------------- */

/* Takes a frame from the wire: Ethernet, without FCS. `tail`: bytes behind `length` that are not there (header-only: payload, pad
 * and ICRC); 0 for a whole frame. Returns 1 if it was a RoCEv2 packet for a queue pair of ours, or a switch's notification that one
 * hears, else 0 and it is counted. */
int rnic_receive(rnic *r, const uint8_t *frame, uint32_t length, uint32_t tail, rnic_time now);

struct rnic_packet {
    uint32_t header_length;
    uint32_t payload_length; /* behind the header, followed by `pad` zeros and the ICRC */
    const uint8_t *payload;  /* valid until the next call; NULL: header-only or none */
    uint32_t pad;
    uint32_t qpn, queue;
    uint32_t psn;
    uint32_t repeated;       /* 1: a retransmission */
    uint32_t kind;           /* enum rnic_packet_kind */
    uint32_t begins, ends;   /* DATA and READ_REQUEST: first, last packet of the work request `id` */
    uint64_t id;
    uint8_t header[RNIC_HEADERS_MAX];
};
enum rnic_packet_kind { RNIC_DATA = 0, RNIC_RESPONSE = 1 /* of a READ */, RNIC_ACK = 2 /* and NAK */, RNIC_CNP = 3, RNIC_READ_REQUEST = 4, RNIC_PROBE = 5 /* and its answer */ };
/* The next packet that may leave at `now`: 1, or 0 if none may. CNPs and acknowledgements of a queue come before its data;
 * queue pairs take turns, a packet each. */
int rnic_transmit(rnic *r, rnic_time now, struct rnic_packet *packet);
/* The highest queue that has something to send at `now` and is not paused; -1: none. */
int rnic_ready_queue(rnic *r, rnic_time now);
/* Header, payload, pad and ICRC one behind the other: `out` has room for all. Returns the length. */
uint32_t rnic_write_packet(const struct rnic_packet *packet, uint8_t *out);
/* Time-outs due up to `now`. */
void rnic_advance(rnic *r, rnic_time now);
/* When rnic_advance has work or rnic_transmit may have a packet: a time that has passed means at once. RNIC_NEVER: only
 * after a frame or a call. */
rnic_time rnic_next_event(rnic *r);
/* Bit q: queue q may not send now (PFC). */
void rnic_set_pause(rnic *r, uint32_t mask);

/* --- several interfaces ---------------------------------------------------------------------- */

/* What is said above of the card is said of its first interface, and all there is with one. With several the driver asks each
 * line that is free for a packet, says of each until when it is taken, and asks all of them again when something has happened
 * to the card, a packet by another line too. Time-outs are the card's: any line's next event has them.
 *
 * A queue pair of several interfaces has paths: UDP port * interfaces + interface. Where its congestion control chooses
 * (cc_path_at), the packet takes that path, or the next interface that is up; what has to wait for its line lets a few that
 * follow go by others. Where it does not, packets take turns over the lines that are free when a packet is due. Acknowledgements and CNPs
 * go back by the interface by which came what they answer. Its line rate is the sum of its interfaces'. */
int rnic_receive_on(rnic *r, uint32_t interface, const uint8_t *frame, uint32_t length, uint32_t tail, rnic_time now);
int rnic_transmit_on(rnic *r, uint32_t interface, rnic_time now, struct rnic_packet *packet);
int rnic_ready_queue_on(rnic *r, uint32_t interface, rnic_time now);
rnic_time rnic_next_event_on(rnic *r, uint32_t interface);
void rnic_set_pause_on(rnic *r, uint32_t interface, uint32_t mask);
/* Until when the line is taken, also by what is not the card's. */
void rnic_set_busy(rnic *r, uint32_t interface, rnic_time until);
/* A link went down, or up. New packets avoid one that is down at once; what was lost with it is sent again as any loss. */
void rnic_set_link(rnic *r, uint32_t interface, int up);
/* PSNs (not cut to 24 bits) of own work whose last copy took this interface and that the peer is not known to have, ascending;
 * a READ's: that of its request until the first response. Returns how many there are, of which `max` are written. */
size_t rnic_outstanding_by(const rnic *r, uint32_t qpn, uint32_t interface, uint64_t *psns, size_t max);

/* --- planes ---------------------------------------------------------------------------------- */

/* A queue pair that shares its load over planes (RNIC_PLANES_SHARED). Each of its packets takes the next plane in turn that may be used,
 * whose line is free and whose own rate allows one, so that planes carry what their rates say; a packet that was sent by one plane and one that
 * was sent by another may overtake each other (`reorder_ps`). Nothing about planes is agreed upon: each end decides what it sends by which,
 * and takes what comes by any.
 *
 * A plane is lost when its own link goes down, when a switch says that the peer can't be reached there (a notification of type 2 to this
 * interface, with the peer's address as destination), or when it is silent: something was sent by it, no acknowledgement came back by it for
 * `silence_ps` (and twice the round trip), and `misses` probes had no answer. Probes are packets of the queue pair's class and port, answered by the plane
 * by which they come (docs/wire-formats.md). Then what had been sent by it, and is not known to have arrived, is sent again by the others at
 * once, and it is probed each `probe_ps` until its slot's algorithms (cc_path_at) let it be used again. Without such an algorithm an
 * answer is enough. If all are lost nothing is sent but probes, until time-outs end the queue pair. */
enum rnic_plane_state { RNIC_PLANE_UP = 0, RNIC_PLANE_ASKED = 1 /* a probe is on its way */, RNIC_PLANE_LOST = 2, RNIC_PLANE_DRAINED = 3 };
enum rnic_plane_loss { RNIC_LOSS_NONE = 0, RNIC_LOSS_LINK = 1, RNIC_LOSS_TOLD = 2 /* by a switch */, RNIC_LOSS_SILENT = 3, RNIC_LOSS_TIMEOUT = 4 };
struct rnic_plane_stats {
    uint32_t state;           /* enum rnic_plane_state */
    uint32_t why;             /* enum rnic_plane_loss of the last loss */
    uint64_t losses;
    uint64_t sent_packets, sent_bytes; /* data and READ responses; payload; repetitions too */
    uint64_t moved_packets;   /* of own work, that were sent again by another plane because this one was lost */
    uint64_t outstanding;     /* packets whose last copy went by it and that are not known to have arrived, now */
    uint64_t probes_sent, probes_answered;
    uint64_t rate_bps;        /* now, by congestion control; 0: not limited */
    uint64_t window_bytes, flight_bytes; /* now: how much payload may be on the way by it, and is; 0 without an algorithm that has a window */
    rnic_time heard_at;       /* -1: never */
    rnic_time lost_at;        /* the last time; -1: never */
    rnic_time up_at;          /* when it was used again after that; -1: it was not */
};
/* `interface`: of the card's. RNIC_ENOENT: the queue pair has no planes, or not this one. */
int rnic_plane_stats_get(rnic *r, uint32_t qpn, uint32_t interface, rnic_time now, struct rnic_plane_stats *stats);
/* A plane's congestion control as of the last event, as rnic_qp_slot. NULL: there is no such plane, or it has none. */
const struct cc_slot *rnic_plane_slot(const rnic *r, uint32_t qpn, uint32_t interface);
/* No new packet of a queue pair with planes takes this interface, or they may again; of both modes. What is on its way arrives: nothing is lost. */
void rnic_drain(rnic *r, uint32_t interface, int on);

/* --- migration ------------------------------------------------------------------------------- */

/* Automatic path migration (RNIC_PLANES_SINGLE; InfiniBand vol. 1, 17.2.8). A queue pair sends all that it sends by one of its interfaces,
 * the current one, and takes what comes by any. BTH's M bit tells the peer in which state it is:
 *
 *   ARMED      M = 0   There is an alternate. It migrates to that when time-outs or its link say so, when it is told to, or when the
 *                      peer asks for it: by a packet with M = 1, to the interface by which that came. Each end begins here.
 *   MIGRATED   M = 1   It has migrated, and will not again: the next failure ends it as one without alternates.
 *   REARM      M = 0   The user has named a new alternate. When the peer has done so, too (its packets have M = 0), it is ARMED.
 *
 * What was on the way is sent again by the new path, as after a time-out, and an acknowledgement that nobody asked for tells the
 * peer, until it is heard there: who only receives would have nothing else to send. An interface whose link is down, or
 * that is drained (rnic_drain), is no alternate; draining the current one moves it whatever its state is, and nothing is sent again.
 *
 * `return_ps` > 0, which the specification does not have: it rearms itself as soon as the peer is heard by the new interface, or after so long, may
 * migrate without being armed and follow the peer in REARM, too, and who has found a failure himself returns when the link has been up for so long, and with
 * `tries` also RNIC_RETURN_PROBES probes, spread over that time, were answered one after the other. */
enum rnic_migration_state { RNIC_MIGRATION_ARMED = 0, RNIC_MIGRATION_REARM = 1, RNIC_MIGRATION_MIGRATED = 2 };
enum rnic_migration_cause {
    RNIC_CAUSE_NONE = 0,
    RNIC_CAUSE_LINK = 1,
    RNIC_CAUSE_TIMEOUT = 2,
    RNIC_CAUSE_PEER = 3,     /* a packet with M = 1 */
    RNIC_CAUSE_DRAINED = 4,
    RNIC_CAUSE_USER = 5,     /* rnic_migrate */
    RNIC_CAUSE_RETURN = 6,
};
enum { RNIC_RETURN_PROBES = 5 };
struct rnic_migration_stats {
    uint32_t state;          /* enum rnic_migration_state */
    uint32_t cause;          /* enum rnic_migration_cause of the last migration */
    uint32_t interface, alternate; /* of the card's: the current one, and which is next */
    uint32_t switching;      /* 1: `switch_ps` has not passed */
    uint32_t pad_;
    uint64_t migrations;
    uint64_t probes_sent, probes_answered;
    rnic_time found_at;      /* when it was found that it must migrate; -1: never */
    rnic_time migrated_at;   /* the last time; -1: never */
};
/* RNIC_ENOENT: there is no such queue pair, or it has one interface or uses all. */
int rnic_migration_stats_get(rnic *r, uint32_t qpn, struct rnic_migration_stats *stats);
/* A new alternate, of the card's interfaces, for one that has migrated. RNIC_ESTATE: it is ARMED; RNIC_EINVAL: it has no such interface, or sends by it. */
int rnic_rearm(rnic *r, uint32_t qpn, uint32_t interface);
/* To the alternate, at once: RNIC_ESTATE unless it is ARMED and the alternate's link is up. */
int rnic_migrate(rnic *r, uint32_t qpn, rnic_time now);

/* --- what happened --------------------------------------------------------------------------- */

struct rnic_stats {
    uint64_t received, received_bytes; /* frames for queue pairs */
    uint64_t other;          /* frames that are no RoCEv2 packet for this address */
    uint64_t unknown_qp;     /* no such queue pair, or its peer is another host */
    uint64_t bad_icrc, malformed;
    uint64_t sent, sent_bytes;
    uint64_t notification_type; /* CNPs with a notification that is neither empty nor of congestion; taken as CNPs */
    uint64_t notification_qp;   /* CNPs with one of congestion that is for no queue pair of ours */
};
void rnic_stats_get(const rnic *r, struct rnic_stats *stats);

/* What switches have said in datagrams of their own (docs/wire-formats.md): the latest of each type, switch and port, at most
 * RNIC_NOTIFICATIONS; the one that was heard of longest ago makes room. One of congestion also reaches its queue pair. */
enum { RNIC_NOTIFICATIONS = 4096 };
struct rnic_notification {
    uint32_t type, severity, hops, validity;
    uint32_t switch_id, port, sequence;
    uint32_t destination, destination_qp, queue;
    uint32_t body_bytes;     /* behind it */
    uint32_t local_ip;       /* whom it was sent to */
    uint64_t times;          /* how often one of this type, switch and port has come */
    rnic_time at;            /* the last one */
};
/* The latest first. Returns how many. */
size_t rnic_notifications(const rnic *r, struct rnic_notification *rows, size_t max);
struct rnic_notification_counts {
    uint64_t types[16];      /* whole ones */
    uint64_t malformed;
    uint64_t no_qp;          /* of congestion, but for no queue pair of ours */
    uint64_t lost;           /* no memory to keep it */
};
void rnic_notification_counts_get(const rnic *r, struct rnic_notification_counts *counts);

/* One hop of the path by which a queue pair's packets come: what switches wrote into them. Times are the fabric's, by each switch's own clock, so
 * that from one hop to the next they are wrong by how much later the one began to count than the other. */
enum { RNIC_HOPS = 5, RNIC_HOP_WRAPS = 1 << 24 };
struct rnic_hop {
    uint32_t hop;            /* the number of the port in the fabric by which they left the switch */
    uint32_t queue_bytes;    /* the last one's: what waited behind it in its queue, in steps of 512 */
    uint32_t since_ns;       /* the last one's: since it left the queue of the hop before, modulo RNIC_HOP_WRAPS; 0 at the first row */
    uint32_t since_first_ns; /* the same of the first one that is in the sums */
    uint64_t rate_bps;       /* of the port's line */
    uint64_t packets;        /* whose record of this hop has come since it stands in this place of the path; sums are over these */
    uint64_t queue_sum;
    int64_t since_sum_ns;    /* of times that are less than half of RNIC_HOP_WRAPS from the first one's, and so may be below 0 */
};
struct rnic_path {
    uint32_t hops;           /* rows, from the sender's side on */
    uint32_t written;        /* how many switches have written; of more than RNIC_HOPS those next to the receiver are here */
    uint64_t packets;        /* with records, in all */
    uint64_t changes;        /* how often a packet came by another path than the one before */
    rnic_time at;            /* the last one */
    struct rnic_hop rows[RNIC_HOPS];
};
/* At the receiver, of whole packets. RNIC_ENOENT: there is no such queue pair, or none of its packets has brought a record. */
int rnic_path_get(const rnic *r, uint32_t qpn, struct rnic_path *path);

enum rnic_qp_state { RNIC_RESET = 0, RNIC_READY = 1, RNIC_ERROR = 2 };
struct rnic_qp_stats {
    uint32_t state;          /* enum rnic_qp_state */
    uint32_t failure;        /* enum rnic_failure */
    uint64_t sent_packets, sent_bytes;        /* data and READ responses; bytes: payload; retransmissions too */
    uint64_t repeated_packets, repeated_bytes; /* of which again */
    uint64_t acked_bytes;    /* of own work, completed by the peer's acknowledgements or READ responses */
    uint64_t received_packets, received_bytes; /* new data, in order: payload */
    uint64_t duplicates;     /* data that had been received */
    uint64_t out_of_order;   /* data ahead of its turn */
    uint64_t dropped;        /* of which not kept */
    uint64_t marked;         /* data with CE */
    uint64_t acks_sent, acks_received, naks_sent, naks_received, rnr_sent, rnr_received;
    uint64_t cnps_sent, cnps_received;
    uint64_t notified_received; /* of switches, that an algorithm hears as such; none of them is in cnps_received */
    rnic_time first_cut_at;  /* when congestion control first lowered the rate; -1: never */
    uint64_t timeouts;
    uint64_t outstanding;    /* packets sent and not acknowledged, now */
    uint64_t rate_bps;       /* now, by congestion control; 0: not limited */
};
int rnic_qp_stats_get(rnic *r, uint32_t qpn, rnic_time now, struct rnic_qp_stats *stats);
/* Its congestion control as of the last event; NULL: there is no such queue pair, or it has none. Valid until it is removed. */
const struct cc_slot *rnic_qp_slot(const rnic *r, uint32_t qpn);
uint64_t rnic_next_psn(const rnic *r, uint32_t qpn); /* of what it sends, not cut to 24 bits */

#endif
