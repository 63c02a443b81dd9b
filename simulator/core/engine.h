/* The engine's own types: nodes, links, what is on the way, and the order in which things happen.
 *
 * Switches run one after the other in windows of virtual time, as long as the smallest delay of a link: nothing that is
 * sent in a window arrives in it, so that no switch can tell, and each finds its tables in the cache. Within a switch
 * its own events come first, then arrivals by port, then its tickers. Hosts, which messages join without any delay, follow in the
 * same window, in the order of (time, node, port), at an interface arrivals before its next frame: each has a number as
 * a source. What arrives at them is known when their turn begins, and is sorted then. Timers (streams, messages,
 * scripts) of an instant come before all sources, in the order in which they were set. So the order is that of (time,
 * node, port, sequence) wherever one thing can bear on another. Without any delay a window is one instant, again and
 * again until nothing is left in it. Samples show an instant after everything in it has happened.
 */
#ifndef WEFT_SIM_ENGINE_H
#define WEFT_SIM_ENGINE_H

#include "element.h"
#include "embed.h"
#include "notifications.h"
#include "sim.h"
#include "telemetry.h"

#define NONE UINT32_MAX

enum {
    QUEUES = 8,
    LINE = WS_LINE,       /* of the cache */
    SEEN_WORDS = 16,
    SEEN = 64 * SEEN_WORDS,   /* numbers that every flow remembers */
    FAR_SEEN = 64 * SEEN,     /* that one of which packets come later than that does */
    INLINE_BYTES = 88,    /* of a frame on the way, so that it takes two cache lines */
    WIDE_BYTES = INLINE_BYTES + LINE, /* of one with telemetry, in three: of 5 hops, 12 bytes each. A longer one is allocated */
    ETHERNET = 14,
    IPV4 = 20,
    UDP = 8,
    BTH = 12,
    ICRC = 4,
    HEADERS = ETHERNET + IPV4 + UDP + BTH,
    ROCE_PORT = 4791,
    PSN_MASK = 0xffffff,
    DATA_LAST_OPCODE = 0x0b, /* SENDs and WRITEs */
    RESPONSE_FIRST = 0x0d,
    RESPONSE_LAST = 0x10,
};
static const uint64_t PS_PER_S = 1000000000000;
static const uint64_t PIECE_MOST = (uint64_t)1 << 30; /* a message's bytes in one work request */

/* Of a flow's data: no acknowledgement, request or notification. */
static inline int opcode_is_data(uint32_t opcode)
{
    return opcode <= DATA_LAST_OPCODE || (opcode >= RESPONSE_FIRST && opcode <= RESPONSE_LAST);
}

/* A frame on a link. */
struct flight {
    ws_time at; /* arrival of its last bit */
    struct flight *next;
    ws_time next_at; /* the next one's, kept here so that it need not be looked at yet; WS_NEVER: there is none */
    uint64_t tail_seed;
    uint32_t length, tail;
    union {
        uint8_t data[INLINE_BYTES];
        uint8_t *long_data; /* of more bytes */
    };
};

_Static_assert(sizeof(struct flight) == 2 * LINE, "a flight is two lines");
_Static_assert((int)WIDE_BYTES >= (int)RNIC_HEADERS_MAX, "what cards send needs no memory of its own");
static inline int flight_is_long(const struct flight *flight) { return flight->length > WIDE_BYTES; }
/* A wide one's bytes go on behind its end. */
static inline uint8_t *flight_data(struct flight *flight)
{
    return flight_is_long(flight) ? flight->long_data : (uint8_t *)flight + offsetof(struct flight, data);
}
static inline const uint8_t *flight_bytes(const struct flight *flight) { return flight_data((struct flight *)(uintptr_t)flight); }

/* A flight has two cache lines. What comes next on a lane was sent long ago. */
static inline void flight_prefetch(const struct flight *flight)
{
    __builtin_prefetch(flight);
    __builtin_prefetch((const uint8_t *)flight + LINE);
}

