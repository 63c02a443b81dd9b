/* Owns the card: its queue pairs, regions and events, and whose turn it is to send. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"

enum { READS_MOST = 16, RINGS_FIRST = 8, EVENTS_FIRST = 64, DEPTH_MOST = 1 << 24 };
static const uint64_t BIT_PS = 8000000000000; /* of a byte at 1 bit/s */
static const uint64_t LENGTH_MOST = (uint64_t)1 << 31;
static const rnic_time TIME_MOST = (rnic_time)1 << 60;

int card_fail(struct rnic *r, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->error, sizeof r->error, format, arguments);
    va_end(arguments);
    return status;
}

const char *rnic_error(const rnic *r) { return r->error; }

rnic *rnic_create(const struct rnic_config *config)
{
    struct rnic *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->config = *config;
    r->wanted = UINT32_MAX;
    for (int q = 0; q < RNIC_QUEUES; q++) {
        list_init(&r->ready[q]);
        list_init(&r->acks[q]);
    }
    list_init(&r->cnps);
    return r;
}

static struct early_ring *ring_of(struct early *slots)
{
    return (struct early_ring *)((char *)slots - offsetof(struct early_ring, slots));
}

static void qp_free(struct qp *qp)
{
    free(qp->works);
    free(qp->receives);
    free(qp->answers);
    free(qp->arrived);
    if (qp->early)
        free(ring_of(qp->early));
    free(qp->early_bytes);
    if (qp->config.slot != qp->slot)
        free(qp->slot);
    free(qp);
}

void rnic_destroy(rnic *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->table && i <= r->table_mask; i++)
        if (r->table[i])
            qp_free(r->table[i]);
    while (r->spare) {
        struct early_ring *next = r->spare->next;
        free(r->spare);
        r->spare = next;
    }
    free(r->table);
    free(r->regions);
    free(r->events);
    for (int h = 0; h < HEAPS; h++)
        free(r->heaps[h].entries);
    free(r);
}

int rnic_configure(rnic *r, const struct rnic_config *config)
{
    struct rnic_config *own = &r->config;
    own->mac = config->mac;
    own->gateway_mac = config->gateway_mac;
    own->ip = config->ip;
    own->line_rate_bps = config->line_rate_bps;
    own->pace_slack_ps = config->pace_slack_ps;
    return RNIC_OK;
}

/* --- memory regions ---------------------------------------------------------------------------- */

int rnic_register(rnic *r, uint32_t rkey, uint64_t address, uint8_t *base, uint64_t length, uint32_t access)
{
    for (uint32_t i = 0; i < r->n_regions; i++)
        if (r->regions[i].rkey == rkey)
            return card_fail(r, RNIC_EEXIST, "key 0x%08x is taken", rkey);
    if (length > UINT64_MAX - address)
        return card_fail(r, RNIC_EINVAL, "a region ends behind the last address");
    if (r->config.whole && !base && length)
        return card_fail(r, RNIC_EINVAL, "a region without memory");
    if (r->n_regions == r->regions_capacity) {
        const uint32_t capacity = r->regions_capacity ? 2 * r->regions_capacity : RINGS_FIRST;
        struct region *bigger = realloc(r->regions, capacity * sizeof *bigger);
        if (!bigger)
            return card_fail(r, RNIC_ENOMEM, "no memory for a region");
        r->regions = bigger;
        r->regions_capacity = capacity;
    }
    r->regions[r->n_regions++] = (struct region){rkey, access, address, length, base};
    return RNIC_OK;
}

int rnic_deregister(rnic *r, uint32_t rkey)
{
    for (uint32_t i = 0; i < r->n_regions; i++)
        if (r->regions[i].rkey == rkey) {
            r->regions[i] = r->regions[--r->n_regions];
            return RNIC_OK;
        }
    return card_fail(r, RNIC_ENOENT, "there is no region with key 0x%08x", rkey);
}

