#include "packet.h"

#include "icrc.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { SLAB_TINY = 64, SLAB_SMALL = 32, SLAB_BIG = 4 };

static const uint32_t class_bytes[WS_PACKET_CLASSES] = {WS_PACKET_TINY, WS_PACKET_SMALL, WS_PACKET_BIG};
static const uint32_t class_slab[WS_PACKET_CLASSES] = {SLAB_TINY, SLAB_SMALL, SLAB_BIG};

struct ws_slab {
    struct ws_slab *next;
    size_t bytes;
};

static uint32_t round16(uint32_t n) { return (n + 15u) & ~15u; }

void ws_pool_init(struct ws_pool *pool, struct ws_program *program, uint32_t phv_size, uint32_t max_header_bytes,
                  uint64_t *refused)
{
    *pool = (struct ws_pool){
        .phv_size = round16(phv_size),
        .headroom = round16(max_header_bytes),
        .program = program,
        .refused = refused,
    };
}

void ws_pool_free(struct ws_pool *pool)
{
    while (pool->slabs) {
        struct ws_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        ws_memory_put(slab, slab->bytes);
    }
    for (int c = 0; c < WS_PACKET_CLASSES; c++)
        pool->free[c] = NULL;
}

static int grow(struct ws_pool *pool, uint8_t size_class)
{
    uint32_t head = round16(sizeof(struct ws_packet));
    size_t each = (size_t)head + pool->phv_size + pool->headroom + class_bytes[size_class];
    uint32_t n = class_slab[size_class];
    const size_t bytes = WS_LINE + n * each;
    uint8_t *block = ws_memory_get(bytes);
    if (!block)
        return 0;
    struct ws_slab *slab = (struct ws_slab *)block;
    slab->bytes = bytes;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *at = block + WS_LINE + i * each;
        struct ws_packet *packet = (struct ws_packet *)at;
        packet->phv = (struct wp_phv *)(at + head);
        packet->frame = at + head + pool->phv_size + pool->headroom;
        packet->capacity = class_bytes[size_class];
        packet->size_class = size_class;
        packet->pool = pool;
        packet->trace = 0;
        pool->live++;
        ws_packet_free(packet);
    }
    return 1;
}

struct ws_packet *ws_packet_new(struct ws_pool *pool, uint32_t length)
{
    if (length > WS_PACKET_BIG)
        return NULL;
    uint8_t size_class = (uint8_t)((length > WS_PACKET_TINY) + (length > WS_PACKET_SMALL));
    if (!pool->free[size_class] && !grow(pool, size_class)) {
        ++*pool->refused;
        return NULL;
    }
    struct ws_packet *packet = pool->free[size_class];
    pool->free[size_class] = packet->next;
    pool->live++;
    packet->next = NULL;
    packet->kind = WS_OUT_PACKET;
    packet->priority = 0;
    packet->generation = 0;
    packet->granted = 0;
    packet->tail = 0;
    packet->class_in = 0;
    packet->buffered = 0;
    packet->ctx = (struct wp_ctx){
        .data = packet->frame,
        .data_len = length,
        .packet_length = length,
        .ingress_length = length,
        .truncate_to = UINT32_MAX,
    };
    return packet;
}

/* --- tails ----------------------------------------------------------------------------------- */

static uint64_t word_of(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void ws_payload(uint64_t seed, uint32_t offset, uint8_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)offset + i;
        if (at % 8 == 0 && n - i >= 8) {
            uint64_t word = word_of(seed, at / 8);
            for (int byte = 0; byte < 8; byte++)
                out[i + (uint32_t)byte] = (uint8_t)(word >> 8 * byte);
            i += 7;
        } else {
            out[i] = (uint8_t)(word_of(seed, at / 8) >> 8 * (at % 8));
        }
    }
}

void ws_write_tail(uint8_t *frame, uint32_t length, uint32_t tail_length, uint64_t tail_seed)
{
    ws_payload(tail_seed, 0, frame + length, tail_length);
    if (tail_seed & WS_TAIL_ICRC)
        ws_icrc_write(frame, (size_t)length + tail_length);
}

struct ws_packet *ws_packet_unfold(struct ws_packet *packet)
{
    const uint32_t here = packet->ctx.data_len;
    struct ws_packet *whole = ws_packet_new(packet->pool, here + packet->tail);
    if (whole) {
        memcpy(whole->frame, packet->ctx.data, here);
        ws_write_tail(whole->frame, here, packet->tail, packet->tail_seed);
        memcpy(whole->phv, packet->phv, packet->pool->phv_size);
        const uint8_t *data = whole->ctx.data;
        whole->ctx = packet->ctx;
        whole->ctx.data = data;
        whole->ctx.data_len = here + packet->tail;
        whole->ingress_port = packet->ingress_port;
        whole->port = packet->port;
        whole->generation = packet->generation;
        whole->class_in = packet->class_in;
        whole->trace = packet->trace;
        whole->trace_root = packet->trace_root;
        packet->trace = 0;
    }
    ws_packet_free(packet);
    return whole;
}

struct ws_packet *ws_packet_copy_out(const struct ws_packet *packet)
{
    struct ws_packet *copy = ws_packet_new(packet->pool, packet->length);
    if (!copy)
        return NULL;
    memcpy(copy->frame, packet->out, packet->length);
    copy->out = copy->frame;
    copy->length = packet->length;
    copy->tail = packet->tail;
    copy->tail_seed = packet->tail_seed;
    copy->kind = packet->kind;
    copy->port = packet->port;
    return copy;
}

struct ws_packet *ws_packet_unfold_out(struct ws_packet *packet)
{
    struct ws_packet *whole = ws_packet_new(packet->pool, ws_packet_total(packet));
    if (whole) {
        memcpy(whole->frame, packet->out, packet->length);
        ws_write_tail(whole->frame, packet->length, packet->tail, packet->tail_seed);
        whole->out = whole->frame;
        whole->length = ws_packet_total(packet);
        whole->kind = packet->kind;
        whole->port = packet->port;
        whole->time = packet->time;
        whole->granted = packet->granted;
        whole->trace = packet->trace;
        whole->trace_root = packet->trace_root;
        packet->trace = 0;
    }
    ws_packet_free(packet);
    return whole;
}
