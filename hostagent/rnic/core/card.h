/* The card's own types.
 *
 * PSNs are counted in 64 bits here and cut to 24 on the wire. A queue pair is requester and responder at once:
 *
 *   requester   works[head .. tail) | una <= next <= sent <= posted      (PSNs)
 *   responder   expected PSN, the message that is coming in, READs that are to be answered, what is to be acknowledged
 *
 * What may leave now stands in lists by queue; what has to wait for its rate, in a heap by time.
 */
#ifndef RNIC_CARD_H
#define RNIC_CARD_H

#include "cnp_interval.h"
#include "notification.h"
#include "path_choice.h"
#include "rnic.h"
#include "telemetry.h"

enum {
    ETHERNET = 14,
    IPV4 = 20,
    UDP = 8,
    BTH = 12,
    HEADERS = ETHERNET + IPV4 + UDP + BTH,
    RETH = 16,
    AETH = 4,
    IMMEDIATE = 4,
    CNP_RESERVED = 16,
    MISSING_MAP = 20,        /* of a NAK: where the bitmap begins, and 128 bits */
    MAP_BITS = 128,
    PATH_ECHO = 4,           /* of an acknowledgement: how many packets follow */
    PATH_ECHO_EACH = 4,      /* a source port, and whether it came with CE */
    PATH_ECHOES = 8,
    PATH_ECHO_FLAG = 0x80,   /* of the first byte, where a bitmap has 0 */
    PATH_ECHO_MARKED = 0x8000,
    PROBE_BODY = 16,
    PLANE_ECHO = 4,          /* of an acknowledgement: of how many planes follows how much has come */
    PLANE_ECHO_EACH = 4,
    PLANE_ECHO_COLLECTED = 1, /* of its bytes: the plane by which the telemetry was collected that comes back, plus 1 */
    PLANE_ECHO_FLAG = 0x40,  /* of the first byte, where PATH_ECHO_FLAG is not, and a bitmap has 0 */
    ROCE_PORT = 4791,
    PSN_MASK = 0xffffff,
    PSN_HALF = 0x800000,
    FRAME_GAP = 24,          /* preamble, FCS, gap: what a rate counts beside the frame */
    FRAME_LEAST = 84,
    WINDOW_MOST = 1 << 22,
    WINDOW_SELECTIVE = 1024,
    WINDOW_SELECTIVE_MOST = 8192,
    HELD_MOST = 8,           /* packets for one line that may wait there while later ones go by others */
    READ_PACKETS_MOST = 1 << 22,
};

/* The lower 5 bits of BTH's opcode; the upper three are 0 (reliable connection) but for the CNP. */
enum opcode {
    OP_SEND_FIRST = 0x00,
    OP_SEND_MIDDLE = 0x01,
    OP_SEND_LAST = 0x02,
    OP_SEND_LAST_IMM = 0x03,
    OP_SEND_ONLY = 0x04,
    OP_SEND_ONLY_IMM = 0x05,
    OP_WRITE_FIRST = 0x06,
    OP_WRITE_MIDDLE = 0x07,
    OP_WRITE_LAST = 0x08,
    OP_WRITE_LAST_IMM = 0x09,
    OP_WRITE_ONLY = 0x0a,
    OP_WRITE_ONLY_IMM = 0x0b,
    OP_READ_REQUEST = 0x0c,
    OP_READ_FIRST = 0x0d,
    OP_READ_MIDDLE = 0x0e,
    OP_READ_LAST = 0x0f,
    OP_READ_ONLY = 0x10,
    OP_ACK = 0x11,
    OP_CNP = 0x81,
    OP_PROBE = 0xc0,         /* the specification leaves 0xc0 and up to manufacturers */
    OP_PROBE_ANSWER = 0xc1,
};

/* AETH's syndrome: kind in the upper three bits. */
enum syndrome {
    SYNDROME_ACK = 0x1f,     /* credits: not limited */
    SYNDROME_RNR = 0x20,     /* and the timer's code */
    SYNDROME_NAK = 0x60,     /* and the reason: */
};
enum nak_reason { NAK_SEQUENCE = 0, NAK_INVALID = 1, NAK_ACCESS = 2, NAK_OPERATION = 3 };

struct link { struct link *next, *previous; };

static inline void list_init(struct link *list) { list->next = list->previous = list; }
static inline int list_empty(const struct link *list) { return list->next == list; }
static inline int linked(const struct link *item) { return item->next != NULL; }
static inline void list_append(struct link *list, struct link *item)
{
    item->previous = list->previous;
    item->next = list;
    list->previous->next = item;
    list->previous = item;
}
static inline void list_remove(struct link *item)
{
    item->previous->next = item->next;
    item->next->previous = item->previous;
    item->next = item->previous = NULL;
}
#define FROM_LINK(item, type, member) ((type *)((char *)(item) - offsetof(type, member)))

struct region {
    uint32_t rkey, access;
    uint64_t address, length;
    uint8_t *base;
};

