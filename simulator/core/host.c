/* Hosts: owns network cards, the queue pairs on them, and the frames that they make and take.
 *
 * A card sends frames of scripts first, then the highest queue that is not paused; flows of a queue take turns, a packet
 * each. Packets are made when they are sent.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "switch.h"

enum {
    WORK_SLAB = 1024,
    PFC_FRAME = 34,      /* bytes up to the last class's time */
    PFC_QUANTUM_BITS = 512,
    SEND_FIRST = 0,
    SEND_MIDDLE = 1,
    SEND_LAST = 2,
    SEND_ONLY = 4,
    PSN_MASK = 0xffffff,
    ECT0 = 2,
    CE = 3,
    TTL = 64,
};
static const uint64_t PS_PER_S = 1000000000000;

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}
static void put24(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 16);
    put16(at + 1, value);
}
static void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value);
}
static void put48(uint8_t *at, uint64_t value)
{
    put16(at, (uint32_t)(value >> 32));
    put32(at + 2, (uint32_t)value);
}
static uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }
static uint32_t get24(const uint8_t *at) { return (uint32_t)at[0] << 16 | get16(at + 1); }

static ws_time slot_of(uint64_t rate_bps, uint32_t frame)
{
    uint64_t bits = 8 * (uint64_t)ws_wire_bytes(frame);
    return (ws_time)((bits * PS_PER_S + rate_bps - 1) / rate_bps);
}

/* --- pauses ------------------------------------------------------------------------------------ */

uint64_t nic_paused(const struct nic_queue *queue, ws_time now)
{
    ws_time end = queue->paused_until < now ? queue->paused_until : now;
    return queue->paused_ps + (end > queue->paused_since ? (uint64_t)(end - queue->paused_since) : 0);
}

static void pause_queue(struct nic_queue *queue, ws_time now, ws_time until)
{
    queue->paused_ps = nic_paused(queue, now);
    queue->paused_since = now;
    queue->paused_until = until;
}

static int take_pause(struct sim *s, uint32_t node, uint32_t port, const struct flight *flight, const uint8_t *frame)
{
    static const uint8_t head[16] = {0x01, 0x80, 0xc2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x88, 0x08, 0x01, 0x01};
    if (flight->length < PFC_FRAME || memcmp(frame, head, 6) || memcmp(frame + 12, head + 12, 4))
        return 0;
    struct nic *nic = &s->nodes[node].nics[port];
    nic->stats.pfc_received++;
    uint32_t classes = get16(frame + 16);
    for (uint32_t c = 0; c < QUEUES; c++)
        if (classes >> c & 1) {
            uint64_t bits = (uint64_t)get16(frame + 18 + 2 * c) * PFC_QUANTUM_BITS;
            ws_time pause = (ws_time)(((unsigned __int128)bits * PS_PER_S + nic->config.rate_bps - 1) / nic->config.rate_bps);
            pause_queue(&nic->queues[c], s->now, s->now + pause);
            if (s->now + pause > nic->pauses_end)
                nic->pauses_end = s->now + pause;
        }
    nic_wake(s, node, port);
    return 1;
}

/* --- work and rings ------------------------------------------------------------------------------ */

struct work *work_new(struct sim *s)
{
    if (!s->free_work) {
        struct work *slab = malloc(16 + WORK_SLAB * sizeof *slab);
        if (!slab)
            return NULL;
        *(void **)slab = s->work_slabs;
        s->work_slabs = slab;
        struct work *first = (struct work *)((uint8_t *)slab + 16);
        for (int i = 0; i < WORK_SLAB; i++) {
            first[i].next = s->free_work;
            s->free_work = &first[i];
        }
    }
    struct work *work = s->free_work;
    s->free_work = work->next;
    *work = (struct work){.message = -1};
    s->works++;
    return work;
}

void work_free(struct sim *s, struct work *work)
{
    s->works--;
    work->next = s->free_work;
    s->free_work = work;
}

static struct nic *nic_of_flow(struct sim *s, const struct flow *flow)
{
    return &s->nodes[flow->config.src].nics[flow->config.src_port];
}

static void ring_enter(struct nic *nic, struct flow *flow)
{
    struct nic_queue *queue = &nic->queues[flow->config.queue];
    if (!queue->turn) {
        queue->turn = flow->next = flow->previous = flow;
        nic->active |= 1u << flow->config.queue;
        return;
    }
    flow->next = queue->turn;
    flow->previous = queue->turn->previous;
    flow->previous->next = flow->next->previous = flow;
}

