/* Packets: owns the packet objects and the free lists that they come from.
 *
 * One object is one allocation: this struct, the PHV (16-byte aligned), headroom for the deparsed headers,
 * the frame. Three sizes, so that 64 B packets of a big fan-out stay cheap and 9 KB frames still fit. Free
 * lists grow in slabs and never shrink before the pool is freed: no malloc per packet.
 */
#ifndef WEFT_PACKET_H
#define WEFT_PACKET_H

#include "weft_switch.h"

enum {
    WS_PACKET_TINY = 256,    /* the headers of simulated packets, minimum frames */
    WS_PACKET_SMALL = 2048,  /* frames of a 1 500 B MTU with room for tunnels */
    WS_PACKET_CLASSES = 3,
};

struct ws_pool;
struct ws_program;

struct ws_packet {
    struct ws_packet *next;   /* in a queue, the outputs or a free list */
    struct ws_pool *pool;     /* where it comes from, and with that its program */
    struct wp_phv *phv;
    uint8_t *frame;           /* behind the headroom; `capacity` bytes */
    uint8_t *out;             /* the finished output's bytes, `length` of them */
    uint32_t length;          /* of `out`, without the tail */
    uint32_t tail;            /* bytes behind those that are here, made of tail_seed (weft_switch.h: ws_packet_in) */
    uint64_t tail_seed;
    uint32_t capacity;
    uint32_t ingress_port;    /* as received; kept over clone, resubmit and recirculation */
    uint32_t port;            /* where it is queued for, or came out of */
    uint32_t cells;           /* what it adds to the depth of its queue */
    uint32_t queued_bytes;
    uint8_t size_class;
    uint8_t kind;             /* enum ws_output_kind */
    uint8_t priority;
    uint8_t class_in;         /* of the buffer: by the DSCP as it arrived */
    uint8_t buffered;         /* buffer.c: where its bytes are accounted */
    uint8_t generation;       /* egress clones since the packet last took time */
    uint8_t granted;          /* an output: it used up one of the packets that its port's driver granted */
    ws_time queued_at;        /* when it entered its queue */
    ws_time time;             /* queue: may leave from then on; output: `at` */
    uint64_t id;              /* output's running number */
    uint32_t trace;           /* its branch in a trace (trace.h), 0 = not traced */
    uint32_t trace_root;      /* the branch of the packet as received */
    struct wp_ctx ctx;
};

struct ws_slab;
struct ws_pool {
    struct ws_packet *free[WS_PACKET_CLASSES];
    struct ws_slab *slabs;
    uint32_t phv_size;  /* rounded to 16 */
    uint32_t headroom;  /* rounded to 16 */
    uint64_t live;      /* packets given out and not freed */
    struct ws_program *program; /* whose layout the PHVs have */
    uint64_t *refused;  /* counts the packets that there was no memory for */
};

/* An empty pool for the packets of `program`, which has these sizes; what memory is missing for counts in *refused. */
void ws_pool_init(struct ws_pool *pool, struct ws_program *program, uint32_t phv_size, uint32_t max_header_bytes,
                  uint64_t *refused);
void ws_pool_free(struct ws_pool *pool);
/* A packet for a frame of `length` bytes: requests cleared, data_len = length, PHV not cleared.
 * NULL when the frame is longer than WS_PACKET_BIG or memory is out. */
struct ws_packet *ws_packet_new(struct ws_pool *pool, uint32_t length);
/* The same packet as received with its tail written out, its PHV not filled. Consumes `packet`; NULL: no memory. */
struct ws_packet *ws_packet_unfold(struct ws_packet *packet);
/* The same finished packet with its tail written out. Consumes `packet`; NULL: no memory. */
struct ws_packet *ws_packet_unfold_out(struct ws_packet *packet);
/* A finished copy of a finished packet (`out`, `length`, `kind`, `port`); NULL when memory is out. */
struct ws_packet *ws_packet_copy_out(const struct ws_packet *packet);

/* The finished packet's bytes, those of the tail included. */
static inline uint32_t ws_packet_total(const struct ws_packet *packet) { return packet->length + packet->tail; }

/* A packet that waited is about to be worked on: what egress touches of it, up to the frame's first line. */
static inline void ws_packet_prefetch(const struct ws_packet *packet, const struct ws_pool *pool)
{
    const char *at = (const char *)packet;
    const size_t bytes = sizeof *packet + pool->phv_size + pool->headroom + 64;
    for (size_t offset = 0; offset < bytes; offset += 64)
        __builtin_prefetch(at + offset);
}

/* A traced packet was freed without a recorded reason. */
__attribute__((cold)) void ws_trace_gone(struct ws_packet *packet);

static inline void ws_packet_free(struct ws_packet *packet)
{
    if (packet->trace)
        ws_trace_gone(packet);
    struct ws_pool *pool = packet->pool;
    pool->live--;
    packet->next = pool->free[packet->size_class];
    pool->free[packet->size_class] = packet;
}

#endif