const struct region *region_of(const struct rnic *r, uint32_t rkey, uint64_t address, uint64_t length, uint32_t access)
{
    for (uint32_t i = 0; i < r->n_regions; i++) {
        const struct region *region = &r->regions[i];
        if (region->rkey == rkey)
            return (region->access & access) && address >= region->address && length <= region->length &&
                           address - region->address <= region->length - length
                       ? region
                       : NULL;
    }
    return NULL;
}

/* --- events ------------------------------------------------------------------------------------ */

void rnic_want_events(rnic *r, uint32_t kinds) { r->wanted = kinds; }

struct rnic_event *qp_event_new(struct qp *qp, enum rnic_event_kind kind)
{
    struct rnic *r = qp->card;
    if (!(r->wanted >> kind & 1))
        return NULL;
    const uint64_t n = r->events_tail - r->events_head;
    if (!r->events || n > r->events_mask) {
        const uint32_t size = r->events ? 2 * (r->events_mask + 1) : EVENTS_FIRST;
        struct rnic_event *bigger = malloc(size * sizeof *bigger);
        if (!bigger)
            return NULL;
        for (uint64_t i = 0; i < n; i++)
            bigger[i] = r->events[(r->events_head + i) & r->events_mask];
        free(r->events);
        r->events = bigger;
        r->events_mask = size - 1;
        r->events_head = 0;
        r->events_tail = n;
    }
    struct rnic_event *event = &r->events[r->events_tail++ & r->events_mask];
    *event = (struct rnic_event){.kind = kind, .qpn = qp->config.qpn, .at = r->now};
    return event;
}

void qp_event(struct qp *qp, enum rnic_event_kind kind, uint64_t id, uint64_t bytes, uint32_t operation, enum rnic_failure status)
{
    struct rnic_event *event = qp_event_new(qp, kind);
    if (!event)
        return;
    event->id = id;
    event->bytes = bytes;
    event->operation = operation;
    event->status = status;
}

size_t rnic_events_waiting(const rnic *r) { return (size_t)(r->events_tail - r->events_head); }

size_t rnic_take_events(rnic *r, struct rnic_event *events, size_t max)
{
    size_t n = 0;
    while (n < max && r->events_head < r->events_tail)
        events[n++] = r->events[r->events_head++ & r->events_mask];
    return n;
}

/* --- heaps of queue pairs by time -------------------------------------------------------------- */

static int before(const struct heap_entry *a, const struct heap_entry *b)
{
    return a->time != b->time ? a->time < b->time : a->qp->config.qpn < b->qp->config.qpn;
}

static void heap_put(struct heap *heap, enum heap_kind kind, uint32_t at, struct heap_entry entry)
{
    heap->entries[at] = entry;
    entry.qp->heap_at[kind] = at;
}