/* One direction of a link, owned by the end that it leads to. Its first line is all that frames between switches touch. */
struct lane {
    _Alignas(LINE) struct flight *head;
    struct flight *tail;
    ws_time last_at;         /* of the tail */
    ws_time *first;          /* when the first frame arrives, WS_NEVER if none is there */
    ws_time *to_next;        /* and what else is next there: at a switch, at all hosts */
    uint64_t packets, bytes; /* put on it, as they count on a wire */
    uint32_t to_port;
    uint8_t up;
    uint8_t direction;       /* 0: a to b */
    uint32_t to_node;
    uint32_t source;         /* to a host: number of its arrivals */
    uint32_t link;
    uint64_t sampled_packets, sampled_bytes; /* of which in samples */
};
_Static_assert(offsetof(struct lane, to_node) == LINE, "frames between switches touch one line");

struct link {
    uint32_t node[2], port[2];
    uint8_t wanted; /* as sim_set_link said */
    uint8_t up;     /* wanted, and both ends alive */
    struct lane lanes[2];
};

/* An end of a node: which lane leads away from it. */
struct end {
    struct lane *out;
    uint32_t tap; /* index into taps + 1, 0 = none */
};

/* Flights lie in slabs; the first one's place points to the slab before. */
enum {
    FLIGHT_SLAB = 1024,
    FLIGHT_SLAB_BYTES = FLIGHT_SLAB * sizeof(struct flight),
    WIDE_FLIGHT = sizeof(struct flight) + LINE,
    WIDE_SLAB = 256,
    WIDE_SLAB_BYTES = WIDE_SLAB * WIDE_FLIGHT,
};

/* Something that a flow has to send: a message, or equal packets of a stream. */
struct work {
    struct work *next;
    int64_t message;      /* -1: of a stream */
    uint64_t bytes;       /* still to be sent of a message */
    uint64_t packets;     /* of a stream: still to be sent, `payload` bytes each */
    uint32_t payload;
    uint32_t begun;       /* of a message: its first packet was sent */
};

enum { WORK_SLAB = 1024, WORK_SLAB_BYTES = WORK_SLAB * sizeof(struct work) };

/* A million of them may take turns: what a packet's arrival touches lies in lines 0 and 2, its departure in the others. */
struct flow {
    struct sim_flow_stats stats; /* line 0: received; line 1: sent */
    uint64_t next_psn;         /* not cut to 24 bits */
    uint64_t highest_psn;      /* received, + 1 */
    uint64_t complete_psn;     /* all below have been received, or are too late */
    int64_t open_head, open_tail, open_hint; /* messages that are sent and not done, in order; -1: none */
    uint32_t at_node, at_port; /* where it arrives */
    uint32_t number;
    uint32_t next_dirty;       /* in the list of flows to be sampled; NONE: the last, flow itself: not in it */
    uint64_t sampled_bytes;    /* received and in samples */
    struct sim_flow_config config; /* line 3 */
    struct work *head, *tail;
    ws_time allowed;           /* by its own rate */
    uint64_t paused_mark;      /* its queue's paused time when last looked at */
    uint8_t header[HEADERS];
    uint8_t waiting;           /* 1: a timer will bring it back to its ring */
    uint32_t ip_sum;           /* of the IPv4 header with a length of 0 */
    struct flow *next, *previous; /* in the ring of its queue, when it may send */
    struct stripes *stripes;   /* the group that it carries messages with; NULL: none */
    /* Not there with a transport. Bit psn % SEEN: received, of the SEEN numbers below highest_psn; NULL or the same of FAR_SEEN. */
    uint64_t seen[SEEN_WORDS];
    uint64_t *far_seen;
};
_Static_assert(offsetof(struct flow, highest_psn) == 2 * LINE, "what arrivals touch begins a line");
_Static_assert(offsetof(struct flow, config) == 3 * LINE, "so does what departures touch");

/* What a flow takes; with a transport the card knows what has been seen. */
static inline size_t flow_bytes(const struct sim_flow_config *config)
{
    return config->transport ? offsetof(struct flow, seen) : sizeof(struct flow);
}

