/* Owns whose turn it is: who has something to send, who waits for his rate, and what is due when. */
#include "card.h"

static const uint64_t BIT_PS = 8000000000000; /* of a byte at 1 bit/s */

/* --- heaps of queue pairs by time -------------------------------------------------------------- */

static int before(const struct heap_entry *a, const struct heap_entry *b)
{
    return a->time != b->time ? a->time < b->time : a->qp->config.qpn < b->qp->config.qpn;
}

static void heap_put(struct heap *heap, enum heap_kind kind, uint32_t at, struct heap_entry entry)
{
    heap->entries[at] = entry;
    if (!at)
        heap->first = entry.time;
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

void qp_heap_remove(struct qp *qp, enum heap_kind kind)
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

void planes_set(struct qp *qp, rnic_time at)
{
    const uint32_t place = qp->heap_at[HEAP_PLANES];
    if (place == NOT_IN_HEAP || qp->card->heaps[HEAP_PLANES].entries[place].time > at)
        heap_set(qp, HEAP_PLANES, at);
}

void gap_set(struct qp *qp, rnic_time at)
{
    if (qp->heap_at[HEAP_GAP] == NOT_IN_HEAP)
        heap_set(qp, HEAP_GAP, at);
}

/* --- who may send ------------------------------------------------------------------------------ */

#define ALWAYS inline __attribute__((always_inline)) /* what each packet passes, and others call, too */

/* `cc` by congestion control, 0: not limited; in all. 0: as fast as the line. */
static ALWAYS uint64_t rate_within(const struct qp *qp, uint64_t cc)
{
    uint64_t rate = qp->config.rate_bps;
    if (cc && (!rate || cc < rate))
        rate = cc;
    const uint64_t line = __builtin_expect(qp->spans, 0) ? ways_line_rate(qp) : qp->lane->config.line_rate_bps;
    return line && rate >= line ? 0 : rate;
}

uint64_t qp_rate_within(const struct qp *qp, uint64_t cc) { return rate_within(qp, cc); }

/* Applies what has elapsed to a slot of ours. */
static ALWAYS uint64_t qp_rate(struct qp *qp)
{
    struct cc_slot *slot = qp->slot;
    if (!slot)
        return rate_within(qp, 0);
    if (!qp->config.slot_is_ours)
        return rate_within(qp, cc_rate_at(slot, nanoseconds(qp->card)));
    return rate_within(qp, cc_elapse(slot, nanoseconds(qp->card)));
}

static ALWAYS uint64_t by_clock(const struct qp *qp, uint64_t rate)
{
    const int64_t ppb = qp->lane->config.clock_ppb;
    if (__builtin_expect(ppb == 0, 1))
        return rate;
    return rate + (uint64_t)(int64_t)((__int128)(int64_t)rate * ppb / 1000000000);
}

/* How long a packet takes at a rate > 0. */
static ALWAYS rnic_time time_of(const struct rnic_packet *packet, uint64_t rate)
{
    uint64_t bytes = packet->header_length + packet->payload_length + packet->pad + RNIC_ICRC + FRAME_GAP;
    if (bytes < FRAME_LEAST)
        bytes = FRAME_LEAST;
    return (rnic_time)((bytes * BIT_PS + rate - 1) / rate); /* never faster than the rate */
}

static ALWAYS void pace(struct qp *qp, const struct rnic_packet *packet, uint64_t rate)
{
    struct rnic *r = qp->card;
    if (!rate) {
        qp->allowed = r->now;
        return;
    }
    if (qp->allowed < r->now - r->config.pace_slack_ps)
        qp->allowed = r->now - r->config.pace_slack_ps;
    qp->allowed += time_of(packet, rate);
}

void qp_pace(struct qp *qp, const struct rnic_packet *packet) { pace(qp, packet, by_clock(qp, qp_rate(qp))); }

void qp_pace_plane(struct qp *qp, uint32_t plane, const struct rnic_packet *packet)
{
    const uint64_t rate = by_clock(qp, planes_rate(&qp->planes[plane]));
    planes_sent(qp, plane, packet, rate ? time_of(packet, rate) : 0);
    pace(qp, packet, by_clock(qp, rate_within(qp, 0))); /* what all of them may send together */
}

void qp_unlist(struct qp *qp)
{
    if (linked(&qp->ready))
        list_remove(&qp->ready);
    if (__builtin_expect(qp->spans, 0))
        ways_unlist(qp);
    qp_heap_remove(qp, HEAP_PACE);
}

/* It has nothing to send until its window opens: by an acknowledgement, which comes through here again, or by time alone. */
static void wait_for_window(struct qp *qp)
{
    const rnic_time opens = requester_is_held(qp) ? window_opens(qp) : tail_probe_at(qp);
    if (opens == RNIC_NEVER)
        return;
    heap_set(qp, HEAP_PACE, opens);
    qp->wants |= WAITS_FOR_WINDOW;
}

/* As qp_update for a queue pair with planes, which has something to send: some planes may, others later, by their rates. */
static void update_planes(struct qp *qp)
{
    struct rnic *r = qp->card;
    int now = 0;
    rnic_time next = planes_allow(qp, &now);
    if (qp->allowed > r->now) {
        now = 0;
        next = qp->allowed;
    }
    if (now) {
        ways_list(qp);
        r->changes++;
    } else {
        ways_unlist(qp);
    }
    if (next == RNIC_NEVER)
        qp_heap_remove(qp, HEAP_PACE);
    else
        heap_set(qp, HEAP_PACE, next);
}

/* The same of any queue pair of several interfaces. */
static __attribute__((noinline)) void update_ways(struct qp *qp, int was_idle)
{
    if (qp->planes) {
        if (was_idle)
            planes_have_been_idle(qp);
        update_planes(qp);
    } else if (qp->allowed > qp->card->now) {
        if (linked(&qp->ready))
            list_remove(&qp->ready);
        ways_unlist(qp);
        if (qp->heap_at[HEAP_PACE] == NOT_IN_HEAP)
            heap_set(qp, HEAP_PACE, qp->allowed);
    } else {
        qp_heap_remove(qp, HEAP_PACE);
        ways_list(qp);
    }
}

void qp_update(struct qp *qp)
{
    struct rnic *r = qp->card;
    if (!responder_wants(qp) && !requester_wants(qp)) {
        qp_unlist(qp);
        qp->idle = 1;
        if (qp->wants & CC_WINDOW)
            wait_for_window(qp);
        return;
    }
    if (qp->wants & WAITS_FOR_WINDOW) {
        qp_heap_remove(qp, HEAP_PACE);
        qp->wants &= (uint8_t)~WAITS_FOR_WINDOW;
    }
    const int was_idle = qp->idle;
    if (was_idle && qp->allowed < r->now)
        qp->allowed = r->now; /* credit is for lateness, not for having had nothing to send */
    qp->idle = 0;
    if (__builtin_expect(qp->spans, 0)) {
        update_ways(qp, was_idle);
    } else if (qp->allowed > r->now) {
        if (linked(&qp->ready))
            list_remove(&qp->ready);
        if (qp->heap_at[HEAP_PACE] == NOT_IN_HEAP)
            heap_set(qp, HEAP_PACE, qp->allowed);
    } else if (!linked(&qp->ready)) {
        struct lane *lane = qp->lane;
        qp_heap_remove(qp, HEAP_PACE);
        list_append(&lane->ready[qp->config.queue], &qp->ready);
        lane->waiting |= 1u << qp->config.queue;
    }
}

void ack_soon(struct qp *qp)
{
    struct lane *lane = qp->lane;
    if (__builtin_expect(qp->spans, 0))
        lane = ways_answer(qp, &qp->ack, &qp->ways->ack_lane, ack_queue(qp));
    if (lane && !linked(&qp->ack)) {
        list_append(&lane->acks[ack_queue(qp)], &qp->ack);
        lane->waiting |= 1u << ack_queue(qp);
    }
}

void cnp_soon(struct qp *qp)
{
    const uint32_t q = qp->card->config.cnp_queue;
    struct lane *lane = qp->lane;
    if (__builtin_expect(qp->spans, 0))
        lane = ways_answer(qp, &qp->cnp, &qp->ways->cnp_lane, q);
    if (lane && !linked(&qp->cnp)) {
        list_append(&lane->cnps, &qp->cnp);
        lane->waiting |= 1u << q;
    }
}

/* What has waited for its rate. */
static void release(struct rnic *r)
{
    struct heap *heap = &r->heaps[HEAP_PACE];
    while (heap->n && heap->first <= r->now) {
        struct qp *qp = heap->entries[0].qp;
        qp_heap_remove(qp, HEAP_PACE);
        qp_update(qp);
    }
}

static ALWAYS int send_own(struct qp *qp, struct rnic_packet *packet)
{
    /* Own work and the peer's READs take turns. */
    int sent = qp->answer_turn ? responder_send(qp, packet) || requester_send(qp, packet)
                               : requester_send(qp, packet) || responder_send(qp, packet);
    qp->answer_turn = !qp->answer_turn;
    return sent;
}

int qp_answers_next(struct qp *qp) { return responder_wants(qp) && (qp->answer_turn || !requester_wants(qp)); }

int qp_send(struct qp *qp, struct rnic_packet *packet) { return send_own(qp, packet); }

static uint32_t highest(uint32_t bits) { return 31u - (uint32_t)__builtin_clz(bits); }

/* Queue pairs of several interfaces have something for this line in a queue. */
static int ways_ready(const struct rnic *r, const struct lane *lane, uint32_t q)
{
    return !list_empty(&lane->ways[q]) && lane->asleep != r->changes;
}

/* `several`: the card has several interfaces. */
static ALWAYS int from_queue(struct rnic *r, struct lane *lane, uint32_t q, struct rnic_packet *packet, const int several)
{
    if (q == r->config.cnp_queue && !list_empty(&lane->cnps)) {
        struct qp *qp = FROM_LINK(lane->cnps.next, struct qp, cnp);
        list_remove(&qp->cnp);
        packet_cnp(qp, packet);
        if (several && qp->spans)
            ways_address(qp, lane, packet);
        qp->stats.cnps_sent++;
        return 1;
    }
answers:
    while (!list_empty(&lane->acks[q])) {
        struct qp *qp = FROM_LINK(lane->acks[q].next, struct qp, ack);
        list_remove(&qp->ack);
        if (!responder_ack(qp, packet))
            continue;
        if (several && qp->spans)
            ways_address(qp, lane, packet);
        if (several && qp->planes) {
            planes_acknowledging(qp, lane);
            planes_return(qp, lane, packet);
        }
        return 1;
    }
    if (several && !list_empty(&lane->spoken[q]) && planes_from(lane, q, packet)) /* answers to probes come behind acknowledgements */
        return 1;
    if (several && lane->ways_turn && ways_ready(r, lane, q) && ways_from(r, lane, q, packet)) {
        lane->ways_turn = 0;
        return 1;
    }
    while (!list_empty(&lane->ready[q])) {
        struct qp *qp = FROM_LINK(lane->ready[q].next, struct qp, ready);
        list_remove(&qp->ready);
        if (!(__builtin_expect(qp->many_paths, 0) ? ways_send_one(qp, packet) : send_own(qp, packet))) {
            if (!list_empty(&lane->acks[q])) /* it has failed meanwhile, and says so (in a class of their own they come at their turn) */
                goto answers;
            continue;
        }
        qp_pace(qp, packet);
        qp_update(qp);
        if (several)
            lane->ways_turn = 1;
        return 1;
    }
    return several && ways_ready(r, lane, q) && ways_from(r, lane, q, packet);
}

static __attribute__((noinline)) int from_queue_of_several(struct rnic *r, struct lane *lane, uint32_t q, struct rnic_packet *packet)
{
    return from_queue(r, lane, q, packet, 1);
}

static __attribute__((noinline)) int transmit(struct rnic *r, struct lane *lane, rnic_time now, struct rnic_packet *packet)
{
    if (now > r->now)
        r->now = now;
    release(r);
    for (uint32_t left = lane->waiting & ~lane->paused, q; left; left &= ~(1u << q)) {
        q = highest(left);
        if (__builtin_expect(r->interfaces > 1, 0) ? from_queue_of_several(r, lane, q, packet) : from_queue(r, lane, q, packet, 0)) {
            r->stats.sent++;
            r->stats.sent_bytes += packet->header_length + packet->payload_length + packet->pad + RNIC_ICRC;
            return 1;
        }
    }
    return 0;
}

int rnic_transmit(rnic *r, rnic_time now, struct rnic_packet *packet)
{
    return __builtin_expect(r->interfaces > 1, 0) ? rnic_transmit_on(r, 0, now, packet) : transmit(r, &r->first, now, packet);
}

int rnic_transmit_on(rnic *r, uint32_t interface, rnic_time now, struct rnic_packet *packet)
{
    const int sent = transmit(r, r->lanes[interface], now, packet);
    if (sent)
        r->changes++;
    else
        r->lanes[interface]->asleep = r->changes;
    return sent;
}

/* The highest queue that has something to send and is not paused; -1: none. */
static int ready_queue(struct rnic *r, struct lane *lane)
{
    for (uint32_t left = lane->waiting & ~lane->paused, q; left; left &= ~(1u << q)) {
        q = highest(left);
        if (!list_empty(&lane->ready[q]) || !list_empty(&lane->acks[q]) || (q == r->config.cnp_queue && !list_empty(&lane->cnps)) ||
            !list_empty(&lane->spoken[q]) || ways_ready(r, lane, q))
            return (int)q;
        if (list_empty(&lane->ways[q]))
            lane->waiting &= ~(1u << q);
    }
    return -1;
}

static ALWAYS int ready_queue_at(struct rnic *r, struct lane *lane, rnic_time now)
{
    if (now > r->now)
        r->now = now;
    release(r);
    return ready_queue(r, lane);
}

int rnic_ready_queue(rnic *r, rnic_time now) { return ready_queue_at(r, &r->first, now); }

int rnic_ready_queue_on(rnic *r, uint32_t interface, rnic_time now) { return ready_queue_at(r, r->lanes[interface], now); }

void rnic_set_pause(rnic *r, uint32_t mask)
{
    if (r->first.pauses != mask)
        rnic_set_pause_on(r, 0, mask);
}

void rnic_set_pause_on(rnic *r, uint32_t interface, uint32_t mask)
{
    struct lane *lane = r->lanes[interface];
    if (lane->pauses == mask)
        return;
    lane->pauses = mask;
    lane_may_send(r, lane);
}

void lane_may_send(struct rnic *r, struct lane *lane)
{
    lane->paused = lane->up ? lane->pauses : UINT32_MAX;
    r->changes++;
    for (uint32_t i = 0; r->interfaces > 1 && i < r->interfaces; i++)
        ways_answer_elsewhere(r->lanes[i]);
}

static __attribute__((noinline)) rnic_time next_event(struct rnic *r, struct lane *lane)
{
    if (ready_queue(r, lane) >= 0)
        return r->now;
    rnic_time next = RNIC_NEVER;
    const int heaps = __builtin_expect(r->interfaces > 1, 0) ? HEAPS : HEAP_PLANES; /* the last one is of those with several alone */
    for (int h = 0; h < heaps; h++)
        if (r->heaps[h].n && r->heaps[h].first < next)
            next = r->heaps[h].first;
    return next;
}

rnic_time rnic_next_event(rnic *r) { return next_event(r, &r->first); }

rnic_time rnic_next_event_on(rnic *r, uint32_t interface) { return next_event(r, r->lanes[interface]); }

void rnic_advance(rnic *r, rnic_time now)
{
    if (now > r->now)
        r->now = now;
    struct heap *heap = &r->heaps[HEAP_TIMER];
    while (heap->n && heap->first <= r->now) {
        struct qp *qp = heap->entries[0].qp;
        qp_heap_remove(qp, HEAP_TIMER);
        if (qp->deadline <= r->now) {
            requester_timeout(qp);
            qp_update(qp);
        } else if (qp->deadline != RNIC_NEVER) {
            timer_set(qp, qp->deadline);
        }
    }
    heap = &r->heaps[HEAP_GAP];
    while (heap->n && heap->first <= r->now) {
        struct qp *qp = heap->entries[0].qp;
        qp_heap_remove(qp, HEAP_GAP);
        responder_gap(qp);
        requester_gap(qp);
    }
    if (__builtin_expect(r->interfaces == 1, 1))
        return;
    heap = &r->heaps[HEAP_PLANES];
    while (heap->n && heap->first <= r->now) {
        struct qp *qp = heap->entries[0].qp;
        qp_heap_remove(qp, HEAP_PLANES);
        (qp->planes ? planes_due : migration_due)(qp);
    }
}
