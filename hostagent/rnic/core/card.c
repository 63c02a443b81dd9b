/* Owns the card: memory regions, events, and what comes in. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "card.h"
#include "notifications.h"

enum { RINGS_FIRST = 8, EVENTS_FIRST = 64 };
int card_fail(struct rnic *r, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->error, sizeof r->error, format, arguments);
    va_end(arguments);
    return status;
}

const char *rnic_error(const rnic *r) { return r->error; }

static void lane_begin(struct lane *lane, const struct rnic_interface *config)
{
    lane->config = *config;
    lane->up = 1;
    for (int q = 0; q < RNIC_QUEUES; q++) {
        list_init(&lane->ready[q]);
        list_init(&lane->acks[q]);
        list_init(&lane->ways[q]);
        list_init(&lane->spoken[q]);
    }
    list_init(&lane->cnps);
    list_init(&lane->members);
}

rnic *rnic_create(const struct rnic_config *config)
{
    if (config->cnp_dscp > 63 || config->cnp_queue >= RNIC_QUEUES)
        return NULL;
    struct rnic *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->config = *config;
    r->wanted = UINT32_MAX;
    r->interfaces = 1;
    r->changes = 1;
    r->lanes[0] = &r->first;
    lane_begin(&r->first, &(struct rnic_interface){.mac = config->mac,
                                                   .gateway_mac = config->gateway_mac,
                                                   .line_rate_bps = config->line_rate_bps,
                                                   .clock_ppb = config->clock_ppb,
                                                   .ip = config->ip});
    return r;
}

int rnic_add_interface(rnic *r, const struct rnic_interface *interface)
{
    if (r->interfaces == RNIC_INTERFACES)
        return card_fail(r, RNIC_EFULL, "a card has at most %d interfaces", RNIC_INTERFACES);
    if (r->qps)
        return card_fail(r, RNIC_ESTATE, "interfaces are added before queue pairs");
    for (uint32_t i = 0; i < r->interfaces; i++)
        if (r->lanes[i]->config.ip == interface->ip)
            return card_fail(r, RNIC_EEXIST, "two interfaces have one address");
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return card_fail(r, RNIC_ENOMEM, "no memory for an interface");
    lane_begin(lane, interface);
    r->lanes[r->interfaces] = lane;
    return (int)r->interfaces++;
}

void rnic_destroy(rnic *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->numbers && i <= r->table_mask; i++)
        if (r->numbers[i])
            qp_free((struct qp *)r->numbers[i]);
    while (r->spare) {
        struct early_ring *next = r->spare->next;
        free(r->spare);
        r->spare = next;
    }
    free(r->numbers);
    free(r->peers);
    free(r->regions);
    free(r->events);
    notifications_free(r->notified);
    for (int h = 0; h < HEAPS; h++)
        free(r->heaps[h].entries);
    for (uint32_t i = 1; i < r->interfaces; i++)
        free(r->lanes[i]);
    free(r);
}

int rnic_configure_interface(rnic *r, uint32_t interface, const struct rnic_interface *config)
{
    if (interface >= r->interfaces)
        return card_fail(r, RNIC_ENOENT, "there is no interface %u", interface);
    r->lanes[interface]->config = *config;
    return RNIC_OK;
}

int rnic_configure(rnic *r, const struct rnic_config *config)
{
    r->config.pace_slack_ps = config->pace_slack_ps;
    return rnic_configure_interface(r, 0, &(struct rnic_interface){.mac = config->mac,
                                                                   .gateway_mac = config->gateway_mac,
                                                                   .line_rate_bps = config->line_rate_bps,
                                                                   .clock_ppb = config->clock_ppb,
                                                                   .ip = config->ip});
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
            ways_withdraw(r);
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

/* --- receiving --------------------------------------------------------------------------------- */

static void take_cnp(struct qp *qp, const struct inbound *in)
{
    const int notified = in->notified != 0;
    const struct cc_event event = {
        .kind = (uint8_t)(notified ? in->notified : CC_CNP),
        .severity = (uint8_t)in->severity,
        .validity = (uint8_t)in->validity,
        .number = in->origin,
        .rate = in->rate,
        .rtt_ns = in->names_packet ? feedback_since(qp, in->psn) : 0,
        .drains_ns = in->drains_ns,
    };
    /* A CNP comes by the plane that is congested: a receiver's by which the marked packet came, and a switch's by its own. */
    struct cc_slot *slot = qp->planes ? qp->planes[qp->card->arriving - qp->config.interface].slot : qp->slot;
    qp->stats.cnps_received += !notified;
    qp->stats.notified_received += notified;
    if (!slot || !qp->config.slot_is_ours)
        return;
    slot->cnps += !notified;
    slot->notified += notified;
    cc_on_event(slot, &event, NULL, nanoseconds(qp->card));
}