static inline void flow_prefetch(const struct flow *flow, int departs)
{
    const uint8_t *at = (const uint8_t *)flow;
    __builtin_prefetch(at + (departs ? LINE : 0));
    __builtin_prefetch(at + (departs ? 3 * LINE : 2 * LINE));
    if (departs) {
        __builtin_prefetch(at + 4 * LINE);
        __builtin_prefetch(at + 5 * LINE);
    }
}

struct raw_frame {
    struct raw_frame *next;
    uint32_t length, tail;
    uint64_t tail_seed;
    uint8_t data[];
};

struct nic_queue {
    struct flow *turn;  /* whose turn it is in the ring; NULL: none */
    ws_time paused_until;
    ws_time paused_since;
    uint64_t paused_ps; /* up to paused_since */
};

/* What waits at an interface of a host that takes it slowly. */
struct receiver {
    struct sim_receiver config;
    struct sim_receiver_stats stats;
    struct flight *head, *tail;
    uint64_t bytes;
    ws_time asked_until; /* when the pause that it asked for ends, unless it asks again; 0: it asks for none */
};

struct nic {
    struct sim_port_config config;
    struct sim_host_port_stats stats;
    struct nic_queue queues[QUEUES];
    struct raw_frame *raw_head, *raw_tail;
    ws_time busy_until;
    uint32_t active;  /* bit q: the ring of queue q is not empty; bit QUEUES + q: frames of programs wait in it */
    uint32_t source;  /* number of its departures */
    struct ws_wire *wire; /* NULL: nothing goes wrong */
    struct end end;
    struct rnic *card;    /* its queue pairs; NULL: no flow has a transport */
    struct receiver *receiver; /* NULL: it takes everything at once */
    struct sim_clock clock;
    ws_time last_arrival; /* of what it sent, where its clock has a jitter */
    ws_time pauses_end;   /* of the longest pause */
    uint8_t card_turn;    /* in a queue of both kinds the card is next */
    struct outbox *outbox; /* frames of programs; NULL: no program has sent any */
    struct notifications *notified; /* what switches have said to an interface without a card; NULL: nothing */
    uint8_t line;         /* which of the card's interfaces it is */
    uint8_t lines;        /* how many of the host's interfaces have that card; 0 as 1 */
    uint8_t believed;     /* with several: as far as the card has heard, its link is up */
    ws_time link_delay;   /* with several: after which the card hears of it */
};

struct node {
    const struct element_ops *ops;
    struct nic *nics;
    ws_switch *sw; /* NULL: a host */
    uint32_t n_nics;
    struct end *ends; /* of a switch, by port number */
    uint32_t n_ends;
    struct lane **inlets; /* of a switch: what leads to it, by port */
    ws_time *firsts;      /* and their first arrivals */
    uint32_t n_inlets;
    uint32_t turn;        /* of a switch: index into sim.switches */
    uint32_t recent;      /* packets that it took in when it last ran */
    uint8_t alive;
    struct hosted *hosted; /* who listens to what; NULL: no program does */
};

struct stream {
    struct sim_stream_config config;
    uint64_t random;
    uint64_t sent;
};

struct message {
    uint32_t flow, waits;
    uint64_t bytes;      /* in all */
    uint64_t to_arrive;
    uint64_t first_psn;
    ws_time start, gap;
    uint64_t dependents;   /* in sim.dependents; of a collective's: its number there */
    uint32_t n_dependents; /* of a collective's: the collective */
    uint32_t generation;   /* of a collective's: how often its place was used before */
    uint32_t packets;
    uint32_t works;      /* of a flow with a transport: work requests that have not arrived */
    int64_t next_open;
    struct sim_message_times times;
};

struct timer {
    ws_time time;
    uint64_t sequence;
    uint32_t kind;   /* enum timer_kind */
    uint64_t object; /* number of the stream, message, flow or script packet; node << 32 | port of an interface;
                        program << 32 | token; node << 32 | port << 1 | up of an interface's carrier */
};

