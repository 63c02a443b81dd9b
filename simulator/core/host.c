/* Hosts: owns network cards, the queue pairs on them, and the frames that they make.
 *
 * A card sends frames of scripts first, then the highest queue that is not paused; flows of a queue take turns, a packet
 * each. Packets are made when they are sent.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

enum {
    SEND_FIRST = 0,
    SEND_MIDDLE = 1,
    SEND_LAST = 2,
    SEND_ONLY = 4,
    ECT0 = 2,
    TTL = 64,
};

/* --- pauses ------------------------------------------------------------------------------------ */

uint64_t nic_paused(const struct nic_queue *queue, ws_time now)
{
    ws_time end = queue->paused_until < now ? queue->paused_until : now;
    return queue->paused_ps + (end > queue->paused_since ? (uint64_t)(end - queue->paused_since) : 0);
}

/* --- work and rings ------------------------------------------------------------------------------ */

struct work *work_new(struct sim *s)
{
    if (!s->free_work) {
        struct work *slab = ws_memory_get(WORK_SLAB_BYTES);
        if (!slab)
            return sim_short(s, "what hosts have to send"), NULL;
        *(void **)slab = s->work_slabs;
        s->work_slabs = slab;
        struct work *first = slab + 1; /* the first one's place points to the slab before */
        for (int i = 0; i < WORK_SLAB - 1; i++) {
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

static void flow_due(struct sim *s, const struct timer *timer)
{
    struct flow *flow = s->flows[timer->object];
    flow->waiting = 0;
    if (flow->head)
        flow_enter(s, flow);
}

const struct element_ops flow_element = {.due = flow_due};

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
    ws_time slot = slot_of(clock_rate(nic, nic->config.rate_bps), total), end = s->now + slot;
    nic->busy_until = end;
    nic->stats.tx_packets++;
    nic->stats.tx_bytes += total;
    if (nic->end.tap)
        tap_frame(s, nic->end.tap, end, 1, flight_data(flight), flight->length, flight->tail, flight->tail_seed);
    flight->at = clock_arrival(nic, end + nic->config.delay_ps);
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
        flow->allowed = s->now + slot_of(clock_rate(nic, flow->config.rate_bps), flight->length + flight->tail);
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

static inline __attribute__((always_inline)) void wake(struct sim *s, struct nic *nic)
{
    ws_time at = WS_NEVER;
    if (nic->end.out && nic->end.out->up) {
        if (nic->raw_head)
            at = s->now;
        for (uint32_t left = nic->active; left && at > s->now; left &= left - 1) {
            ws_time free_at = nic->queues[__builtin_ctz(left) % QUEUES].paused_until;
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

/* What one line of a card has done may let another one send. */
static __attribute__((noinline)) void wake_others(struct sim *s, const struct node *node, uint32_t port)
{
    for (uint32_t i = 0; i < node->nics[port].lines; i++)
        if (i != port)
            wake(s, &node->nics[i]);
}

void nic_wake(struct sim *s, uint32_t number, uint32_t port)
{
    struct nic *nic = &s->nodes[number].nics[port];
    if (__builtin_expect(nic->lines > 1, 0))
        wake_others(s, &s->nodes[number], port);
    wake(s, nic);
}

/* The highest queue of open-loop flows and programs that may send; -1: none. */
static int open_queue(const struct sim *s, const struct nic *nic)
{
    for (uint32_t left = (nic->active | nic->active >> QUEUES) & 0xff; left;) {
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
    if (nic->active >> QUEUES >> open & 1 && outbox_send(s, nic, (uint32_t)open))
        return;
    send_of_flow(s, nic, nic->queues[open].turn);
}

void nic_send(struct sim *s, uint32_t number, uint32_t port)
{
    struct nic *nic = &s->nodes[number].nics[port];
    if (nic->raw_head && nic->end.out && nic->end.out->up && nic->busy_until <= s->now)
        send_raw(s, nic);
    else
        send_next(s, nic);
    if (__builtin_expect(nic->lines > 1, 0))
        rnic_set_busy(nic->card, nic->line, nic->busy_until);
    nic_wake(s, number, port);
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
