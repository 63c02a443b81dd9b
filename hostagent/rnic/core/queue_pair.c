/* Owns queue pairs: how they are made, joined and ended, and the work that they are given. */
#include <stdlib.h>
#include <string.h>

#include "card.h"

enum { READS_MOST = 16, RINGS_FIRST = 8, DEPTH_MOST = 1 << 24 };
static const uint64_t LENGTH_MOST = (uint64_t)1 << 31;
static const rnic_time TIME_MOST = (rnic_time)1 << 60;

static struct early_ring *ring_of(struct early *slots)
{
    return (struct early_ring *)((char *)slots - offsetof(struct early_ring, slots));
}

void qp_free(struct qp *qp)
{
    free(qp->works);
    free(qp->receives);
    free(qp->answers);
    free(qp->arrived);
    if (qp->early)
        free(ring_of(qp->early));
    free(qp->early_bytes);
    free(qp->responded);
    free(qp->collected);
    free(qp->path_seen);
    feedback_end(qp);
    planes_free(qp);
    free(qp->migration);
    ways_free(qp);
    if (qp->config.slot != qp->slot)
        free(qp->slot);
    free(qp);
}

/* --- queue pairs ------------------------------------------------------------------------------- */

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

static int ports_fit(const struct rnic_qp_config *c, uint32_t first) { return c->udp_ports <= 1 || first + c->udp_ports <= 65536; }

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
    if (c->repeat > RNIC_SELECTIVE || c->queue >= RNIC_QUEUES || c->dscp > 63 || c->ack_queue >= RNIC_QUEUES || c->ack_dscp > 63)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: retransmission, queue or DSCP out of range", c->qpn);
    if (c->window_packets > window_most)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: a window of %u packets, at most %u", c->qpn, c->window_packets, window_most);
    if (c->reorder_ps < 0 || c->reorder_ps > TIME_MOST)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: reordering out of range", c->qpn);
    if (c->timeout_ps <= 0 || c->timeout_ps > TIME_MOST || c->rnr_timer_ps < 0)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: time-out out of range", c->qpn);
    if (!ports_fit(c, c->udp_port))
        return card_fail(r, RNIC_EINVAL, "queue pair %u: UDP ports end at 65535", c->qpn);
    const uint32_t interfaces = c->interfaces ? c->interfaces : 1;
    if (c->interface >= r->interfaces || interfaces > r->interfaces - c->interface)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: interfaces %u to %u, but the card has %u", c->qpn, c->interface,
                         c->interface + interfaces - 1, r->interfaces);
    if (interfaces > 1 && interfaces * (c->udp_ports ? c->udp_ports : 1u) > RNIC_PATHS)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: %u interfaces by %u UDP ports, at most %d paths", c->qpn, interfaces,
                         c->udp_ports, RNIC_PATHS);
    const struct path_config path = path_config_of(c);
    const char *path_wrong = path_invalid(&path);
    if (path_wrong)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: choice of paths: %s", c->qpn, path_wrong);
    const struct rnic_plane_config *planes = &c->planes;
    if (planes->use > RNIC_PLANES_SINGLE)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: there is no use %u of planes", c->qpn, planes->use);
    if (planes->use == RNIC_PLANES_SINGLE && interfaces < 2)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: path migration needs two interfaces at least", c->qpn);
    if (planes->use == RNIC_PLANES_SINGLE && planes->first >= interfaces && planes->first != RNIC_FIRST_TURN && planes->first != RNIC_FIRST_HASH)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: path migration begins with interface %u of %u", c->qpn, planes->first, interfaces);
    if (planes->use == RNIC_PLANES_SINGLE && planes->tries > (uint64_t)c->retries + 1)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: path migration after %u time-outs, but with %u it has failed", c->qpn, planes->tries,
                         c->retries + 1);
    if (planes->use == RNIC_PLANES_SINGLE && (planes->switch_ps < 0 || planes->switch_ps > TIME_MOST || planes->return_ps < 0 ||
                                              planes->return_ps > TIME_MOST))
        return card_fail(r, RNIC_EINVAL, "queue pair %u: delay or return of path migration out of range", c->qpn);
    if (planes->use == RNIC_PLANES_SHARED && (c->repeat != RNIC_SELECTIVE || interfaces < 2))
        return card_fail(r, RNIC_EINVAL, "queue pair %u: planes need selective repeat and two interfaces at least", c->qpn);
    if (planes->use == RNIC_PLANES_SHARED && (planes->silence_ps <= 0 || planes->silence_ps > TIME_MOST || planes->probe_ps <= 0 ||
                                              planes->probe_ps > TIME_MOST || !planes->misses || planes->misses > UINT8_MAX))
        return card_fail(r, RNIC_EINVAL, "queue pair %u: silence, probes or misses of planes out of range", c->qpn);
    if (path.kind && (c->repeat != RNIC_SELECTIVE || interfaces > 1))
        return card_fail(r, RNIC_EINVAL, "queue pair %u: a choice of paths needs selective repeat and one interface", c->qpn);
    if (c->max_reads > 1024 || c->first_psn > PSN_MASK || c->send_depth > DEPTH_MOST)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: READs at once, first PSN or depth out of range", c->qpn);
    return RNIC_OK;
}