struct heap_entry {
    ws_time time;
    uint32_t source;
    uint32_t pad_;
};

/* The next arrival by one inlet of the switch that runs. */
struct arrival {
    ws_time time;
    uint32_t inlet;
    uint32_t pad_;
};
/* A frame that arrives at a host. */
struct due {
    ws_time time;
    uint32_t source;
    uint32_t round; /* which one on its lane */
    struct lane *lane;
    const struct flight *flight;
};
/* Something that may happen at a host by itself: a departure. Arrivals have numbers of the same row. */
struct source {
    struct nic *nic; /* NULL: of arrivals */
    uint32_t node;
    uint32_t port;
};

struct tap {
    uint32_t node, port;
    size_t capacity, n, given;
    struct sim_tapped *rows;
    uint8_t **bytes;
};

/* A growing array of rows that are handed out from the front. */
struct rows {
    void *data;
    size_t n, capacity, taken;
};

struct script_packet {
    uint32_t node, port;
    struct raw_frame *frame;
};

/* Which program carries a message: a program's number + 1, 0: none does; and what is asked of it. */
struct order { uint32_t program, what; };

struct sim {
    ws_time now;
    uint64_t seed;
    char error[256];

    struct node *nodes;
    uint32_t n_nodes, nodes_capacity;
    struct link **links;
    uint32_t n_links, links_capacity;
    struct flow **flows; /* each on its own: pointers stay */
    uint32_t n_flows, flows_capacity;
    struct sim_transport_config *transports;
    uint32_t n_transports;
    struct stream *streams;
    uint32_t n_streams, streams_capacity, streams_open;
    struct message *messages;
    uint64_t n_messages;
    uint64_t n_started; /* the others are held */
    uint64_t n_stored; /* behind them are those of collectives; 0: there are none */
    struct collectives *collectives;
    uint32_t *dependents;
    uint64_t n_dependents;
    struct script_packet *script;
    uint32_t n_script, script_capacity, script_open;

    struct source *sources;
    uint32_t n_sources;
    struct heap_entry *heap;
    uint32_t *place; /* of a source in the heap, NONE = not in it */
    uint32_t heap_n;
    struct timer *timers;
    size_t timers_n, timers_capacity;
    uint64_t timer_sequence;
    uint8_t fixed; /* sources are numbered: no more nodes and links */
    uint8_t halted; /* no run goes on: short of memory, or a program failed */
    const char *short_of; /* what there was no memory for, so that part of what happened is missing; NULL: nothing */

    struct flight *free_flights, *free_wide;
    void *flight_slabs, *wide_slabs;
    struct work *free_work;
    void *work_slabs;
    uint64_t works;  /* given out: what hosts still have to send */
    uint64_t raws;   /* frames of scripts and programs that wait in a NIC */
    uint64_t held;   /* frames that slow hosts have not taken */
    struct programs *programs; /* NULL: there are none */
    struct order *orders; /* by message */
    uint64_t n_orders; /* messages behind these are carried by none */

    struct sim_totals totals;
    struct paths *paths;     /* which links flows take; NULL: not recorded */
    struct hop_records *hops; /* what packets collected on their way; NULL: not recorded */
    struct tickers *tickers; /* NULL: there are none */
    ws_time tickers_next;    /* the first tick; WS_NEVER: none */
    uint32_t *switches;    /* their nodes */
    ws_time *switch_next;  /* when they next have something to do, or sooner */
    uint32_t n_switches;
    struct arrival *arrivals; /* room for those of any switch */
    uint32_t most_inlets;     /* of a switch */
    struct lane **host_lanes; /* what leads to hosts, in the order of their sources */
    ws_time *host_firsts;     /* and their first arrivals */
    uint32_t n_host_lanes;
    ws_time hosts_next;       /* the first of these, or sooner */
    struct due *due;          /* what arrives at hosts in this window, in order */
    struct due *due_found;    /* the same as it was found, and room to sort it */
    uint32_t *due_places;
    size_t due_n, due_capacity;
    ws_time window;        /* the smallest delay between two nodes */
    uint8_t window_stale;
    ws_time latest;        /* of what the switches have done */