static void dispatch(struct qp *qp, const struct inbound *in)
{
    if (in->opcode == OP_CNP) {
        take_cnp(qp, in);
        return;
    }
    if (in->opcode == OP_ACK) {
        requester_ack(qp, in);
        return;
    }
    if (in->opcode >= OP_PROBE) {
        if (qp->planes)
            (in->opcode == OP_PROBE ? planes_probed : planes_answered)(qp, in);
        else
            (in->opcode == OP_PROBE ? migration_probed : migration_answered)(qp, in);
        return;
    }
    qp->stats.marked += in->marked;
    if (__builtin_expect(qp->planes != NULL, 0))
        planes_mark(qp, in);
    else if (qp->config.cnp_interval_ns != UINT64_MAX && cnp_due(&qp->told, in->marked, nanoseconds(qp->card)))
        cnp_soon(qp);
    if (in->opcode >= OP_READ_FIRST) {
        requester_response(qp, in);
        return;
    }
    if (in->telemetry)
        feedback_collect(qp);
    if (__builtin_expect(qp->sender != NULL, 0))
        ways_arrived(qp, in);
    responder_request(qp, in);
}

/* What is behind a notification's header, from a frame that has been taken; NULL: fewer than `bytes`. */
static const uint8_t *body_of(const uint8_t *frame, uint32_t length, uint32_t bytes)
{
    const uint8_t *udp = frame + ETHERNET + IPV4;
    const uint32_t before = UDP + WEFT_NOTIFICATION_BYTES, said = (uint32_t)udp[4] << 8 | udp[5];
    return said >= before + bytes && length >= ETHERNET + IPV4 + before + bytes ? udp + before : NULL;
}

/* A notification of a queue, in a datagram whose body names the packet that met it, if `body` is there. */
static void inbound_queued(struct inbound *in, const struct weft_notification *said, const uint8_t *body)
{
    in->notified = CC_QUEUED;
    in->origin = (uint32_t)said->switch_id << 16 | said->port;
    in->drains_ns = weft_notification_drains_ns(said);
    in->names_packet = body != NULL;
    if (body)
        in->psn = bytes_get24(body);
}

/* What is no RoCEv2: a switch's notification in a datagram, or nothing for us. One of congestion does what it does in a CNP. */
static int receive_other(struct rnic *r, const uint8_t *frame, uint32_t length, uint32_t tail)
{
    struct weft_notification said;
    struct lane *lane = r->lanes[r->arriving];
    const enum notified kind = notifications_take(&r->notified, lane->config.ip, frame, length, tail, r->now, &said);
    r->stats.other += kind == NOTIFIED_OTHER;
    if (kind == NOTIFIED_TAKEN && said.type == WEFT_NOTIFICATION_LINK_DOWN && !said.destination_qp)
        planes_told(lane, said.destination);
    if (kind != NOTIFIED_TAKEN || (said.type != WEFT_NOTIFICATION_CONGESTION && said.type != WEFT_NOTIFICATION_QUEUE))
        return 0;
    struct qp *qp = qp_of_peer(r, said.destination, said.destination_qp);
    if (!qp) {
        notifications_no_qp(r->notified);
        return 0;
    }
    const uint32_t event = said.type == WEFT_NOTIFICATION_QUEUE ? CC_QUEUED : CC_NOTIFIED;
    if (!qp->slot || !(qp->slot->algorithms & cc_hearers(event)))
        return 0;
    struct inbound in = {.opcode = OP_CNP};
    if (event == CC_QUEUED)
        inbound_queued(&in, &said, body_of(frame, length, WEFT_NOTIFICATION_PACKET_BYTES));
    else
        inbound_notified(&in, &said);
    r->stats.received++;
    r->stats.received_bytes += length + tail;
    take_cnp(qp, &in);
    qp_update(qp);
    return 1;
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
        return receive_other(r, frame, length, tail);
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
    if (__builtin_expect(qp->spans, 0)) {
        qp->came_by = (uint8_t)r->arriving;
        r->changes++;
        if (qp->planes && in.opcode == OP_ACK)
            planes_heard(qp, r->arriving);
        if (qp->migration)
            migration_hear(qp, in.opcode, packet_migrated(frame));
    }
    dispatch(qp, &in);
    qp_update(qp);
    return 1;
}

int rnic_receive_on(rnic *r, uint32_t interface, const uint8_t *frame, uint32_t length, uint32_t tail, rnic_time now)
{
    r->arriving = interface;
    const int taken = rnic_receive(r, frame, length, tail, now);
    r->arriving = 0;
    return taken;
}

/* --- what happened ----------------------------------------------------------------------------- */

size_t rnic_notifications(const rnic *r, struct rnic_notification *rows, size_t max)
{
    return notifications_rows(r->notified, rows, max);
}

void rnic_notification_counts_get(const rnic *r, struct rnic_notification_counts *counts)
{
    notifications_counts(r->notified, counts);
}

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
    const uint64_t cut = qp->slot ? qp->slot->first_cut_at : 0;
    stats->first_cut_at = cut ? (rnic_time)(cut - r->config.cc_base_ns) * 1000 : -1;
    /* On a copy: who looks changes nothing. */
    const uint64_t rate = qp->planes ? planes_rates(qp) : qp->slot ? cc_rate_at(qp->slot, nanoseconds(r)) : 0;
    stats->rate_bps = qp_rate_within(qp, rate);
    return RNIC_OK;
}

const struct cc_slot *rnic_qp_slot(const rnic *r, uint32_t qpn)
{
    const struct qp *qp = qp_find(r, qpn);
    return qp ? qp->slot : NULL;
}

uint64_t rnic_next_psn(const rnic *r, uint32_t qpn)
{
    const struct qp *qp = qp_find(r, qpn);
    return qp ? qp->posted : 0;
}