static void ring_leave(struct nic *nic, struct flow *flow)
{
    struct nic_queue *queue = &nic->queues[flow->config.queue];
    if (flow->next == flow) {
        queue->turn = NULL;
        nic->active &= ~(1u << flow->config.queue);
    } else {
        flow->next->previous = flow->previous;
        flow->previous->next = flow->next;
        if (queue->turn == flow)
            queue->turn = flow->next;
    }
    flow->next = flow->previous = NULL;
}

/* Enters its ring now, or when its own rate lets it. */
static void flow_enter(struct sim *s, struct flow *flow)
{
    if (flow->allowed > s->now) {
        if (!order_timer(s, flow->allowed, TIMER_FLOW, flow->number))
            flow->waiting = 1;
        return;
    }
    ring_enter(nic_of_flow(s, flow), flow);
    nic_wake(s, flow->config.src, flow->config.src_port);
}

void flow_due(struct sim *s, struct flow *flow)
{
    flow->waiting = 0;
    if (flow->head)
        flow_enter(s, flow);
}

void flow_offer(struct sim *s, struct flow *flow, struct work *work)
{
    struct nic *nic = nic_of_flow(s, flow);
    if (flow->head) {
        flow->tail->next = work;
        flow->tail = work;
        return;
    }
    flow->head = flow->tail = work;
    flow->paused_mark = nic_paused(&nic->queues[flow->config.queue], s->now);
    if (!flow->waiting)
        flow_enter(s, flow);
}

/* --- sending ------------------------------------------------------------------------------------- */

void flow_header(struct sim *s, struct flow *flow)
{
    const struct sim_port_config *from = &nic_of_flow(s, flow)->config;
    const struct sim_port_config *to = &s->nodes[flow->config.dst].nics[flow->config.dst_port].config;
    uint8_t *at = flow->header;
    memset(at, 0, HEADERS);
    put48(at, from->gateway_mac);
    put48(at + 6, from->mac);
    put16(at + 12, 0x0800);
    uint8_t *ip = at + ETHERNET;
    ip[0] = 0x45;
    ip[1] = (uint8_t)(flow->config.dscp << 2 | ECT0);
    put16(ip + 6, 0x4000); /* don't fragment */
    ip[8] = TTL;
    ip[9] = 17;
    put32(ip + 12, from->ip);
    put32(ip + 16, to->ip);
    flow->ip_sum = 0;
    for (int i = 0; i < IPV4; i += 2)
        flow->ip_sum += get16(ip + i);
    put16(ip + IPV4, flow->config.udp_port);
    put16(ip + IPV4 + 2, ROCE_PORT);
    uint8_t *bth = ip + IPV4 + UDP;
    bth[1] = 0x40; /* migration state */
    put16(bth + 2, 0xffff);
    put24(bth + 5, flow->number + 1);
}

static uint32_t opcode_of(const struct work *work, uint32_t payload)
{
    int last = work->bytes == payload;
    return work->begun ? (last ? SEND_LAST : SEND_MIDDLE) : (last ? SEND_ONLY : SEND_FIRST);
}

static void message_started(struct sim *s, struct flow *flow, int64_t number)
{
    struct message *message = &s->messages[number];
    message->first_psn = flow->next_psn;
    message->times.first_sent = s->now;
    message->next_open = -1;
    if (flow->open_tail < 0)
        flow->open_head = number;
    else
        s->messages[flow->open_tail].next_open = number;
    flow->open_tail = number;
    if (flow->open_hint < 0)
        flow->open_hint = number;
}