    struct sim_punt *punts; /* own their bytes */
    size_t punts_n, punts_capacity, punts_taken;

    ws_time sample_interval, next_sample, sampled_at;
    uint64_t sampled_events; /* handled before the last sample */
    struct rows queue_rows, link_rows, flow_rows;
    uint32_t dirty_head, dirty_tail;

    struct tap *taps;
    uint32_t n_taps;
    uint64_t tap_missed;
};

/* --- event_heap.c: what happens next --------------------------------------------------------------- */
int order_fix(struct sim *s); /* numbers the sources; 0 or SIM_E* */
/* What leads to each port of a node, to be freed; NULL: no memory. */
struct lane **lanes_into(struct sim *s, uint32_t node, uint32_t ports);
/* From now on the source's next event is at `time` (WS_NEVER: none). */
void order_set(struct sim *s, uint32_t source, ws_time time);
int order_timer(struct sim *s, ws_time time, enum timer_kind kind, uint64_t object);
/* The same for one that was set as number `sequence` of all, which is its place among those of an instant. */
int order_timer_again(struct sim *s, ws_time time, enum timer_kind kind, uint64_t object, uint64_t sequence);
struct timer order_pop_timer(struct sim *s);

/* --- link.c: what is on the way ----------------------------------------------------------------- */
struct flight *flight_new(struct sim *s, uint32_t length); /* NULL: no memory */
void flight_free(struct sim *s, struct flight *flight);
/* Consumes `flight`; it arrives at flight->at. */
void lane_put(struct sim *s, struct lane *lane, struct flight *flight);
struct flight *lane_take(struct sim *s, struct lane *lane); /* the first one */
void lane_cut(struct sim *s, struct lane *lane);            /* what is on it is lost */
void link_update(struct sim *s, struct link *link);

/* --- switches.c ------------------------------------------------------------------------------------ */

/* Runs a switch up to and at `last`. */
void switch_run(struct sim *s, uint32_t node, ws_time last);
/* Takes what a switch has sent, and finds out when it next has something to do. */
void switch_refresh(struct sim *s, uint32_t node);
/* Brings what waits for the controller into order. */
void punts_sort(struct sim *s);
void punts_forget(struct sim *s);
/* The least time of a frame on a wire of that rate. */
static inline ws_time least_slot(uint64_t rate_bps)
{
    return rate_bps ? (ws_time)(8 * (uint64_t)WS_FRAME_MIN * PS_PER_S / rate_bps) : 0;
}

/* --- loop.c ------------------------------------------------------------------------------------------- */
/* Whether anything still has to send: of all elements the one with most to do. */
enum element_state work_state(const struct sim *s);

/* --- ticker.c: packets at a period into switches ------------------------------------------------------ */
/* When the next one is due; WS_NEVER where tickers have nothing to tick for any more. */
ws_time tickers_due(struct sim *s, int to_the_end, ws_time until);
/* All ticks up to and at `last`, and what happens at their switches before. */
void tickers_run(struct sim *s, ws_time last);
/* The end of a window with ticks that would be from `next` to `last`. */
ws_time tickers_window(ws_time next, ws_time last);
void tickers_free(struct sim *s);

/* --- arrivals.c: what arrives at hosts ------------------------------------------------------------------ */
/* Puts what arrives up to and at `last` into s->due, in order. */
void arrivals_gather(struct sim *s, ws_time last);
/* The one at `i` has its turn soon: what it touches is brought near. */
void arrivals_expect(const struct sim *s, size_t i);
/* All of s->due has been taken. */
void arrivals_done(struct sim *s);

/* --- prefetch.c ---------------------------------------------------------------------------------------- */

void switch_near(const struct node *node, uint32_t turns); /* element.h: near */

