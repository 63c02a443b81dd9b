/* What arrives at hosts: pauses, and the packets of flows, which make messages whole.
 *
 * A flow knows which of the last SEEN numbers came, so that what comes twice counts once; one of which packets come later than
 * that remembers FAR_SEEN from then on. What belongs to a flow with a transport goes on to its card (endpoint.c).
 */
#include "engine.h"

#include <string.h>

#include "bytes.h"

enum {
    PFC_FRAME = 34,      /* bytes up to the last class's time */
    PFC_QUANTUM_BITS = 512,
    CE = 3,
    CNP = 0x81,
    NOTIFICATION = 16,
    NOTIFIED_QP = 11, /* where it names the destination's queue pair (docs/wire-formats.md) */
};

/* --- pauses ------------------------------------------------------------------------------------ */

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

/* --- packets ----------------------------------------------------------------------------------- */

static inline uint64_t *word_of(struct flow *flow, uint64_t psn)
{
    return flow->far_seen ? &flow->far_seen[psn % FAR_SEEN / 64] : &flow->seen[psn % SEEN / 64];
}

static inline int is_seen(struct flow *flow, uint64_t psn) { return *word_of(flow, psn) >> psn % 64 & 1; }

/* Remembers more numbers from now on. 0: there is no memory. */
static int see_far(struct flow *flow)
{
    uint64_t *far = ws_memory_get(FAR_SEEN / 8);
    if (!far)
        return 0;
    for (uint64_t psn = flow->complete_psn; psn < flow->highest_psn; psn++)
        if (is_seen(flow, psn))
            far[psn % FAR_SEEN / 64] |= (uint64_t)1 << psn % 64;
    flow->far_seen = far;
    return 1;
}

/* As see, when something is missing or comes late. Moves the window of numbers that are remembered. */
static __attribute__((noinline)) int see_unordered(struct sim *s, struct flow *flow, uint64_t psn)
{
    if (psn >= flow->highest_psn) {
        if (!flow->far_seen && psn + 1 - flow->complete_psn > SEEN && !see_far(flow))
            return sim_short(s, "what a flow has received"), 0;
        const uint64_t skipped = psn - flow->highest_psn, window = flow->far_seen ? FAR_SEEN : SEEN;
        if (skipped >= window)
            memset(flow->far_seen ? flow->far_seen : flow->seen, 0, window / 8);
        else
            for (uint64_t number = flow->highest_psn; number < psn; number++)
                *word_of(flow, number) &= ~((uint64_t)1 << number % 64);
        flow->highest_psn = psn + 1;
    } else {
        flow->stats.out_of_order++;
        if (psn < flow->complete_psn || is_seen(flow, psn))
            return 0;
    }
    const uint64_t window = flow->far_seen ? FAR_SEEN : SEEN;
    *word_of(flow, psn) |= (uint64_t)1 << psn % 64;
    if (flow->highest_psn - flow->complete_psn > window)
        flow->complete_psn = flow->highest_psn - window;
    while (flow->complete_psn < flow->highest_psn && is_seen(flow, flow->complete_psn))
        flow->complete_psn++;
    return 1;
}

/* 1: it is new. */
static inline int see(struct sim *s, struct flow *flow, uint64_t psn)
{
    if (psn != flow->highest_psn || flow->complete_psn != psn)
        return see_unordered(s, flow, psn);
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
    if (message_is_made(s, (uint64_t)number))
        collective_unlink(s, flow, (uint64_t)number);
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
    if (flight->length < HEADERS || get16(frame + 12) != 0x0800 || ip[0] != 0x45 || ip[9] != 17)
        return NULL;
    if (get16(udp + 2) != ROCE_PORT) {
        const uint32_t shim = get16(udp + 2) == TELEMETRY_PORT ? weft_telemetry_length(udp + UDP) : 0;
        if (!shim || flight->length < HEADERS + shim)
            return NULL;
        bth += shim;
    }
    uint32_t qp = get24(bth + 5);
    if (bth[0] == CNP && qp == 0 && flight->length >= HEADERS + NOTIFICATION)
        qp = get24(bth + BTH + NOTIFIED_QP); /* both ends have the same number */
    return qp >= 1 && qp <= s->n_flows ? s->flows[qp - 1] : NULL;
}

struct flow *flight_data_flow(const struct sim *s, const struct flight *flight, uint32_t *psn)
{
    const uint8_t *frame = flight_bytes(flight), *ip = frame + ETHERNET, *udp = ip + IPV4, *bth = udp + UDP;
    struct flow *flow = flow_of(s, flight, frame);
    if (!flow)
        return NULL;
    if (get16(udp + 2) != ROCE_PORT)
        bth += weft_telemetry_length(udp + UDP);
    if (!opcode_is_data(bth[0]))
        return NULL;
    const struct sim_port_config *to = &s->nodes[flow->at_node].nics[flow->at_port].config;
    if (flow->config.interfaces <= 1 && (get16(ip + 16) << 16 | get16(ip + 18)) != to->ip)
        return NULL; /* a script's or a program's that has the same number */
    *psn = get24(bth + 9);
    return flow;
}

void nic_expect(const struct sim *s, uint32_t node, uint32_t port, const struct flight *flight)
{
    const struct nic *nic = &s->nodes[node].nics[port];
    __builtin_prefetch(&nic->stats.rx_packets);
    __builtin_prefetch(&nic->end);
    const struct flow *flow = flow_of(s, flight, flight_bytes(flight));
    if (flow)
        flow_prefetch(flow, 0);
}

/* Neither of its ends is this interface. */
static int flow_is_elsewhere(const struct flow *flow, uint32_t node, uint32_t port)
{
    const struct sim_flow_config *config = &flow->config;
    if (config->interfaces > 1)
        return (config->src != node && config->dst != node) || port >= config->interfaces;
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
    if (nic->receiver)
        receiver_put(s, number, port, flight);
    else
        nic_take(s, number, port, flight);
}

/* A switch's notification in a datagram of its own (docs/wire-formats.md), which belongs to no flow. 0: something else. */
static __attribute__((noinline)) int take_notification(struct sim *s, struct nic *nic, const struct flight *flight, const uint8_t *frame)
{
    struct weft_notification said;
    if (!notifications_is_one(nic->config.ip, frame, flight->length))
        return 0;
    if (!nic->card)
        notifications_take(&nic->notified, nic->config.ip, frame, flight->length, flight->tail, s->now, &said);
    if (!nic->card || !rnic_receive_on(nic->card, nic->line, frame, flight->length, flight->tail, s->now))
        s->totals.received_other++;
    return 1;
}

void nic_take(struct sim *s, uint32_t number, uint32_t port, struct flight *flight)
{
    struct nic *nic = &s->nodes[number].nics[port];
    const uint8_t *frame = flight_data(flight);
    s->totals.received++;
    if (__builtin_expect(s->paths != NULL, 0))
        paths_arrived(s, number, flight);
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
    if (!flow && take_notification(s, nic, flight, frame)) {
        flight_free(s, flight);
        nic_wake(s, number, port);
        return;
    }
    if (!flow || flow->at_node != number || flow->at_port != port || udp_length < UDP + BTH + ICRC + pad) {
        if (flow || !s->nodes[number].hosted || !program_take(s, number, port, flight))
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
    if (!see(s, flow, psn)) {
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