static void heap_settle(struct heap *heap, enum heap_kind kind, uint32_t at, struct heap_entry entry)
{
    while (at && before(&entry, &heap->entries[(at - 1) / 2])) {
        heap_put(heap, kind, at, heap->entries[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->n)
            break;
        if (child + 1 < heap->n && before(&heap->entries[child + 1], &heap->entries[child]))
            child++;
        if (!before(&heap->entries[child], &entry))
            break;
        heap_put(heap, kind, at, heap->entries[child]);
        at = child;
    }
    heap_put(heap, kind, at, entry);
}

static void heap_set(struct qp *qp, enum heap_kind kind, rnic_time time)
{
    struct heap *heap = &qp->card->heaps[kind];
    if (qp->heap_at[kind] == NOT_IN_HEAP)
        heap->n++;
    heap_settle(heap, kind, qp->heap_at[kind] == NOT_IN_HEAP ? heap->n - 1 : qp->heap_at[kind], (struct heap_entry){time, qp});
}

static void heap_remove(struct qp *qp, enum heap_kind kind)
{
    struct heap *heap = &qp->card->heaps[kind];
    const uint32_t at = qp->heap_at[kind];
    if (at == NOT_IN_HEAP)
        return;
    qp->heap_at[kind] = NOT_IN_HEAP;
    const struct heap_entry last = heap->entries[--heap->n];
    if (at < heap->n)
        heap_settle(heap, kind, at, last);
}

/* A deadline that moves away, as each acknowledgement moves it, leaves the heap as it is: what comes out too early goes in again. */
void timer_set(struct qp *qp, rnic_time at)
{
    qp->deadline = at;
    if (at == RNIC_NEVER)
        return;
    const uint32_t place = qp->heap_at[HEAP_TIMER];
    if (place == NOT_IN_HEAP || qp->card->heaps[HEAP_TIMER].entries[place].time > at)
        heap_set(qp, HEAP_TIMER, at);
}

/* --- queue pairs ------------------------------------------------------------------------------- */

static void table_insert(struct rnic *r, struct qp *qp)
{
    uint32_t at = qp->config.qpn * 0x9e3779b1u;
    while (r->table[at & r->table_mask])
        at++;
    r->table[at & r->table_mask] = qp;
}

static int table_grow(struct rnic *r)
{
    if (r->table && 2 * (r->qps + 1) <= r->table_mask)
        return 1;
    const uint32_t size = r->table ? 2 * (r->table_mask + 1) : RINGS_FIRST;
    struct qp **old = r->table, **bigger = calloc(size, sizeof *bigger);
    const uint32_t old_size = old ? r->table_mask + 1 : 0;
    if (!bigger)
        return 0;
    r->table = bigger;
    r->table_mask = size - 1;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i])
            table_insert(r, old[i]);
    free(old);
    return 1;
}

static int heaps_grow(struct rnic *r)
{
    if (r->qps < r->heaps_capacity)
        return 1;
    const uint32_t capacity = r->heaps_capacity ? 2 * r->heaps_capacity : RINGS_FIRST;
    for (int h = 0; h < HEAPS; h++) {
        struct heap_entry *bigger = realloc(r->heaps[h].entries, capacity * sizeof *bigger);
        if (!bigger)
            return 0;
        r->heaps[h].entries = bigger;
    }
    r->heaps_capacity = capacity;
    return 1;
}

static int check(struct rnic *r, const struct rnic_qp_config *c)
{
    const uint32_t window_most = c->repeat == RNIC_SELECTIVE ? WINDOW_SELECTIVE_MOST : WINDOW_MOST;
    if (!c->qpn || c->qpn > RNIC_QPN_MAX)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: numbers go from 1 to 0xffffff", c->qpn);
    if (qp_find(r, c->qpn))
        return card_fail(r, RNIC_EEXIST, "queue pair %u is there already", c->qpn);
    if (r->qps >= r->config.max_qps)
        return card_fail(r, RNIC_EFULL, "no more than %u queue pairs", r->config.max_qps);
    if (c->mtu < RNIC_MTU_MIN || c->mtu > RNIC_MTU_MAX || (c->mtu & (c->mtu - 1)))
        return card_fail(r, RNIC_EINVAL, "queue pair %u: the MTU is 256, 512, 1024, 2048 or 4096, not %u", c->qpn, c->mtu);
    if (c->repeat > RNIC_SELECTIVE || c->queue >= RNIC_QUEUES || c->dscp > 63)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: retransmission, queue or DSCP out of range", c->qpn);
    if (c->window_packets > window_most)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: a window of %u packets, at most %u", c->qpn, c->window_packets, window_most);
    if (c->timeout_ps <= 0 || c->timeout_ps > TIME_MOST || c->rnr_timer_ps < 0)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: time-out out of range", c->qpn);
    if (c->udp_ports > 1 && c->udp_port + c->udp_ports > 65536)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: UDP ports end at 65535", c->qpn);
    if (c->max_reads > 1024 || c->first_psn > PSN_MASK || c->send_depth > DEPTH_MOST)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: READs at once, first PSN or depth out of range", c->qpn);
    return RNIC_OK;
}