/* --- host.c: network cards -------------------------------------------------------------------------- */
void nic_send(struct sim *s, uint32_t node, uint32_t port); /* one frame, if one may go */
void nic_wake(struct sim *s, uint32_t node, uint32_t port); /* something has changed: finds out when it sends next */
void nic_script(struct sim *s, uint32_t node, uint32_t port, struct raw_frame *frame);
void flow_offer(struct sim *s, struct flow *flow, struct work *work);
struct work *work_new(struct sim *s);
void work_free(struct sim *s, struct work *work);
uint64_t nic_paused(const struct nic_queue *queue, ws_time now);
void flow_header(struct sim *s, struct flow *flow); /* makes the bytes that all its packets have */

/* A frame leaves: takes its time on the line. Consumes `flight`. */
void nic_emit(struct sim *s, struct nic *nic, struct flight *flight);

/* --- receive.c: what arrives at hosts ------------------------------------------------------------------ */
/* A frame will arrive there soon: what it belongs to is brought near. */
void nic_expect(const struct sim *s, uint32_t node, uint32_t port, const struct flight *flight);
void nic_receive(struct sim *s, uint32_t node, uint32_t port, struct flight *flight);
/* The host takes it. Consumes `flight`. */
void nic_take(struct sim *s, uint32_t node, uint32_t port, struct flight *flight);

/* The flow whose data a frame carries, and its PSN; NULL: none's. */
struct flow *flight_data_flow(const struct sim *s, const struct flight *flight, uint32_t *psn);

/* --- paths.c: which links flows take ------------------------------------------------------------------- */
/* A frame is put on a link. Only where s->paths is there, as the next one. */
void paths_sent(struct sim *s, const struct lane *lane, const struct flight *flight);
/* A host takes a frame. */
void paths_arrived(struct sim *s, uint32_t node, const struct flight *flight);
void paths_free(struct sim *s);

/* --- what packets collect on their way ------------------------------------------------------------------ */
/* A card takes a flow's data that has collected. Only where s->hops is there. */
void hops_arrived(struct sim *s, const struct flow *flow, const struct flight *flight);
void hops_free(struct sim *s);

/* --- clock.c: a card's own time ------------------------------------------------------------------------- */
/* The time that `frame` bytes take on a wire of that rate. */
ws_time slot_of(uint64_t rate_bps, uint32_t frame);
/* A rate by the card's clock. */
static inline uint64_t clock_rate(const struct nic *nic, uint64_t rate_bps)
{
    const int64_t ppb = nic->clock.ppb;
    return ppb ? (uint64_t)((int64_t)rate_bps + (int64_t)((__int128)(int64_t)rate_bps * ppb / 1000000000)) : rate_bps;
}
/* When a frame that would arrive at `at` does. */
ws_time clock_arrival(struct nic *nic, ws_time at);

/* --- programs.c: what runs on hosts and reacts ------------------------------------------------------------ */
/* Sends what is first of programs in a queue; 0: it is the flows' turn. */
int outbox_send(struct sim *s, struct nic *nic, uint32_t queue);
void outbox_free(struct outbox *outbox);
/* 1: a program listens to it and has got it. */
int program_take(struct sim *s, uint32_t node, uint32_t port, struct flight *flight);

/* --- slow_host.c: hosts that take frames at a rate ------------------------------------------------------- */
void receiver_put(struct sim *s, uint32_t node, uint32_t port, struct flight *flight);
void receiver_free(struct receiver *receiver);