void nic_emit(struct sim *s, struct nic *nic, struct flight *flight)
{
    uint32_t total = flight->length + flight->tail;
    ws_time slot = slot_of(nic->config.rate_bps, total), end = s->now + slot;
    nic->busy_until = end;
    nic->stats.tx_packets++;
    nic->stats.tx_bytes += total;
    if (nic->end.tap)
        tap_frame(s, nic->end.tap, end, 1, flight_data(flight), flight->length, flight->tail, flight->tail_seed);
    flight->at = end + nic->config.delay_ps;
    if (!nic->end.out) {
        flight_free(s, flight);
        return;
    }
    if (nic->wire && ws_impair_active(&nic->wire->impair)) {
        if (nic->wire->impair.corrupt && flight->tail) {
            struct flight *whole = flight_new(s, total);
            if (whole) {
                memcpy(flight_data(whole), flight_data(flight), flight->length);
                ws_write_tail(flight_data(whole), flight->length, flight->tail, flight->tail_seed);
                whole->at = flight->at;
                whole->tail = 0;
            }
            flight_free(s, flight);
            if (!whole)
                return;
            flight = whole;
        }
        struct ws_fate fate =
            ws_wire_pass(nic->wire, flight_data(flight), flight->length, flight->tail, flight->at, slot);
        if (fate.lost) {
            flight_free(s, flight);
            return;
        }
        flight->at = fate.at[0];
        if (fate.copies > 1) {
            struct flight *copy = flight_new(s, flight->length);
            if (copy) {
                memcpy(flight_data(copy), flight_data(flight), flight->length);
                copy->tail = flight->tail;
                copy->tail_seed = flight->tail_seed;
                copy->at = fate.at[1];
                nic->busy_until += slot;
                lane_put(s, nic->end.out, copy);
            }
        }
    }
    lane_put(s, nic->end.out, flight);
}

static void send_of_flow(struct sim *s, struct nic *nic, struct flow *flow)
{
    struct work *work = flow->head;
    uint32_t payload = work->payload, opcode = SEND_ONLY;
    if (work->message >= 0) {
        if (work->bytes < payload)
            payload = (uint32_t)work->bytes;
        opcode = opcode_of(work, payload);
        if (!work->begun)
            message_started(s, flow, work->message);
        work->begun = 1;
    }
    struct flight *flight = flight_new(s, HEADERS);
    if (!flight)
        return;
    uint32_t pad = -payload & 3u;
    uint8_t *at = flight->data, *ip = at + ETHERNET, *udp = ip + IPV4, *bth = udp + UDP;
    memcpy(at, flow->header, HEADERS);
    flight->tail = payload + pad + ICRC;
    flight->tail_seed = (uint64_t)s->now; /* when it was sent: nic_receive reads it */
    uint32_t ip_length = IPV4 + UDP + BTH + flight->tail, sum = flow->ip_sum + ip_length;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    put16(ip + 2, ip_length);
    put16(ip + 10, ~sum);
    put16(udp + 4, ip_length - IPV4);
    bth[0] = (uint8_t)opcode;
    bth[1] |= (uint8_t)(pad << 4);
    put24(bth + 9, (uint32_t)(flow->next_psn++ & PSN_MASK));

    if (flow->stats.first_sent < 0)
        flow->stats.first_sent = s->now;
    flow->stats.last_sent = s->now;
    flow->stats.sent_packets++;
    flow->stats.sent_bytes += payload;
    uint64_t paused = nic_paused(&nic->queues[flow->config.queue], s->now);
    flow->stats.paused_ps += paused - flow->paused_mark;
    flow->paused_mark = paused;
    s->totals.sent++;
    nic->stats.queue_packets--;
    nic->stats.queue_bytes -= payload;

    int more;
    if (work->message >= 0) {
        work->bytes -= payload;
        more = work->bytes > 0;
        if (!more)
            s->messages[work->message].times.last_sent = s->now;
    } else {
        more = --work->packets > 0;
    }
    if (flow->config.rate_bps)
        flow->allowed = s->now + slot_of(flow->config.rate_bps, flight->length + flight->tail);
    nic_emit(s, nic, flight);
    if (!more) {
        flow->head = work->next;
        work_free(s, work);
    }
    if (!flow->head) {
        ring_leave(nic, flow);
    } else if (flow->allowed > s->now) {
        ring_leave(nic, flow);
        flow_enter(s, flow);
    } else {
        nic->queues[flow->config.queue].turn = flow->next;
    }
}

static void send_raw(struct sim *s, struct nic *nic)
{
    struct raw_frame *frame = nic->raw_head;
    struct flight *flight = flight_new(s, frame->length);
    nic->raw_head = frame->next;
    s->raws--;
    if (flight) {
        memcpy(flight_data(flight), frame->data, frame->length);
        flight->tail = frame->tail;
        flight->tail_seed = frame->tail_seed;
        s->totals.sent++;
        nic_emit(s, nic, flight);
    }
    free(frame);
}