static int check_cc(struct rnic *r, uint32_t qpn, const struct dcqcn_params *cc)
{
    if (cc && (!cc->line_rate || cc->line_rate > DCQCN_RATE_MAX || !cc->min_rate || cc->min_rate > cc->line_rate ||
               cc->rate_ai > DCQCN_RATE_MAX || cc->rate_hai > DCQCN_RATE_MAX || !cc->alpha_timer_ns || !cc->increase_timer_ns ||
               cc->gain_q16 > 65536))
        return card_fail(r, RNIC_EINVAL, "queue pair %u: DCQCN's parameters are out of range", qpn);
    return RNIC_OK;
}

static uint8_t rnr_code(rnic_time timer)
{
    uint8_t code = 1;
    while (code < 31 && RNR_UNIT_PS * rnr_units[code] < timer)
        code++;
    return code;
}

/* Selective repeat's memory. */
int early_begin(struct qp *qp)
{
    struct rnic *r = qp->card;
    if (qp->early)
        return 1;
    if (r->spare && r->spare->mask == qp->early_mask) {
        qp->early = r->spare->slots;
        r->spare = r->spare->next;
        return 1;
    }
    struct early_ring *ring = malloc(sizeof *ring + ((size_t)qp->early_mask + 1) * sizeof ring->slots[0]);
    if (!ring)
        return 0;
    ring->mask = qp->early_mask;
    for (uint64_t i = 0; i <= ring->mask; i++)
        ring->slots[i].psn = UINT64_MAX;
    qp->early = ring->slots;
    return 1;
}

void early_end(struct qp *qp)
{
    struct rnic *r = qp->card;
    if (!qp->early || r->config.whole)
        return;
    struct early_ring *ring = ring_of(qp->early);
    qp->early = NULL;
    ring->next = r->spare;
    r->spare = ring;
}

static int add_early(struct qp *qp)
{
    uint32_t slots = 1;
    while (slots < qp->config.window_packets)
        slots *= 2;
    qp->early_mask = slots - 1;
    if (!qp->card->config.whole)
        return 1;
    qp->arrived = calloc(WINDOW_SELECTIVE_MOST / 64, sizeof *qp->arrived);
    qp->early_bytes = malloc((size_t)slots * qp->config.mtu);
    return qp->arrived && qp->early_bytes && early_begin(qp);
}

static int add_slot(struct qp *qp, const struct dcqcn_params *cc)
{
    qp->slot = qp->config.slot;
    if (qp->slot || !cc)
        return 1;
    qp->slot = calloc(1, sizeof *qp->slot);
    if (!qp->slot)
        return 0;
    qp->config.slot_is_ours = 1;
    qp->slot->algorithm = CC_DCQCN;
    qp->slot->qpn = qp->config.qpn;
    dcqcn_init(&qp->slot->dcqcn, cc, nanoseconds(qp->card));
    return 1;
}

int rnic_add_qp(rnic *r, const struct rnic_qp_config *config, const struct dcqcn_params *cc)
{
    int status = check(r, config);
    if (!status)
        status = check_cc(r, config->qpn, cc);
    if (status)
        return status;
    struct qp *qp = calloc(1, sizeof *qp);
    if (!qp || !table_grow(r) || !heaps_grow(r)) {
        free(qp);
        return card_fail(r, RNIC_ENOMEM, "no memory for a queue pair");
    }
    qp->card = r;
    qp->config = *config;
    struct rnic_qp_config *c = &qp->config;
    if (!c->window_packets)
        c->window_packets = c->repeat == RNIC_SELECTIVE ? WINDOW_SELECTIVE : WINDOW_MOST;
    if (!c->ack_every)
        c->ack_every = 1;
    if (!c->max_reads)
        c->max_reads = READS_MOST;
    qp->rnr_code = rnr_code(c->rnr_timer_ps);
    qp->heap_at[HEAP_PACE] = qp->heap_at[HEAP_TIMER] = NOT_IN_HEAP;
    qp->deadline = RNIC_NEVER;
    qp->una = qp->next = qp->sent = qp->posted = qp->peer_expected = c->first_psn;
    qp->np.interval_ns = c->cnp_interval_ns;
    qp->answers_size = c->max_reads;
    qp->answers = malloc(c->max_reads * sizeof *qp->answers);
    if (!qp->answers || !add_slot(qp, cc) || (c->repeat == RNIC_SELECTIVE && !add_early(qp))) {
        qp_free(qp);
        return card_fail(r, RNIC_ENOMEM, "no memory for a queue pair");
    }
    r->qps++;
    table_insert(r, qp);
    return RNIC_OK;
}