/* --- endpoint.c: flows with a transport ---------------------------------------------------------------- */
int endpoint_add(struct sim *s, struct flow *flow);              /* SIM_OK or SIM_E* */
int endpoint_device(struct sim *s, const struct sim_flow_config *flow, uint32_t i); /* its hosts have one card each; SIM_OK or SIM_E* */
void endpoint_message(struct sim *s, struct flow *flow, uint64_t number); /* it is ready */
int endpoint_set_port(struct sim *s, const struct flow *flow, uint16_t udp_port); /* of its data; SIM_OK or SIM_EINVAL */
/* Bytes of a message as a work request. `idle`: the flow had none. 0: the queue pair has failed. */
int endpoint_post(struct sim *s, struct flow *flow, uint64_t number, uint64_t length, int idle);
int endpoint_queue(struct sim *s, struct nic *nic);              /* the highest queue that the card would send from, -1: none */
int endpoint_send(struct sim *s, struct nic *nic);               /* one frame; 0: there is none after all */
ws_time endpoint_next(struct sim *s, struct nic *nic);           /* when it has something to do */
void endpoint_receive(struct sim *s, struct nic *nic, struct flow *flow, const struct flight *flight);
void endpoint_refresh(struct sim *s, struct flow *flow);         /* its statistics */
uint64_t endpoint_rate(struct sim *s, struct flow *flow);
void endpoint_reconfigure(struct nic *nic);

/* --- carrier.c: what cards of several interfaces know of their links ------------------------------------ */
void carrier_delay(struct node *node, ws_time delay);                 /* after which they hear; the longest holds */
void carrier_told(const struct sim *s, struct nic *nic, int up);      /* now */
void carrier_changed(struct sim *s, uint32_t node, uint32_t port);    /* its link went up or down */

/* --- stripes.c: messages that several queue pairs share ------------------------------------------------- */
/* How many packets a message has, also of a flow that has no such group. */
uint32_t message_packets(const struct flow *flow, uint64_t bytes);
int stripes_take(const struct flow *flow); /* 1: messages may name it */
void stripes_message(struct sim *s, struct flow *flow, uint64_t number); /* it is ready */
int64_t stripes_arrived(struct flow *flow); /* its oldest piece: returns whose it was, -1: there is none */
void stripes_completed(struct sim *s, struct flow *flow);
void stripes_failed(struct sim *s, struct flow *flow);
void stripes_free_all(struct sim *s);

/* --- traffic.c ---------------------------------------------------------------------------------------- */
void message_ready(struct sim *s, uint64_t number);
void message_done(struct sim *s, uint64_t number);
void program_order(struct sim *s, uint64_t message);
void message_waits_less(struct sim *s, uint64_t number); /* for one less than before */

/* --- collectives.c: messages that are made as they are due ---------------------------------------------- */
/* A message of a collective: its place may soon be another's. */
static inline int message_is_ordered(const struct sim *s, uint64_t number) { return number < s->n_orders && s->orders[number].program; }
static inline int message_is_made(const struct sim *s, uint64_t number) { return s->n_stored && number >= s->n_stored; }
void collective_begin(struct sim *s, uint64_t barrier); /* a message that was added is done: a rank may begin */
void collective_ready(struct sim *s, uint64_t number);
void collective_done(struct sim *s, uint64_t number);
/* Takes it out of the open messages of its flow, wherever it stands. */
void collective_unlink(struct sim *s, struct flow *flow, uint64_t number);
void collectives_free(struct sim *s);

/* --- observe.c ---------------------------------------------------------------------------------------- */
void sample_now(struct sim *s);
void flow_dirty(struct sim *s, struct flow *flow, uint32_t number);
void *sample_row(struct sim *s, struct rows *rows, size_t size); /* one more; NULL: no memory, which ends the run */
size_t sample_take(struct rows *rows, void *out, size_t max, size_t size);
void tap_frame(struct sim *s, uint32_t tap, ws_time at, int sent, const uint8_t *data, uint32_t length, uint32_t tail,
               uint64_t tail_seed);
void observe_free(struct sim *s);

/* --- memory ------------------------------------------------------------------------------------------- */
/* There was no memory for `what` (which stays): this run ends as SIM_FAILED, and so does every later one. SIM_ENOMEM. */
int sim_short(struct sim *s, const char *what);
/* Room for one more of `size` bytes in *array; 0: no memory. */
int room(void **array, size_t n, size_t *capacity, size_t size);
int sim_fail(struct sim *s, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