struct work {
    struct rnic_work posted;
    uint64_t first_psn;
    uint32_t packets; /* PSNs that it takes */
    uint8_t path;     /* that its last READ request took, if there are several */
};

struct receive {
    uint64_t id, length;
    uint8_t *buffer;
};

/* A READ that this end answers. */
struct answer {
    uint64_t first_psn, psn, end_psn; /* next to be sent */
    uint64_t length;
    uint32_t rkey;          /* looked up again for each packet: the region may go */
    uint64_t address;
    uint64_t message;       /* MSN of its packets */
};

/* A packet as parsed. */
struct inbound {
    uint32_t opcode, psn; /* as on the wire */
    uint32_t notified;    /* CC_NOTIFIED or CC_QUEUED: a switch's notification, for a queue pair that hears it: */
    uint32_t severity, validity, origin;
    uint64_t rate;
    uint32_t drains_ns;   /* of CC_QUEUED; `names_packet`: met by the packet `psn` */
    uint32_t payload_length;
    uint8_t ack_request, marked, names_packet;
    uint8_t syndrome;
    uint8_t telemetry;    /* 1: has come with telemetry, which is in the card's `telemetry` */
    uint32_t msn;
    uint32_t immediate, rkey, length;
    uint64_t address;
    const uint8_t *payload; /* NULL: not there */
    const uint8_t *map;     /* of a NAK: MISSING_MAP bytes, or NULL */
    const uint8_t *echo;    /* of an acknowledgement: what it says of paths, whole; or NULL */
    const uint8_t *came;    /* or of planes */
    uint16_t source_port;
};

/* The packet is a switch's notification of congestion, for a queue pair that hears it. */
static inline void inbound_notified(struct inbound *in, const struct weft_notification *said)
{
    in->notified = CC_NOTIFIED;
    in->severity = said->severity;
    in->validity = said->validity;
    in->origin = (uint32_t)said->switch_id << 16 | said->port;
    in->rate = weft_rate_units(said->queue);
}

/* A packet that came before its turn (selective repeat). */
struct early {
    uint64_t psn; /* UINT64_MAX: empty */
    rnic_time at;
    struct inbound packet;
};

/* Room for them. Header-only cards lend it to queue pairs as long as something is missing there: many are few at a time. */
struct early_ring {
    struct early_ring *next; /* in the card's spare ones, all empty */
    uint64_t mask;
    struct early slots[];
};

enum heap_kind { HEAP_PACE, HEAP_TIMER, HEAP_GAP, HEAP_PLANES, HEAPS };
#define NOT_IN_HEAP UINT32_MAX

/* An interface of the card. */
struct lane {
    struct rnic_interface config;
    uint32_t paused, pauses;        /* all queues while its link is down; as the driver said */
    uint32_t waiting;               /* bit q: something was put into a list of queue q since they were last seen empty */
    struct link ready[RNIC_QUEUES], acks[RNIC_QUEUES], cnps;
    /* of a card with several */
    uint8_t up, ways_turn;          /* in a queue of both kinds those of several interfaces are next */
    rnic_time busy_until;
    uint64_t asleep;                /* = card.changes: queue pairs of several interfaces have nothing for it now */
    struct link ways[RNIC_QUEUES];  /* of these, see struct way */
    /* of queue pairs with planes */
    uint8_t drained;
    struct link members;            /* their planes by this interface */
    struct link spoken[RNIC_QUEUES];/* what these have to say beside data: probes, answers, CNPs */
};