int rnic_connect(rnic *r, uint32_t qpn, uint32_t peer_ip, uint64_t peer_mac, uint32_t peer_qpn, uint32_t peer_psn)
{
    struct qp *qp = qp_find(r, qpn);
    if (!qp)
        return card_fail(r, RNIC_ENOENT, "there is no queue pair %u", qpn);
    if (qp->state != RNIC_RESET)
        return card_fail(r, RNIC_ESTATE, "queue pair %u is connected", qpn);
    if (!peer_qpn || peer_qpn > RNIC_QPN_MAX || peer_psn > PSN_MASK)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: the peer's number or PSN is out of range", qpn);
    qp->peer_ip = peer_ip;
    qp->peer_qpn = peer_qpn;
    qp->expected = peer_psn;
    qp->state = RNIC_READY;
    header_prepare(qp, peer_mac);
    return RNIC_OK;
}

static void unlist(struct qp *qp)
{
    if (linked(&qp->ready))
        list_remove(&qp->ready);
    heap_remove(qp, HEAP_PACE);
}

int rnic_remove_qp(rnic *r, uint32_t qpn)
{
    struct qp *qp = qp_find(r, qpn);
    if (!qp)
        return card_fail(r, RNIC_ENOENT, "there is no queue pair %u", qpn);
    unlist(qp);
    heap_remove(qp, HEAP_TIMER);
    if (linked(&qp->ack))
        list_remove(&qp->ack);
    if (linked(&qp->cnp))
        list_remove(&qp->cnp);
    uint32_t at = qpn * 0x9e3779b1u;
    while (r->table[at & r->table_mask] != qp)
        at++;
    r->table[at & r->table_mask] = NULL;
    for (at++; r->table[at & r->table_mask]; at++) { /* those behind it may have wanted its place */
        struct qp *other = r->table[at & r->table_mask];
        r->table[at & r->table_mask] = NULL;
        table_insert(r, other);
    }
    r->qps--;
    qp_free(qp);
    return RNIC_OK;
}

void qp_fail(struct qp *qp, enum rnic_failure failure, uint8_t syndrome)
{
    if (qp->state == RNIC_ERROR)
        return;
    qp->state = RNIC_ERROR;
    qp->failure = failure;
    qp_event(qp, RNIC_QP_FAILED, 0, 0, 0, failure);
    requester_flush(qp);
    responder_flush(qp);
    unlist(qp);
    qp->syndrome = qp->fatal = syndrome;
    if (syndrome)
        ack_soon(qp);
}

/* --- work -------------------------------------------------------------------------------------- */

static struct qp *qp_for_work(struct rnic *r, uint32_t qpn)
{
    struct qp *qp = qp_find(r, qpn);
    if (!qp)
        return card_fail(r, RNIC_ENOENT, "there is no queue pair %u", qpn), NULL;
    return qp;
}

/* Room for one more in a ring; indices stay, so that what is in it moves to its new places. */
static int ring_grow(void **ring, uint32_t *mask, uint64_t head, uint64_t tail, size_t each)
{
    if (*ring && tail - head <= *mask)
        return 1;
    const uint32_t size = *ring ? 2 * (*mask + 1) : 1; /* most of a simulation's queue pairs have one message */
    uint8_t *bigger = malloc(size * each), *old = *ring;
    if (!bigger)
        return 0;
    for (uint64_t i = head; i < tail; i++)
        memcpy(bigger + (i & (size - 1)) * each, old + (i & *mask) * each, each);
    free(old);
    *ring = bigger;
    *mask = size - 1;
    return 1;
}

