#include "packet.h"

#include <stdlib.h>

enum { SLAB_SMALL = 32, SLAB_BIG = 4 };

static const uint32_t class_bytes[WS_PACKET_CLASSES] = {WS_PACKET_SMALL, WS_PACKET_BIG};
static const uint32_t class_slab[WS_PACKET_CLASSES] = {SLAB_SMALL, SLAB_BIG};

struct ws_slab {
    struct ws_slab *next;
};

static uint32_t round16(uint32_t n) { return (n + 15u) & ~15u; }

void ws_pool_init(struct ws_pool *pool, struct ws_program *program, uint32_t phv_size, uint32_t max_header_bytes)
{
    *pool = (struct ws_pool){
        .phv_size = round16(phv_size),
        .headroom = round16(max_header_bytes),
        .program = program,
    };
}

void ws_pool_free(struct ws_pool *pool)
{
    while (pool->slabs) {
        struct ws_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    for (int c = 0; c < WS_PACKET_CLASSES; c++)
        pool->free[c] = NULL;
}

static int grow(struct ws_pool *pool, uint8_t size_class)
{
    uint32_t head = round16(sizeof(struct ws_packet));
    size_t each = (size_t)head + pool->phv_size + pool->headroom + class_bytes[size_class];
    uint32_t n = class_slab[size_class];
    uint8_t *block = aligned_alloc(16, 16 + n * each);
    if (!block)
        return 0;
    struct ws_slab *slab = (struct ws_slab *)block;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *at = block + 16 + i * each;
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
    uint8_t size_class = length > WS_PACKET_SMALL;
    if (!pool->free[size_class] && !grow(pool, size_class))
        return NULL;
    struct ws_packet *packet = pool->free[size_class];
    pool->free[size_class] = packet->next;
    pool->live++;
    packet->next = NULL;
    packet->kind = WS_OUT_PACKET;
    packet->priority = 0;
    packet->generation = 0;
    packet->ctx = (struct wp_ctx){
        .data = packet->frame,
        .data_len = length,
        .packet_length = length,
        .ingress_length = length,
        .truncate_to = UINT32_MAX,
    };
    return packet;
}