/* From one interface of a queue pair that has several to the one of its peer. */
struct way {
    struct link ready;              /* in its lane's list */
    struct qp *qp;
    struct lane *lane;
    uint8_t macs[12];
    uint32_t ip, peer_ip;
    uint32_t held_first, held_n;    /* packets that wait for the line, a ring of HELD_MOST */
    struct rnic_packet *held;
};
/* What a plane has to say beside data. */
enum spoken_what { SPOKEN_PROBE, SPOKEN_ANSWER, SPOKEN_CNP, SPOKEN_KINDS };
struct spoken {
    struct link link; /* in its lane's list */
    struct plane *plane;
};
/* The same where each interface is a plane (planes.c). */
struct plane {
    struct way *way;
    struct cc_slot *slot;           /* NULL: no congestion control */
    struct cc_sent *sent;           /* of the kernel's slot */
    struct link member;             /* in its lane's list */
    struct spoken spoken[SPOKEN_KINDS];
    rnic_time allowed;              /* by its rate */
    rnic_time unheard_since;        /* since when something is to be heard by it; RNIC_NEVER: nothing is */
    rnic_time sent_last;            /* data, READ requests and responses */
    rnic_time next_probe;           /* asked: until then an answer is waited for. Lost: when the next one is due */
    uint64_t lost_ns;               /* 0: never */
    uint32_t probe_number;
    uint8_t slot_is_own;            /* and is freed */
    uint8_t asked, missed, lost;
    uint8_t doubted;                /* the peer lacks what went by it */
    uint8_t answers;                /* since it was lost; stays at 255 */
    /* as receiver */
    uint32_t came, untold;          /* SENDs and WRITEs that came by it, and since the last acknowledgement that left by it */
    /* as sender: own data by it, counted in its order. What the peer says came, and what was lost, is behind it in that order */
    uint32_t sent_n, come_n, lost_n;
    uint32_t answered_n;            /* what had been sent when a probe left that was answered: it came or is lost */
    uint32_t probed_n;              /* and when the last one left, */
    uint32_t probed_lost;           /* of which so many counted as lost, */
    rnic_time probed_at;            /* and when that was */
    rnic_time spread;               /* by so much its packets were seen to overtake each other */
    uint8_t again;                  /* packets sent again for it, modulo AGAIN_ASK */
    rnic_time trip, least_trip;     /* the last one, and the shortest since it was found; 0: none */
    rnic_time *left_at;             /* by that order, modulo PLANE_TIMES: when it left */
    struct plane_window *window;    /* if its algorithms want a window, round-trip times or telemetry */
    struct cc_telemetry *collected; /* as receiver: what the last packet by it brought; NULL: none has come */
    uint8_t telemetry_due;          /* and whether it has yet to be returned */
    uint8_t owes;                   /* as receiver: an acknowledgement by it was asked for in the middle of a message, as windows do, and none has left */
    uint8_t answer_body[PROBE_BODY];
    struct cnp_interval told;
    struct rnic_plane_stats stats;
};
/* What a queue pair that migrates has to say beside data; `spoken.plane` is NULL. */
struct voice {
    struct spoken spoken;
    struct qp *qp;
    uint8_t interface, is_answer;
    uint8_t body[PROBE_BODY];
};
/* Of a queue pair that uses one interface at a time (migration.c). Interfaces are counted among its own. */
struct migration {
    uint32_t state, cause;          /* enum rnic_migration_state, enum rnic_migration_cause */
    uint8_t current, first, alternate;
    uint8_t peer_by;                /* by which the peer's last packet with M = 1 came; NOWHERE: none has */
    uint8_t target, target_cause;   /* while it is switching */
    uint8_t found_itself;           /* it is away from its first one for a failure of its own */
    uint8_t fruitless;              /* migrations for time-outs since `una` was `una_then` */
    uint8_t tellings;               /* how often the peer is still notified */
    uint8_t answers;                /* to probes in a row */
    uint8_t probed;                 /* one is on its way */
    uint64_t una_then;
    uint32_t probe_number;
    rnic_time switch_at, tell_at, return_at, rearm_at; /* RNIC_NEVER: not */
    struct voice probe, answer[RNIC_INTERFACES];
    struct rnic_migration_stats stats;
};
struct ways {
    uint64_t repeats;               /* packets sent again: they get new numbers where paths are chosen */
    uint8_t n, last;                /* which one the last packet took */
    uint8_t listed;                 /* it may send now */
    uint8_t ack_lane, cnp_lane;     /* by which these are to leave */
    struct rnic_packet *held;       /* of all of them; NULL: nothing ever chooses */
    struct way way[];
};

struct qp {
    struct rnic *card;
    struct rnic_qp_config config;
    uint32_t state, failure;
    uint32_t peer_qpn, peer_ip;
    uint32_t ip_sum;
    uint8_t header[HEADERS];

    /* when it may send */
    struct link ready, ack, cnp;     /* in the card's lists */
    uint32_t heap_at[HEAPS];
    uint8_t idle;                    /* has had nothing to send */
    uint8_t wants;                   /* what its congestion control does: of enum cc_want, and WAITS_FOR_WINDOW */
    uint8_t spans;                   /* it has several interfaces: `ways` */
    uint8_t many_paths;              /* interfaces or UDP ports: `paths` */
    rnic_time allowed;               /* by its rate */
    struct lane *lane;               /* of its interface, the first one of several */
    struct cc_slot *slot;
    struct cnp_interval told;        /* when the peer got its last CNP */

    /* requester */
    struct work *works;              /* a ring, `works_mask` + 1 of them */
    uint32_t works_mask;
    uint64_t head, cursor, tail;     /* oldest not completed, that of `next`, first free */
    uint64_t una, next, sent, posted;
    uint32_t reads;                  /* requested and not complete */
    uint32_t tries, rnr_tries;
    rnic_time deadline;              /* of the oldest unacknowledged; RNIC_NEVER: none */
    uint8_t not_ready;               /* waits as the peer's RNR NAK said, until `deadline` */
    uint8_t response_gap;            /* READ responses are missing, and that has been seen */
    uint8_t read_again;              /* selective: the READ at `una` is to be requested again */
    uint64_t response_highest;       /* PSN of the last response that came before its turn */
    /* selective repeat */
    uint64_t *arrived;               /* bit PSN % WINDOW_SELECTIVE_MOST: came out of order, said the peer; NULL: none has */
    uint64_t lost_below;             /* PSNs below that and not in `arrived` are missing */
    uint64_t repeat, repeat_cursor;  /* next to be looked at, and its work */
    uint64_t peer_expected;          /* what the peer has said that it waits for */
    uint64_t again_mark;             /* `sent` when `una` was last repeated */