int rnic_post(rnic *r, uint32_t qpn, const struct rnic_work *work, rnic_time now)
{
    struct qp *qp = qp_for_work(r, qpn);
    if (!qp)
        return RNIC_ENOENT;
    if (now > r->now)
        r->now = now;
    if (qp->state != RNIC_READY)
        return card_fail(r, RNIC_ESTATE, "queue pair %u is %s", qpn, qp->state == RNIC_ERROR ? "in error" : "not connected");
    if (work->operation > RNIC_READ)
        return card_fail(r, RNIC_EINVAL, "there is no operation %u", work->operation);
    const uint64_t packets = work->length ? (work->length + qp->config.mtu - 1) / qp->config.mtu : 1;
    if (work->length > LENGTH_MOST || (work->operation == RNIC_READ && packets > READ_PACKETS_MOST))
        return card_fail(r, RNIC_EINVAL, "a message of %llu bytes is too long", (unsigned long long)work->length);
    if (r->config.whole && work->length && !work->local)
        return card_fail(r, RNIC_EINVAL, "a message without memory");
    if (qp->config.send_depth && qp->tail - qp->head >= qp->config.send_depth)
        return card_fail(r, RNIC_EFULL, "queue pair %u has %u work requests already", qpn, qp->config.send_depth);
    if (!ring_grow((void **)&qp->works, &qp->works_mask, qp->head, qp->tail, sizeof *qp->works))
        return card_fail(r, RNIC_ENOMEM, "no memory for work");
    qp->works[qp->tail++ & qp->works_mask] =
        (struct work){.posted = *work, .first_psn = qp->posted, .packets = (uint32_t)packets};
    qp->posted += packets;
    qp_update(qp);
    return RNIC_OK;
}

int rnic_post_receive(rnic *r, uint32_t qpn, uint64_t id, uint8_t *buffer, uint64_t length)
{
    struct qp *qp = qp_for_work(r, qpn);
    if (!qp)
        return RNIC_ENOENT;
    if (qp->state == RNIC_ERROR)
        return card_fail(r, RNIC_ESTATE, "queue pair %u is in error", qpn);
    if (!ring_grow((void **)&qp->receives, &qp->receives_mask, qp->receives_head, qp->receives_tail, sizeof *qp->receives))
        return card_fail(r, RNIC_ENOMEM, "no memory for a receive buffer");
    qp->receives[qp->receives_tail++ & qp->receives_mask] = (struct receive){id, length, buffer};
    return RNIC_OK;
}

int rnic_receive_anything(rnic *r, uint32_t qpn)
{
    struct qp *qp = qp_for_work(r, qpn);
    if (!qp)
        return RNIC_ENOENT;
    qp->anything = 1;
    return RNIC_OK;
}

/* --- who may send ------------------------------------------------------------------------------ */

/* `cc` by congestion control, 0: not limited; in all. 0: as fast as the line. */
static uint64_t rate_within(const struct qp *qp, uint64_t cc)
{
    uint64_t rate = qp->config.rate_bps;
    if (cc && (!rate || cc < rate))
        rate = cc;
    const uint64_t line = qp->card->config.line_rate_bps;
    return line && rate >= line ? 0 : rate;
}

/* Applies what has elapsed to a slot of ours. */
static uint64_t rate_of(struct qp *qp)
{
    struct cc_slot *slot = qp->slot;
    if (!slot)
        return rate_within(qp, 0);
    if (!qp->config.slot_is_ours)
        return rate_within(qp, cc_rate_at(slot, nanoseconds(qp->card)));
    if (slot->algorithm != CC_DCQCN)
        return rate_within(qp, 0);
    dcqcn_elapse(&slot->dcqcn, nanoseconds(qp->card));
    return rate_within(qp, slot->dcqcn.rate);
}