void nic_wake(struct sim *s, uint32_t number, uint32_t port)
{
    struct nic *nic = &s->nodes[number].nics[port];
    ws_time at = WS_NEVER;
    if (nic->end.out && nic->end.out->up) {
        if (nic->raw_head)
            at = s->now;
        for (uint32_t left = nic->active; left && at > s->now; left &= left - 1) {
            ws_time free_at = nic->queues[__builtin_ctz(left)].paused_until;
            if (free_at < s->now)
                free_at = s->now;
            if (free_at < at)
                at = free_at;
        }
        if (at < nic->busy_until)
            at = nic->busy_until;
    }
    if (nic->card) {
        ws_time card = endpoint_next(s, nic);
        if (card < at)
            at = card;
    }
    order_set(s, nic->source, at);
}

/* The highest queue of open-loop flows that may send; -1: none. */
static int open_queue(const struct sim *s, const struct nic *nic)
{
    for (uint32_t left = nic->active; left;) {
        const uint32_t q = 31u - (uint32_t)__builtin_clz(left);
        if (nic->queues[q].paused_until <= s->now)
            return (int)q;
        left &= ~(1u << q);
    }
    return -1;
}

/* The card or an open-loop flow: the higher queue, in one queue by turns. */
static void send_next(struct sim *s, struct nic *nic)
{
    int open = nic->end.out && nic->end.out->up && nic->busy_until <= s->now ? open_queue(s, nic) : -1;
    if (nic->card) {
        const int card = endpoint_queue(s, nic);
        if (card >= 0 && (card > open || (card == open && nic->card_turn)) && endpoint_send(s, nic)) {
            nic->card_turn = 0;
            return;
        }
    }
    if (open < 0)
        return;
    nic->card_turn = 1;
    send_of_flow(s, nic, nic->queues[open].turn);
}

int nic_send(struct sim *s, uint32_t number, uint32_t port)
{
    struct nic *nic = &s->nodes[number].nics[port];
    if (nic->raw_head && nic->end.out && nic->end.out->up && nic->busy_until <= s->now)
        send_raw(s, nic);
    else
        send_next(s, nic);
    nic_wake(s, number, port);
    return SIM_OK;
}

void nic_script(struct sim *s, uint32_t node, uint32_t port, struct raw_frame *frame)
{
    struct nic *nic = &s->nodes[node].nics[port];
    frame->next = NULL;
    if (nic->raw_head)
        nic->raw_tail->next = frame;
    else
        nic->raw_head = frame;
    nic->raw_tail = frame;
    s->raws++;
    nic_wake(s, node, port);
}

/* --- receiving ----------------------------------------------------------------------------------- */

static inline int in_window(const struct flow *flow, uint64_t psn)
{
    return flow->seen[psn % SEEN / 64] >> psn % 64 & 1;
}

/* As see, when something is missing or comes late. Moves the window of numbers that are remembered. */
static __attribute__((noinline)) int see_unordered(struct flow *flow, uint64_t psn)
{
    if (psn >= flow->highest_psn) {
        uint64_t skipped = psn - flow->highest_psn;
        if (skipped >= SEEN)
            memset(flow->seen, 0, sizeof flow->seen);
        else
            for (uint64_t number = flow->highest_psn; number < psn; number++)
                flow->seen[number % SEEN / 64] &= ~((uint64_t)1 << number % 64);
        flow->highest_psn = psn + 1;
    } else {
        flow->stats.out_of_order++;
        if (psn < flow->complete_psn || flow->highest_psn - psn > SEEN || in_window(flow, psn))
            return 0;
    }
    flow->seen[psn % SEEN / 64] |= (uint64_t)1 << psn % 64;
    if (flow->highest_psn - flow->complete_psn > SEEN)
        flow->complete_psn = flow->highest_psn - SEEN;
    while (flow->complete_psn < flow->highest_psn && in_window(flow, flow->complete_psn))
        flow->complete_psn++;
    return 1;
}

/* 1: it is new. */
static inline int see(struct flow *flow, uint64_t psn)
{
    if (psn != flow->highest_psn || flow->complete_psn != psn)
        return see_unordered(flow, psn);
    flow->highest_psn = flow->complete_psn = psn + 1;
    return 1;
}

static uint64_t whole_psn(const struct flow *flow, uint32_t psn)
{
    uint64_t ahead = (psn - (uint32_t)(flow->highest_psn & PSN_MASK)) & PSN_MASK;
    if (ahead <= PSN_MASK / 2)
        return flow->highest_psn + ahead;
    uint64_t behind = PSN_MASK + 1 - ahead;
    return behind > flow->highest_psn ? flow->highest_psn : flow->highest_psn - behind;
}