    /* responder */
    uint64_t expected;
    uint64_t messages;               /* complete: MSN */
    struct receive *receives;        /* a ring, as works */
    uint32_t receives_mask;
    uint64_t receives_head, receives_tail;
    uint32_t incoming;               /* enum rnic_operation + 1 of the message that is coming in; 0: none */
    uint64_t in_bytes, in_address, in_left;
    uint32_t in_rkey;
    struct receive in_buffer;
    struct answer *answers;          /* a ring of `answers_size` */
    uint32_t answers_size, answers_head, answers_n;
    uint32_t unacknowledged;         /* packets since the last acknowledgement */
    uint8_t anything;                /* SENDs need no buffers */
    uint8_t ack_wanted;
    uint8_t nak_said;                /* this gap is known to the peer */
    uint8_t syndrome;                /* of the NAK to be sent; 0: none */
    uint8_t fatal;                   /* of the NAK that ended it; 0: none */
    uint8_t rnr_code;
    uint8_t answer_turn;             /* a READ's response is next, not own work */
    uint8_t telemetry_due;           /* the next acknowledgement returns `collected` */
    uint64_t gap_highest;            /* PSN of the last packet that came before its turn */
    uint64_t answered;               /* READ responses sent: highest PSN + 1 */
    struct early *early;             /* slots of a ring; NULL: none was needed, or go-back-N */
    uint32_t early_mask, early_n;
    uint64_t early_highest;
    uint8_t *early_bytes;            /* whole packets: MTU bytes for each */

    struct rnic_qp_stats stats;

    /* `reorder_ps`: what came before its turn */
    uint64_t *responded;             /* `reorder_ps`: bit PSN % WINDOW_SELECTIVE_MOST: a response that came early and is placed; NULL: none has */
    uint64_t responded_n;
    uint64_t response_waits;         /* the gap at this PSN was there when the wait for it began; UINT64_MAX: there is no wait */
    rnic_time response_until;        /* and when that wait ends */
    uint64_t early_overdue;          /* highest PSN of those that came `reorder_ps` ago: what is missing below it is lost */

    struct feedback *feedback;       /* if it `wants` anything */
    struct cc_telemetry *collected;  /* what the last packet brought that had collected telemetry; NULL: none has come */
    struct rnic_path *path_seen;     /* what records of hops said of its packets' path; NULL: none has come, or header-only */

    struct sender_paths *sender;     /* it chooses its paths; NULL: it does not */

    /* planes */
    struct plane *planes;            /* one for each of its interfaces; NULL: it has none */
    rnic_time *sent_at;              /* as `paths`: when the last copy of own data left; 0: none did */
    uint32_t *order;                 /* and its place among what its plane was given */
    rnic_time looked_at;             /* when it was last looked for what is missing */
    rnic_time trip;                  /* how long acknowledgements take, smoothed; 0: not known */
    uint32_t moving;                 /* planes of which what was outstanding is sent again by others; 0: none */
    uint64_t moved, moved_cursor, moved_below; /* next PSN to be looked at, its work, and where to stop */

    struct migration *migration;     /* it uses one interface at a time; NULL: all */

    /* several interfaces or UDP ports */
    struct ways *ways;
    uint8_t *paths;                  /* by PSN modulo their number: what the last copy of own data took */
    uint16_t *told_paths;            /* the same for the kernel, by PSN (struct cc_sent); NULL: it does not ask */
    uint32_t paths_mask;
    uint8_t path;                    /* of the packet that is being made */
    uint8_t came_by;                 /* the interface of what is to be answered */
};

enum { PLANE_TIMES = 256 };          /* packets of a plane whose time is remembered */
/* Of qp.wants. */
enum {
    WAITS_FOR_WINDOW = 0x80,         /* in the pace heap until its window opens by time alone */
    COLLECTS = 0x40,                 /* rnic_collect: data collects telemetry, whatever its algorithm wants */
};

/* Of a queue pair that chooses its paths. */
struct sender_paths {
    struct path_choice choice;
    uint64_t timed_out;              /* what is sent again below this PSN has been reported by its time-out */
    /* as receiver: packets that came and that no acknowledgement has reported, a ring */
    uint32_t echo_first, echo_n;
    uint16_t echo_port[PATH_ECHOES];
    uint8_t echo_marked[PATH_ECHOES];
};

/* What an algorithm with a window, or that wants round-trip times or telemetry, needs beside its slot. */
struct feedback {
    uint64_t cursor, bytes;          /* of the work there the first byte, counted from the queue pair's first one */
    uint64_t *sent;                  /* send times (cc_sent.h); NULL: not wanted */
    uint64_t sent_mask;
    rnic_time probe_at;              /* when one packet may leave beyond a full window, if nothing moves before; RNIC_NEVER: not */
    uint64_t trip_ns;                /* the last round trip or the smoothed one, whichever is longer; 0: none is known */
    uint64_t smoothed_ns;
    uint64_t una;                    /* before the acknowledgement that is being taken */
    const struct cc_telemetry *telemetry;
    uint64_t burst;                  /* the first PSN since the queue pair was last idle */
    uint8_t busy;                    /* it is not idle */
    uint8_t said;                    /* that one has been an event */
    uint8_t is_ack;                  /* and is no NAK */
    uint8_t probes;                  /* in a row, since something was acknowledged */
    uint32_t psn;                    /* that it names */
};