static void pace(struct qp *qp, const struct rnic_packet *packet)
{
    struct rnic *r = qp->card;
    const uint64_t rate = rate_of(qp);
    uint64_t bytes = packet->header_length + packet->payload_length + packet->pad + RNIC_ICRC + FRAME_GAP;
    if (!rate) {
        qp->allowed = r->now;
        return;
    }
    if (bytes < FRAME_LEAST)
        bytes = FRAME_LEAST;
    if (qp->allowed < r->now - r->config.pace_slack_ps)
        qp->allowed = r->now - r->config.pace_slack_ps;
    qp->allowed += (rnic_time)((bytes * BIT_PS + rate - 1) / rate); /* never faster than the rate */
}

void qp_update(struct qp *qp)
{
    struct rnic *r = qp->card;
    if (!responder_wants(qp) && !requester_wants(qp)) {
        unlist(qp);
    } else if (qp->allowed > r->now) {
        if (linked(&qp->ready))
            list_remove(&qp->ready);
        if (qp->heap_at[HEAP_PACE] == NOT_IN_HEAP)
            heap_set(qp, HEAP_PACE, qp->allowed);
    } else if (!linked(&qp->ready)) {
        heap_remove(qp, HEAP_PACE);
        list_append(&r->ready[qp->config.queue], &qp->ready);
    }
}

void ack_soon(struct qp *qp)
{
    if (!linked(&qp->ack))
        list_append(&qp->card->acks[qp->config.queue], &qp->ack);
}

void cnp_soon(struct qp *qp)
{
    if (!linked(&qp->cnp))
        list_append(&qp->card->cnps, &qp->cnp);
}

/* What has waited for its rate. */
static void release(struct rnic *r)
{
    struct heap *heap = &r->heaps[HEAP_PACE];
    while (heap->n && heap->entries[0].time <= r->now) {
        struct qp *qp = heap->entries[0].qp;
        heap_remove(qp, HEAP_PACE);
        qp_update(qp);
    }
}

static int send_own(struct qp *qp, struct rnic_packet *packet)
{
    /* Own work and the peer's READs take turns. */
    int sent = qp->answer_turn ? responder_send(qp, packet) || requester_send(qp, packet)
                               : requester_send(qp, packet) || responder_send(qp, packet);
    qp->answer_turn = !qp->answer_turn;
    return sent;
}

static int from_queue(struct rnic *r, uint32_t q, struct rnic_packet *packet)
{
    if (q == r->config.cnp_queue && !list_empty(&r->cnps)) {
        struct qp *qp = FROM_LINK(r->cnps.next, struct qp, cnp);
        list_remove(&qp->cnp);
        packet_cnp(qp, packet);
        qp->stats.cnps_sent++;
        return 1;
    }
    while (!list_empty(&r->acks[q])) {
        struct qp *qp = FROM_LINK(r->acks[q].next, struct qp, ack);
        list_remove(&qp->ack);
        if (responder_ack(qp, packet))
            return 1;
    }
    while (!list_empty(&r->ready[q])) {
        struct qp *qp = FROM_LINK(r->ready[q].next, struct qp, ready);
        list_remove(&qp->ready);
        if (!send_own(qp, packet))
            continue;
        pace(qp, packet);
        qp_update(qp);
        return 1;
    }
    return 0;
}

int rnic_transmit(rnic *r, rnic_time now, struct rnic_packet *packet)
{
    if (now > r->now)
        r->now = now;
    release(r);
    for (uint32_t q = RNIC_QUEUES; q-- > 0;)
        if (!(r->paused >> q & 1) && from_queue(r, q, packet)) {
            r->stats.sent++;
            r->stats.sent_bytes += packet->header_length + packet->payload_length + packet->pad + RNIC_ICRC;
            return 1;
        }
    return 0;
}

static int has_something(const struct rnic *r, uint32_t q)
{
    return !(r->paused >> q & 1) &&
           (!list_empty(&r->ready[q]) || !list_empty(&r->acks[q]) || (q == r->config.cnp_queue && !list_empty(&r->cnps)));
}

int rnic_ready_queue(rnic *r, rnic_time now)
{
    if (now > r->now)
        r->now = now;
    release(r);
    for (uint32_t q = RNIC_QUEUES; q-- > 0;)
        if (has_something(r, q))
            return (int)q;
    return -1;
}

