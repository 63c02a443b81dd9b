/* Ports: owns the ports, their priority queues and the moment at which a packet leaves.
 *
 * A port serves its highest priority first (a higher number wins, as in BMv2), then those that share by weight, and is
 * busy while a frame's bits leave. Egress processing happens when a packet is taken off its queue. On an idle port without rate
 * limits a packet never enters the queue.
 */
#ifndef WEFT_PORT_H
#define WEFT_PORT_H

#include "memory.h"
#include "packet.h"
#include "wire.h"

enum {
    WS_DEPTH_MAX = 0x7ffff,  /* enq_qdepth and deq_qdepth have 19 bits: saturate */
    WS_CELL_BYTES = 256,     /* of queue_cells when depths are in packets */
    WS_PORT_LINES = 4,       /* of struct ws_port, in front of its queues */
};
static const ws_time WS_LONG_AGO = -INT64_C(3600000000000000); /* an hour before the start: no rate remembers it */

/* Up while it has credit; reported as WS_PORT_UP. A state of its own, so that ports that are simply up pay nothing for it. */
#define WS_PORT_GRANTED ((enum ws_port_state)3)

struct ws_queue {
    struct ws_packet *head, *tail;
    uint64_t bytes;
    uint64_t cells;
    uint32_t packets;
    uint64_t peak_bytes, watched_bytes; /* highest since it is watched; with one more byte than that it is too long */
    ws_time above_at;                   /* when it was, first; -1: never */
};

/* What holds for each queue of a port where they differ. */
struct ws_limits {
    struct ws_queue_config queues[WS_PRIORITIES_MAX];
    ws_time release_step[WS_PRIORITIES_MAX];
};

/* Deficit round robin among the queues with a quantum. */
struct ws_round {
    uint32_t quantum[WS_PRIORITIES_MAX];
    uint32_t deficit[WS_PRIORITIES_MAX];
    uint8_t turn;  /* the queue whose turn it is */
    uint8_t begun; /* it has got this round's quantum */
};

/* What every packet touches comes first, in four lines of the cache; then a line for each queue. */
struct ws_port {
    _Alignas(WS_LINE) uint32_t number;
    enum ws_port_state state; /* or WS_PORT_GRANTED */
    uint32_t pause_mask;  /* classes that may not send: asked_mask, and by PFC */
    uint32_t nonempty;    /* bit c: queue c holds packets */
    uint32_t weighted;    /* bit c: queue c is not strict */
    uint32_t credit;
    uint8_t used;         /* bit c: queue c has held packets */
    uint8_t ready;        /* in the switch's ready list */
    uint8_t asked;        /* enum ws_port_state by ws_set_port; `state` is what that and `credit` come to */
    uint8_t apart;        /* queues have limits of their own: `limits` holds */
    uint8_t metered;      /* only as many packets as its driver granted may leave: `credit` */
    ws_time busy_until;
    ws_time wake_at;      /* the pending event, WS_NEVER if none */
    ws_time release_step; /* ws_release_step of all queues; with `apart`: not 0 if that of any is not */
    struct ws_port *next_ready;
    struct ws_wire *wires[2]; /* by enum ws_direction; NULL: nothing goes wrong */
    struct ws_port_config config;
    struct ws_port_stats stats;
    _Alignas(WS_LINE) struct ws_queue queues[WS_PRIORITIES_MAX];
    ws_time last_release[WS_PRIORITIES_MAX]; /* of rate_pps, by queue */
    struct ws_round round;
    uint32_t asked_mask;      /* by ws_set_port */
    struct ws_pauses *pauses; /* buffer.h; NULL: never used */
    struct ws_limits *limits; /* NULL: never used */
    struct ws_wire *wires_made[2]; /* what `wires` points to, once there was something wrong */
};
_Static_assert(offsetof(struct ws_port, queues) == WS_PORT_LINES * WS_LINE, "as many lines as said");
_Static_assert(sizeof(struct ws_queue) == WS_LINE, "a queue is a line");

struct ws_ports {
    struct ws_port **table; /* by number, NULL = never used */
    uint32_t capacity;
    struct ws_port *ready_head, *ready_tail; /* got packets while egress ran */
};

/* Picoseconds between packets of such a queue; 0 if they need not pass through it while the port is idle. */
static inline ws_time ws_release_step(const struct ws_queue_config *queue)
{
    if (queue->rate_pps)
        return INT64_C(1000000000000) / (ws_time)queue->rate_pps;
    return queue->packets == WS_QUEUE_CLOSED;
}

/* All queues follow the port's configuration again. */
void ws_port_limits_follow(struct ws_port *port);
/* The port, made at first use; NULL for a number out of range or when memory is out. */
struct ws_port *ws_port_at(ws_switch *sw, uint32_t number);
/* A port that pushes back is up too, and so is one that was never used. */
int ws_port_is_up(const ws_switch *sw, uint32_t number);
/* Queues `packet` for port `number` as its metadata says; drops and counts when it can't. Sends at once when possible. */
void ws_port_enqueue(ws_switch *sw, uint32_t number, struct ws_packet *packet);
/* Sends a finished packet (`out` and `length`) behind the frame that is on the wire, past all queues. */
void ws_port_insert(ws_switch *sw, struct ws_port *port, struct ws_packet *packet);
/* Drops what waits in a queue; returns how many packets. */
uint32_t ws_port_flush(ws_switch *sw, struct ws_port *port, uint32_t queue);
/* Sends whatever may leave at `now`; schedules the rest. */
void ws_port_serve(ws_switch *sw, struct ws_port *port);
/* Serves the ports that egress processing gave packets to. */
void ws_ports_settle(ws_switch *sw);
/* Empties all queues (the packets die with their pool). What was on its way to the driver takes no grant. */
void ws_ports_forget_packets(ws_switch *sw);
void ws_ports_free(struct ws_ports *ports);

#endif