struct heap_entry { rnic_time time; struct qp *qp; };
struct heap { struct heap_entry *entries; uint32_t n; rnic_time first; /* if n: the time of the first entry */ };

struct rnic {
    struct rnic_config config;
    char error[160];
    rnic_time now;
    struct lane first;              /* all there is with one interface */
    struct heap heaps[HEAPS];
    uint32_t heaps_capacity;
    uintptr_t *numbers;             /* by own number; open addressing: lookup.c */
    uintptr_t *peers;               /* by peer's address and number */
    uint32_t table_mask, qps;
    uint32_t more_peers;            /* places in `peers` beyond one a queue pair */
    uint32_t interfaces;
    uint32_t arriving;              /* the interface of the frame that is taken in */
    uint64_t changes;               /* whatever may let a line send that had nothing to send */
    struct lane *lanes[RNIC_INTERFACES];
    struct region *regions;
    uint32_t n_regions, regions_capacity;
    struct early_ring *spare;
    struct rnic_event *events;      /* a ring */
    uint32_t events_mask;
    uint64_t events_head, events_tail;
    uint32_t wanted;
    struct rnic_stats stats;
    struct cc_telemetry telemetry;  /* of the packet that was parsed last, if it had any */
    struct notifications *notified; /* in datagrams; NULL: none has come */
};