void rnic_set_pause(rnic *r, uint32_t mask) { r->paused = mask; }

rnic_time rnic_next_event(rnic *r)
{
    for (uint32_t q = 0; q < RNIC_QUEUES; q++)
        if (has_something(r, q))
            return r->now;
    rnic_time next = RNIC_NEVER;
    for (int h = 0; h < HEAPS; h++)
        if (r->heaps[h].n && r->heaps[h].entries[0].time < next)
            next = r->heaps[h].entries[0].time;
    return next;
}

void rnic_advance(rnic *r, rnic_time now)
{
    if (now > r->now)
        r->now = now;
    struct heap *heap = &r->heaps[HEAP_TIMER];
    while (heap->n && heap->entries[0].time <= r->now) {
        struct qp *qp = heap->entries[0].qp;
        heap_remove(qp, HEAP_TIMER);
        if (qp->deadline <= r->now) {
            requester_timeout(qp);
            qp_update(qp);
        } else if (qp->deadline != RNIC_NEVER) {
            timer_set(qp, qp->deadline);
        }
    }
}

/* --- receiving --------------------------------------------------------------------------------- */

static void take_cnp(struct qp *qp)
{
    struct cc_slot *slot = qp->slot;
    qp->stats.cnps_received++;
    if (!slot || !qp->config.slot_is_ours)
        return;
    slot->cnps++;
    if (slot->algorithm == CC_DCQCN) {
        const struct dcqcn_event cnp = {.kind = DCQCN_CNP};
        dcqcn_on_event(&slot->dcqcn, &cnp, nanoseconds(qp->card));
    }
}

static void dispatch(struct qp *qp, const struct inbound *in)
{
    if (in->opcode == OP_CNP) {
        take_cnp(qp);
        return;
    }
    if (in->opcode == OP_ACK) {
        requester_ack(qp, in);
        return;
    }
    qp->stats.marked += in->marked;
    if (qp->config.cnp_interval_ns != UINT64_MAX && dcqcn_np_packet(&qp->np, in->marked, nanoseconds(qp->card)))
        cnp_soon(qp);
    if (in->opcode >= OP_READ_FIRST)
        requester_response(qp, in);
    else
        responder_request(qp, in);
}

int rnic_receive(rnic *r, const uint8_t *frame, uint32_t length, uint32_t tail, rnic_time now)
{
    struct qp *qp = NULL;
    struct inbound in;
    if (now > r->now)
        r->now = now;
    switch (packet_parse(r, frame, length, tail, &qp, &in)) {
    case PARSE_OK:
        break;
    case PARSE_OTHER:
        r->stats.other++;
        return 0;
    case PARSE_UNKNOWN:
        r->stats.unknown_qp++;
        return 0;
    case PARSE_MALFORMED:
        r->stats.malformed++;
        return 0;
    case PARSE_ICRC:
        r->stats.bad_icrc++;
        return 0;
    }
    r->stats.received++;
    r->stats.received_bytes += length + tail;
    dispatch(qp, &in);
    qp_update(qp);
    return 1;
}

/* --- what happened ----------------------------------------------------------------------------- */

void rnic_stats_get(const rnic *r, struct rnic_stats *stats) { *stats = r->stats; }

int rnic_qp_stats_get(rnic *r, uint32_t qpn, rnic_time now, struct rnic_qp_stats *stats)
{
    struct qp *qp = qp_for_work(r, qpn);
    if (!qp)
        return RNIC_ENOENT;
    if (now > r->now)
        r->now = now;
    *stats = qp->stats;
    stats->state = qp->state;
    stats->failure = qp->failure;
    stats->outstanding = qp->sent - qp->una;
    /* On a copy: who looks changes nothing. */
    stats->rate_bps = rate_within(qp, qp->slot ? cc_rate_at(qp->slot, nanoseconds(r)) : 0);
    return RNIC_OK;
}

uint64_t rnic_next_psn(const rnic *r, uint32_t qpn)
{
    const struct qp *qp = qp_find(r, qpn);
    return qp ? qp->posted : 0;
}