static void arrived(struct sim *s, struct flow *flow, uint64_t psn, uint32_t payload)
{
    int64_t number = flow->open_hint;
    if (number < 0 || s->messages[number].first_psn > psn)
        number = flow->open_head;
    while (number >= 0 && psn >= s->messages[number].first_psn + s->messages[number].packets)
        number = s->messages[number].next_open;
    if (number < 0 || psn < s->messages[number].first_psn)
        return; /* of a stream */
    struct message *message = &s->messages[number];
    flow->open_hint = number;
    if (payload > message->to_arrive)
        return; /* not what was sent: somebody changed it */
    message->to_arrive -= payload;
    if (message->to_arrive)
        return;
    message->times.done = s->now;
    while (flow->open_head >= 0 && s->messages[flow->open_head].times.done >= 0)
        flow->open_head = s->messages[flow->open_head].next_open;
    if (flow->open_head < 0)
        flow->open_tail = -1;
    flow->open_hint = flow->open_head;
    message_done(s, (uint64_t)number);
}

/* The flow of a RoCEv2 packet, by its destination QP. NULL: of none. */
static inline struct flow *flow_of(const struct sim *s, const struct flight *flight, const uint8_t *frame)
{
    const uint8_t *ip = frame + ETHERNET, *udp = ip + IPV4, *bth = udp + UDP;
    if (flight->length < HEADERS || get16(frame + 12) != 0x0800 || ip[0] != 0x45 || ip[9] != 17 ||
        get16(udp + 2) != ROCE_PORT)
        return NULL;
    uint32_t qp = get24(bth + 5);
    return qp >= 1 && qp <= s->n_flows ? s->flows[qp - 1] : NULL;
}

void nic_expect(const struct sim *s, const struct flight *flight)
{
    const struct flow *flow = flow_of(s, flight, flight->long_data ? flight->long_data : flight->data);
    if (flow)
        flow_prefetch(flow, 0);
}

/* Neither of its ends is this interface. */
static int flow_is_elsewhere(const struct flow *flow, uint32_t node, uint32_t port)
{
    const struct sim_flow_config *config = &flow->config;
    return (config->src != node || config->src_port != port) && (config->dst != node || config->dst_port != port);
}

void nic_receive(struct sim *s, uint32_t number, uint32_t port, struct flight *flight)
{
    struct nic *nic = &s->nodes[number].nics[port];
    const uint8_t *frame = flight_data(flight);
    const uint32_t total = flight->length + flight->tail;
    nic->stats.rx_packets++;
    nic->stats.rx_bytes += total;
    if (nic->end.tap)
        tap_frame(s, nic->end.tap, s->now, 0, frame, flight->length, flight->tail, flight->tail_seed);
    if (take_pause(s, number, port, flight, frame)) {
        flight_free(s, flight);
        return;
    }
    s->totals.received++;
    const uint8_t *ip = frame + ETHERNET, *udp = ip + IPV4, *bth = udp + UDP;
    struct flow *flow = flow_of(s, flight, frame);
    uint32_t pad = flow ? bth[1] >> 4 & 3u : 0, udp_length = flow ? get16(udp + 4) : 0;
    if (flow && flow->config.transport) {
        if (nic->card && !flow_is_elsewhere(flow, number, port))
            endpoint_receive(s, nic, flow, flight);
        else
            s->totals.received_other++;
        flight_free(s, flight);
        nic_wake(s, number, port);
        return;
    }
    if (!flow || flow->at_node != number || flow->at_port != port || udp_length < UDP + BTH + ICRC + pad) {
        s->totals.received_other++;
        flight_free(s, flight);
        return;
    }
    uint32_t payload = udp_length - UDP - BTH - ICRC - pad;
    uint64_t psn = whole_psn(flow, get24(bth + 9));
    struct sim_flow_stats *stats = &flow->stats;
    if (stats->first_received < 0)
        stats->first_received = s->now;
    stats->last_received = s->now;
    stats->marked += (ip[1] & 3) == CE;
    if (flight->tail) {
        uint64_t delay = (uint64_t)s->now - flight->tail_seed;
        stats->timed_packets++;
        stats->delay_sum_ps += delay;
        if (delay > stats->delay_max_ps)
            stats->delay_max_ps = delay;
    }
    flight_free(s, flight);
    if (!see(flow, psn)) {
        stats->duplicates++;
        return;
    }
    stats->received_packets++;
    stats->received_bytes += payload;
    if (s->sample_interval)
        flow_dirty(s, flow, flow->number);
    if (flow->open_head >= 0)
        arrived(s, flow, psn, payload);
}