/* --- card.c ------------------------------------------------------------------------------------ */
void qp_event(struct qp *qp, enum rnic_event_kind kind, uint64_t id, uint64_t bytes, uint32_t operation, enum rnic_failure status);
struct rnic_event *qp_event_new(struct qp *qp, enum rnic_event_kind kind); /* NULL: not wanted, or no memory */
const struct region *region_of(const struct rnic *r, uint32_t rkey, uint64_t address, uint64_t length, uint32_t access);
int card_fail(struct rnic *r, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static inline uint64_t nanoseconds(const struct rnic *r) { return r->config.cc_base_ns + (uint64_t)r->now / 1000; }

/* --- lookup.c ---------------------------------------------------------------------------------- */
int lookup_grow(struct rnic *r, uint32_t more);                  /* room for so many more; 0: no memory */
void lookup_add(struct qp *qp);                                  /* by its number */
void lookup_join(struct qp *qp);                                 /* by its peer, in place of an older one */
void lookup_remove(struct qp *qp);
struct qp *qp_find(const struct rnic *r, uint32_t qpn);          /* NULL: there is none */
struct qp *qp_of_peer(const struct rnic *r, uint32_t peer_ip, uint32_t peer_qpn);

/* --- queue_pair.c ------------------------------------------------------------------------------ */
void qp_free(struct qp *qp);
struct qp *qp_for_work(struct rnic *r, uint32_t qpn);            /* NULL: there is none, which rnic_error says */
int early_begin(struct qp *qp);                                  /* selective repeat: room for early packets; 0: no memory */
void early_end(struct qp *qp);                                   /* none is kept any more */
void qp_fail(struct qp *qp, enum rnic_failure failure, uint8_t syndrome); /* syndrome: what peers get from now on, 0: nothing */

/* --- schedule.c -------------------------------------------------------------------------------- */
void qp_update(struct qp *qp);                                   /* something has changed: may it send? */
void qp_unlist(struct qp *qp);                                   /* it has nothing to send */
void ack_soon(struct qp *qp);                                    /* an acknowledgement (or NAK) is to be sent */
void cnp_soon(struct qp *qp);
void timer_set(struct qp *qp, rnic_time at);                     /* RNIC_NEVER: none */
void gap_set(struct qp *qp, rnic_time at);                       /* responder_gap is called then, unless it was to be sooner */
void qp_heap_remove(struct qp *qp, enum heap_kind kind);
uint64_t qp_rate_within(const struct qp *qp, uint64_t cc);       /* `cc` by congestion control; 0: as fast as the line */

int qp_answers_next(struct qp *qp);                              /* what is next is the response to a READ, not own work */
int qp_send(struct qp *qp, struct rnic_packet *packet);          /* own work or an answer; 0: nothing after all */
void lane_may_send(struct rnic *r, struct lane *lane);           /* its pauses, or its link, are others than before */
void qp_pace(struct qp *qp, const struct rnic_packet *packet);   /* it leaves now: when may the next one? */
void qp_pace_plane(struct qp *qp, uint32_t plane, const struct rnic_packet *packet); /* the same of the plane that it takes */

/* --- ways.c: which path a packet takes ------------------------------------------------------------ */
int ways_begin(struct qp *qp);                                   /* as its configuration says; 0: no memory */
void ways_free(struct qp *qp);
void ways_withdraw(struct rnic *r);                              /* memory has gone: what waits for a line may point there */
int ways_remember(struct qp *qp, uint64_t packets);              /* room for the paths of so many more; 0: no memory */
void ways_tell(struct qp *qp, uint64_t psn, uint8_t path);       /* the kernel; of a READ at its last PSN. There is qp->told_paths */
void ways_list(struct qp *qp);                                   /* it may send now */
void ways_unlist(struct qp *qp);                                 /* it has nothing to send, or not yet */
void ways_drop(struct qp *qp);                                   /* nor what waits for a line: it has failed, or is removed */
int ways_from(struct rnic *r, struct lane *lane, uint32_t q, struct rnic_packet *packet); /* 0: there is nothing for this line */
int ways_send_one(struct qp *qp, struct rnic_packet *packet);    /* of one interface and several UDP ports: as qp_send */
/* The line of an acknowledgement or CNP that is due; if it stands (`link`) in the list of one that may not send, it is taken out. */
struct lane *ways_answer(struct qp *qp, struct link *link, uint8_t *at, uint32_t queue);
void ways_answer_elsewhere(struct lane *lane);                   /* what stands there by another line, as far as it may */
uint64_t ways_line_rate(const struct qp *qp);                    /* of all its interfaces; 0: one has no limit */

/* A queue pair that chooses its paths, of which there is qp->sender: */
void ways_arrived(struct qp *qp, const struct inbound *in);      /* as receiver: a request has come, and is to be reported */
uint32_t ways_echo_bytes(const struct qp *qp, uint32_t room);    /* the length of the report within `room`; 0: nothing */
void ways_echo(struct qp *qp, uint8_t *at, uint32_t bytes);
void ways_heard(struct qp *qp, const uint8_t *echo);             /* as sender */
void ways_acked(struct qp *qp);                                  /* the acknowledgement has been taken */
void ways_timed_out(struct qp *qp);

/* Whether its packets may come to this address of ours, from that one of the peer's. */
int ways_join(const struct qp *qp, uint32_t ip, uint32_t peer_ip);

/* --- planes.c: of queue pairs that share their load over planes; there is qp->planes ---------------- */
int planes_add_slots(struct qp *qp, const struct cc_params *cc); /* 0: no memory */
int planes_begin(struct qp *qp);                                 /* its ways are there; 0: no memory */
void planes_stop(struct qp *qp);                                 /* it has failed, or is removed */
void planes_free(struct qp *qp);
struct way *planes_choose(struct qp *qp, uint64_t psn);         /* as ways.c does, and in qp->path the path; NULL: none can take it now */
rnic_time planes_allow(struct qp *qp, int *now);                 /* when a rate or a window lets one send next; `*now`: one's do already */
int planes_have_room(const struct qp *qp);                       /* the window of one that may be used is not full */
void planes_have_been_idle(struct qp *qp);
uint64_t planes_rate(const struct plane *plane);                 /* 0: as fast as its line */
void planes_sent(struct qp *qp, uint32_t plane, const struct rnic_packet *packet, rnic_time takes); /* `takes`: at its rate; 0: not paced */
void planes_due(struct qp *qp);                                  /* HEAP_PLANES */
void planes_set(struct qp *qp, rnic_time at);                    /* planes_due is called then, or before */
int planes_from(struct lane *lane, uint32_t q, struct rnic_packet *packet); /* what they have to say; 0: nothing */
void planes_heard(struct qp *qp, uint32_t interface);
void planes_probed(struct qp *qp, const struct inbound *in);
void planes_answered(struct qp *qp, const struct inbound *in);
void planes_mark(struct qp *qp, const struct inbound *in);       /* data has come: CNPs of each plane */
void planes_progress(struct qp *qp, uint64_t before);            /* `una` has moved */
void planes_expect(struct qp *qp);                               /* a READ is asked for: its responses may take any plane */
void planes_acked(struct qp *qp, uint64_t before);               /* and that is an event for slots of ours */
void planes_doubt(struct qp *qp, uint64_t psn);                  /* the peer says that it is missing */
void planes_timed_out(struct qp *qp);
int planes_settle(const struct qp *qp);                          /* one was lost so lately that the other end may not know */
rnic_time planes_patience(const struct qp *qp);                  /* how long silence may last */
uint64_t planes_rates(const struct qp *qp);                      /* what they may carry together; 0: one has no limit */
void planes_link(struct lane *lane, int up);
void planes_told(struct lane *lane, uint32_t peer_ip);           /* a switch: that one is not reached from here */

void plane_probe(struct plane *plane);                           /* as soon as its lane is free */

/* --- plane_counts.c: what has come by each of them ---------------------------------------------------- */
int planes_passed(const struct qp *qp, uint64_t psn);            /* its last copy can't still be on the way */
void planes_again(struct qp *qp, uint64_t psn);                  /* it is going to be sent again */
uint32_t planes_quick(const struct qp *qp, uint32_t may);        /* those of `may`, bit by bit, that are given another packet */
void planes_none_out(struct qp *qp);                             /* all that was sent has come, or is taken for lost */
uint32_t plane_on_the_way(const struct plane *plane);            /* own data by it of which nothing is known */
void plane_probes(struct plane *plane);                          /* a probe leaves by it */
void plane_count_anew(struct plane *plane, uint32_t come);       /* it was answered: so many had come before it */
uint32_t planes_come_bytes(const struct qp *qp);                 /* how long what an acknowledgement says is */
void planes_say_come(const struct qp *qp, uint8_t *at);
void planes_hear_come(struct qp *qp, const uint8_t *at);
void planes_acknowledging(struct qp *qp, const struct lane *lane); /* an acknowledgement leaves by it */

/* --- plane_windows.c: congestion control of each of them with a window, round-trip times or telemetry ---- */
int plane_windows_begin(struct qp *qp);                          /* 0: no memory */
void plane_window_free(struct plane *plane);
uint64_t plane_flight(const struct plane *plane);                /* bytes by it that may still be on the way; 0 without such an algorithm */
int plane_has_room(const struct plane *plane);
rnic_time plane_window_opens(const struct plane *plane);         /* when time alone will give it room; RNIC_NEVER: it will not */
rnic_time plane_window_due(const struct plane *plane);           /* when a probe asks what has become of a full window; RNIC_NEVER: it is not full */
void plane_window_probe(struct plane *plane);                    /* it does now */
void plane_window_sent(struct plane *plane, uint32_t bytes);     /* own data leaves by it, counted already (sent_n) */
void plane_windows_hear(struct qp *qp, const struct inbound *in); /* an acknowledgement, counted already (planes_hear_come) */
void plane_window_begin_anew(struct plane *plane);
void plane_collect(struct plane *plane);                         /* as receiver: as feedback_collect, of what came by it */
void planes_return(struct qp *qp, const struct lane *lane, struct rnic_packet *packet); /* with the acknowledgement that leaves by this line */

/* --- migration.c: of queue pairs that use one interface at a time; there is qp->migration -------------- */
int migration_begin(struct qp *qp);                              /* its ways are there; 0: no memory */
void migration_stop(struct qp *qp);                              /* it has failed, or is removed */
void migration_connected(struct qp *qp);                         /* its header is there */
uint32_t migration_usable(const struct qp *qp);                  /* bit i: it may send by the i-th of its interfaces; one at most */
struct lane *migration_lane(const struct qp *qp);                /* the current one; NULL: nothing is sent now */
void migration_listed(struct qp *qp);                            /* it has something to send */
void migration_hear(struct qp *qp, uint32_t opcode, int migrated); /* a packet by qp->came_by, and its M */
void migration_probed(struct qp *qp, const struct inbound *in);
void migration_answered(struct qp *qp, const struct inbound *in);
int migration_timed_out(struct qp *qp, int waited);              /* 1: that is all; `waited`: as the peer's RNR NAK said */
void migration_due(struct qp *qp);                               /* HEAP_PLANES */
void migration_say(struct lane *lane, struct voice *voice, struct rnic_packet *packet);
void migration_links(struct rnic *r);                            /* a link is up or down, or drained or not any more */

/* --- frames.c ---------------------------------------------------------------------------------- */
void header_prepare(struct qp *qp, uint64_t peer_mac);
/* Begins a packet: addresses, UDP and BTH. `extension` bytes and the payload follow. Returns where the extension begins. */
uint8_t *packet_begin(struct qp *qp, struct rnic_packet *packet, uint32_t opcode, uint64_t psn, uint32_t extension,
                      const uint8_t *payload, uint32_t payload_length);
/* The IPv4 checksum once more. */
void packet_recheck(struct rnic_packet *packet);
void packet_cnp(struct qp *qp, struct rnic_packet *packet);
void header_migrated(struct qp *qp, int migrated); /* M of all that is built from now on */
int packet_migrated(const uint8_t *frame);         /* of one that was parsed */
void ways_connect(struct qp *qp, const struct rnic_address *peers);
void ways_address(struct qp *qp, const struct lane *lane, struct rnic_packet *packet); /* makes it one of this line's */
void packet_port(struct rnic_packet *packet, uint32_t udp_port); /* another source port: UDP has no checksum */
enum parse_result { PARSE_OK, PARSE_OTHER, PARSE_UNKNOWN, PARSE_MALFORMED, PARSE_ICRC };
enum parse_result packet_parse(struct rnic *r, const uint8_t *frame, uint32_t length, uint32_t tail, struct qp **qp, struct inbound *in);
void bytes_put24(uint8_t *at, uint32_t value);
void bytes_put32(uint8_t *at, uint32_t value);
void bytes_put64(uint8_t *at, uint64_t value);
uint32_t bytes_get24(const uint8_t *at);
uint32_t bytes_get32(const uint8_t *at);
uint64_t bytes_get64(const uint8_t *at);

/* Puts telemetry between UDP and BTH of a packet that is otherwise finished. */
void packet_shim(struct rnic_packet *packet, enum weft_telemetry_kind kind, const struct cc_telemetry *blob);

/* --- feedback.c -------------------------------------------------------------------------------- */
int feedback_begin(struct qp *qp);                               /* what its slot's algorithms want; 0: no memory */
void feedback_end(struct qp *qp);
int window_open(const struct qp *qp);                            /* may a new packet leave? */
rnic_time window_opens(const struct qp *qp);                     /* when time alone will let one leave; RNIC_NEVER: it will not */
int tail_probe_due(const struct qp *qp);                         /* all has been sent, and the last packet may leave once more, as a probe */
rnic_time tail_probe_at(const struct qp *qp);                    /* when that will be; RNIC_NEVER: it will not, or not before the time-out */
void feedback_sent(struct qp *qp, uint64_t psn, uint32_t again, struct rnic_packet *packet); /* data leaves */
void feedback_left(struct qp *qp, const struct rnic_packet *packet); /* only now: it has waited for a line */
void feedback_hear(struct qp *qp, const struct inbound *in);     /* an acknowledgement is going to be taken */
void feedback_heard(struct qp *qp);                              /* it has been */
/* An event of acknowledged bytes, from the packet `first` on, for a slot of ours: with what else there is to say. */
void feedback_acked(struct qp *qp, struct cc_event acked, uint64_t first);
uint64_t feedback_since(const struct qp *qp, uint32_t psn);      /* ns since that packet was sent; 0: not known */
void feedback_collect(struct qp *qp);                            /* a packet for the responder has brought telemetry */
void feedback_return(struct qp *qp, struct rnic_packet *packet); /* which goes back with this acknowledgement */
void path_seen_take(struct qp *qp);                              /* whole packets: what `collected` says of their path */

/* --- requests.c, requester.c --------------------------------------------------------------------- */
int requester_wants(struct qp *qp);
int requester_is_held(const struct qp *qp);                      /* something new could go but for the window of its congestion control */
int requester_sends_data(struct qp *qp);                         /* what is next, if it wants, is no request for a READ */
uint64_t requester_upcoming(struct qp *qp);                      /* the PSN that is next, if it wants */
int requester_is_missing(const struct qp *qp, uint64_t psn);     /* sent, and the peer is not known to have it */
struct work *requester_work(const struct qp *qp, uint64_t psn);  /* NULL: of none that is not complete */
int requester_send(struct qp *qp, struct rnic_packet *packet);   /* 0: nothing to be sent after all */
void requester_ack(struct qp *qp, const struct inbound *in);     /* ACK, NAK, RNR NAK */
void requester_response(struct qp *qp, const struct inbound *in); /* of a READ */
void requester_gap(struct qp *qp);                               /* early responses have waited long enough */
void requester_timeout(struct qp *qp);
void requester_repeat(struct qp *qp);                             /* all that is on the way, as after a time-out */
void requester_look_again(struct qp *qp, uint64_t below);        /* for what is missing below this PSN */
void requester_move(struct qp *qp, uint32_t plane);               /* what it carried and has not arrived is sent again by others */
void requester_flush(struct qp *qp);

static inline uint32_t ack_queue(const struct qp *qp)
{
    return qp->config.ack_apart ? qp->config.ack_queue : qp->config.queue;
}

/* --- responder.c ------------------------------------------------------------------------------- */
void responder_request(struct qp *qp, const struct inbound *in);
void responder_gap(struct qp *qp);                               /* early packets have waited long enough */
int responder_wants(const struct qp *qp);
uint64_t responder_upcoming(const struct qp *qp);                /* the PSN of the response that is next, if it wants */
int responder_send(struct qp *qp, struct rnic_packet *packet);   /* of an answer */
int responder_ack(struct qp *qp, struct rnic_packet *packet);    /* 0: nothing to acknowledge after all */
void responder_flush(struct qp *qp);

/* The 64-bit PSN nearest to `near` with these 24 bits; UINT64_MAX if it would be below 0. */
static inline uint64_t psn_near(uint64_t near, uint32_t psn)
{
    uint64_t ahead = (psn - (uint32_t)near) & PSN_MASK;
    if (ahead < PSN_HALF)
        return near + ahead;
    uint64_t behind = PSN_MASK + 1 - ahead;
    return behind > near ? UINT64_MAX : near - behind;
}

#define RNR_UNIT_PS ((rnic_time)10000000) /* 10 us */
extern const uint32_t rnr_units[32]; /* what a RNR NAK's code says */

static inline struct path_config path_config_of(const struct rnic_qp_config *config)
{
    return (struct path_config){.kind = config->path_kind,
                                .paths = config->udp_ports,
                                .idle_rounds = config->path_idle_rounds,
                                .rounds = config->path_rounds,
                                .pause_ns = config->path_pause_ns};
}

static inline uint32_t payload_at(const struct work *work, uint32_t mtu, uint64_t psn)
{
    uint64_t offset = (psn - work->first_psn) * mtu;
    return work->posted.length - offset < mtu ? (uint32_t)(work->posted.length - offset) : mtu;
}

#endif