static int check_cc(struct rnic *r, const struct rnic_qp_config *c, const struct cc_params *cc)
{
    const char *which, *why = cc ? cc_invalid(cc, &which) : NULL;
    if (why)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: %s: %s", c->qpn, which, why);
    const struct cc_slot *slot = c->planes.use == RNIC_PLANES_SHARED ? c->plane_slots[0] : c->slot;
    const uint32_t wants = cc_wants(slot ? slot->algorithms : cc ? cc->algorithms : 0);
    if (wants & CC_PLANES && c->planes.use != RNIC_PLANES_SHARED)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: its congestion control decides on planes, and it has none", c->qpn);
    if (wants & CC_GRANTS && c->planes.use == RNIC_PLANES_SHARED)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: over planes no congestion control can ask switches for more", c->qpn);
    if (wants & CC_RTT && c->planes.use == RNIC_PLANES_SHARED && slot && !c->plane_sent[0])
        return card_fail(r, RNIC_EINVAL, "queue pair %u: over planes round trips need each plane's cc_sent", c->qpn);
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

static int add_slot(struct qp *qp, const struct cc_params *cc)
{
    qp->slot = qp->config.slot;
    if (qp->slot || !cc || !cc->algorithms)
        return 1;
    qp->slot = calloc(1, sizeof *qp->slot);
    if (!qp->slot)
        return 0;
    qp->config.slot_is_ours = 1;
    qp->slot->qpn = qp->config.qpn;
    cc_begin(qp->slot, cc, nanoseconds(qp->card));
    return 1;
}

int rnic_add_qp(rnic *r, const struct rnic_qp_config *config, const struct cc_params *cc)
{
    int status = check(r, config);
    if (!status)
        status = check_cc(r, config, cc);
    if (status)
        return status;
    struct qp *qp = calloc(1, sizeof *qp);
    if (!qp || !lookup_grow(r, 1) || !heaps_grow(r)) {
        free(qp);
        return card_fail(r, RNIC_ENOMEM, "no memory for a queue pair");
    }
    qp->card = r;
    qp->config = *config;
    struct rnic_qp_config *c = &qp->config;
    qp->lane = r->lanes[c->interface];
    qp->came_by = (uint8_t)c->interface;
    if (!c->window_packets)
        c->window_packets = c->repeat == RNIC_SELECTIVE ? WINDOW_SELECTIVE : WINDOW_MOST;
    if (!c->ack_every)
        c->ack_every = 1;
    if (!c->max_reads)
        c->max_reads = READS_MOST;
    qp->rnr_code = rnr_code(c->rnr_timer_ps);
    for (int h = 0; h < HEAPS; h++)
        qp->heap_at[h] = NOT_IN_HEAP;
    qp->deadline = RNIC_NEVER;
    qp->response_waits = UINT64_MAX;
    qp->una = qp->next = qp->sent = qp->posted = qp->peer_expected = c->first_psn;
    qp->told.interval_ns = c->cnp_interval_ns;
    qp->answers_size = c->max_reads;
    qp->answers = malloc(c->max_reads * sizeof *qp->answers);
    const int shared = c->planes.use == RNIC_PLANES_SHARED;
    if (!qp->answers || !(shared ? planes_add_slots(qp, cc) : add_slot(qp, cc)) || !feedback_begin(qp) || (c->repeat == RNIC_SELECTIVE && !add_early(qp)) ||
        !ways_begin(qp) || (shared && !planes_begin(qp)) || (c->planes.use == RNIC_PLANES_SINGLE && !migration_begin(qp))) {
        qp_free(qp);
        return card_fail(r, RNIC_ENOMEM, "no memory for a queue pair");
    }
    r->qps++;
    lookup_add(qp);
    return RNIC_OK;
}

int rnic_connect(rnic *r, uint32_t qpn, uint32_t peer_ip, uint64_t peer_mac, uint32_t peer_qpn, uint32_t peer_psn)
{
    return rnic_connect_ways(r, qpn, &(struct rnic_address){.mac = peer_mac, .ip = peer_ip}, 1, peer_qpn, peer_psn);
}

int rnic_connect_ways(rnic *r, uint32_t qpn, const struct rnic_address *peers, uint32_t n, uint32_t peer_qpn, uint32_t peer_psn)
{
    struct qp *qp = qp_find(r, qpn);
    if (!qp)
        return card_fail(r, RNIC_ENOENT, "there is no queue pair %u", qpn);
    if (qp->state != RNIC_RESET)
        return card_fail(r, RNIC_ESTATE, "queue pair %u is connected", qpn);
    if (!peer_qpn || peer_qpn > RNIC_QPN_MAX || peer_psn > PSN_MASK)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: the peer's number or PSN is out of range", qpn);
    const uint32_t interfaces = qp->spans ? qp->ways->n : 1;
    if (n != interfaces)
        return card_fail(r, RNIC_EINVAL, "queue pair %u has %u interfaces, its peer %u", qpn, interfaces, n);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (peers[i].ip == peers[j].ip)
                return card_fail(r, RNIC_EINVAL, "queue pair %u: two of the peer's interfaces have one address", qpn);
    if (n > 1 && !lookup_grow(r, n - 1))
        return card_fail(r, RNIC_ENOMEM, "no memory for a peer of several interfaces");
    r->more_peers += n - 1;
    qp->peer_ip = peers[0].ip;
    qp->peer_qpn = peer_qpn;
    qp->expected = peer_psn;
    qp->state = RNIC_READY;
    header_prepare(qp, peers[0].mac);
    if (qp->spans)
        ways_connect(qp, peers);
    if (qp->migration)
        migration_connected(qp);
    lookup_join(qp);
    return RNIC_OK;
}

int rnic_set_udp_port(rnic *r, uint32_t qpn, uint16_t udp_port)
{
    struct qp *qp = qp_find(r, qpn);
    if (!qp)
        return card_fail(r, RNIC_ENOENT, "there is no queue pair %u", qpn);
    if (!udp_port || !ports_fit(&qp->config, udp_port))
        return card_fail(r, RNIC_EINVAL, "queue pair %u: %u UDP ports from %u on do not fit 1 to 65535", qpn,
                         qp->config.udp_ports > 1 ? qp->config.udp_ports : 1, udp_port);
    qp->config.udp_port = udp_port;
    return RNIC_OK;
}

int rnic_remove_qp(rnic *r, uint32_t qpn)
{
    struct qp *qp = qp_find(r, qpn);
    if (!qp)
        return card_fail(r, RNIC_ENOENT, "there is no queue pair %u", qpn);
    qp_unlist(qp);
    if (qp->spans)
        ways_drop(qp);
    if (qp->planes)
        planes_stop(qp);
    if (qp->migration)
        migration_stop(qp);
    if (qp->spans && qp->state != RNIC_RESET)
        r->more_peers -= qp->ways->n - 1;
    qp_heap_remove(qp, HEAP_TIMER);
    qp_heap_remove(qp, HEAP_GAP);
    if (linked(&qp->ack))
        list_remove(&qp->ack);
    if (linked(&qp->cnp))
        list_remove(&qp->cnp);
    lookup_remove(qp);
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
    qp_unlist(qp);
    if (qp->spans)
        ways_drop(qp);
    if (qp->planes)
        planes_stop(qp);
    if (qp->migration)
        migration_stop(qp);
    qp->syndrome = qp->fatal = syndrome;
    if (syndrome)
        ack_soon(qp);
}

/* --- work -------------------------------------------------------------------------------------- */

struct qp *qp_for_work(struct rnic *r, uint32_t qpn)
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
    if (qp->many_paths && !ways_remember(qp, packets))
        return card_fail(r, RNIC_ENOMEM, "no memory for the paths of packets");
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
