/* Flows with a transport: owns how the cards of hostagent/rnic live in the engine.
 *
 * Each interface that such a flow begins or ends at has a card; the flow is a queue pair of the same number on both. Where a flow
 * has several interfaces, its hosts have one card for all of theirs, which are its lines. The
 * engine brings frames and time to the cards and lets them send when the line is free; what they say about messages moves the
 * workload on. Packets are header-only: a payload is its length.
 */
#include "engine.h"

#include <string.h>

enum {
    CARD_QUEUE_PAIRS = 0xffffff,
    EVENTS = 32,
};

static struct nic *nic_at(struct sim *s, uint32_t node, uint32_t port) { return &s->nodes[node].nics[port]; }
static struct nic *source_of(struct sim *s, const struct flow *flow) { return nic_at(s, flow->config.src, flow->config.src_port); }
static struct nic *target_of(struct sim *s, const struct flow *flow) { return nic_at(s, flow->config.dst, flow->config.dst_port); }
static int is_read(const struct flow *flow) { return flow->config.operation == RNIC_READ; }
static uint32_t qpn_of(const struct flow *flow) { return flow->number + 1; }
/* Where the data is sent from, and where it arrives. */
static struct nic *data_from(struct sim *s, const struct flow *flow) { return is_read(flow) ? target_of(s, flow) : source_of(s, flow); }
static struct nic *data_to(struct sim *s, const struct flow *flow) { return is_read(flow) ? source_of(s, flow) : target_of(s, flow); }

/* As of real cards: anywhere, so that connections can be told apart by their numbers. */
static uint32_t first_psn_of(const struct sim *s, const struct flow *flow, const struct nic *nic)
{
    uint64_t state = s->seed ^ (uint64_t)flow->number << 33 ^ (uint64_t)nic->config.ip;
    return (uint32_t)sim_random(&state) & PSN_MASK;
}

/* --- making ------------------------------------------------------------------------------------ */

static struct rnic_interface interface_of(const struct nic *nic)
{
    return (struct rnic_interface){
        .mac = nic->config.mac,
        .gateway_mac = nic->config.gateway_mac,
        .line_rate_bps = nic->config.rate_bps,
        .clock_ppb = nic->clock.ppb,
        .ip = nic->config.ip,
    };
}

/* A card with this as its first interface; NULL: no memory. */
static struct rnic *card_new(const struct nic *nic, const struct sim_transport_config *transport)
{
    const struct rnic_config config = {
        .mac = nic->config.mac,
        .gateway_mac = nic->config.gateway_mac,
        .ip = nic->config.ip,
        .max_qps = CARD_QUEUE_PAIRS,
        .line_rate_bps = nic->config.rate_bps,
        .clock_ppb = nic->clock.ppb,
        .check_icrc = 1,
        .cnp_dscp = transport->cnp_dscp,
        .cnp_queue = transport->cnp_queue,
    };
    struct rnic *card = rnic_create(&config);
    if (!card)
        return NULL;
    if (rnic_register(card, 0, 0, NULL, (uint64_t)1 << 62, RNIC_REMOTE_WRITE | RNIC_REMOTE_READ)) {
        rnic_destroy(card);
        return NULL;
    }
    rnic_want_events(card, 1u << RNIC_PLACED | 1u << RNIC_COMPLETED | 1u << RNIC_QP_FAILED);
    return card;
}

static int card_make(struct sim *s, struct nic *nic, const struct sim_transport_config *transport)
{
    if (nic->card)
        return SIM_OK;
    nic->card = card_new(nic, transport);
    return nic->card ? SIM_OK : sim_fail(s, SIM_ENOMEM, "no memory for a card");
}

/* One card for all interfaces of a host. */
static int device_make(struct sim *s, uint32_t number, const struct sim_transport_config *transport, uint32_t flow)
{
    struct node *node = &s->nodes[number];
    struct nic *nics = node->nics;
    if (nics[0].lines > 1)
        return SIM_OK;
    for (uint32_t i = 0; i < node->n_nics; i++)
        if (nics[i].card)
            return sim_fail(s, SIM_EINVAL, "flow %u: node %u has cards of single interfaces already: add flows of several first", flow,
                            number);
    if (node->n_nics > RNIC_INTERFACES)
        return sim_fail(s, SIM_EINVAL, "flow %u: node %u has %u interfaces, and a card at most %d", flow, number, node->n_nics,
                        RNIC_INTERFACES);
    struct rnic *card = card_new(&nics[0], transport);
    if (!card)
        return sim_fail(s, SIM_ENOMEM, "no memory for a card");
    for (uint32_t i = 1; i < node->n_nics; i++) {
        const struct rnic_interface interface = interface_of(&nics[i]);
        if (rnic_add_interface(card, &interface) < 0) {
            sim_fail(s, SIM_EINVAL, "flow %u: node %u: %s", flow, number, rnic_error(card));
            rnic_destroy(card);
            return SIM_EINVAL;
        }
    }
    for (uint32_t i = 0; i < node->n_nics; i++) {
        nics[i].card = card;
        nics[i].line = (uint8_t)i;
        nics[i].lines = (uint8_t)node->n_nics;
        carrier_told(s, &nics[i], nics[i].end.out && nics[i].end.out->up);
    }
    return SIM_OK;
}

int endpoint_device(struct sim *s, const struct sim_flow_config *flow, uint32_t i)
{
    const struct sim_transport_config *transport = &s->transports[flow->transport - 1];
    int status = device_make(s, flow->src, transport, i);
    if (!status)
        status = device_make(s, flow->dst, transport, i);
    if (status)
        return status;
    carrier_delay(&s->nodes[flow->src], transport->link_delay_ps);
    carrier_delay(&s->nodes[flow->dst], transport->link_delay_ps);
    return SIM_OK;
}

void endpoint_reconfigure(struct nic *nic)
{
    const struct rnic_interface config = interface_of(nic);
    if (nic->card)
        rnic_configure_interface(nic->card, nic->line, &config);
}

/* Only the end that data comes from needs congestion control's state. */
static int add_end(struct sim *s, const struct flow *flow, struct nic *nic, const struct nic *peer)
{
    const struct sim_transport_config *transport = &s->transports[flow->config.transport - 1];
    const struct rnic_qp_config config = {
        .qpn = qpn_of(flow),
        .first_psn = first_psn_of(s, flow, nic),
        .mtu = flow->config.payload,
        .udp_port = flow->config.udp_port,
        .udp_ports = (uint16_t)transport->udp_ports,
        .dscp = flow->config.dscp,
        .queue = flow->config.queue,
        .repeat = (uint8_t)transport->repeat,
        .ack_every = transport->ack_every,
        .path_kind = transport->path_kind,
        .path_idle_rounds = transport->path_idle_rounds,
        .path_rounds = transport->path_rounds,
        .path_pause_ns = transport->path_pause_ns,
        .ack_apart = (uint8_t)transport->ack_apart,
        .ack_dscp = (uint8_t)transport->ack_dscp,
        .ack_queue = (uint8_t)transport->ack_queue,
        .window_packets = transport->window_packets,
        .retries = transport->retries,
        .rnr_retries = transport->rnr_retries,
        .timeout_ps = transport->timeout_ps,
        .reorder_ps = transport->reorder_ps,
        .rate_bps = flow->config.rate_bps,
        .max_reads = is_read(flow) ? transport->max_reads : 1,
        .cnp_interval_ns = transport->cc.algorithms ? transport->cnp_interval_ns : UINT64_MAX,
        .interface = nic->line,
        .interfaces = flow->config.interfaces,
        .planes = flow->config.interfaces > 1 ? transport->planes : (struct rnic_plane_config){0},
    };
    if (card_make(s, nic, transport))
        return SIM_ENOMEM;
    struct rnic *card = nic->card;
    /* Whether a plane may be used is decided at both ends, for what each sends. */
    const int sends = nic == data_from(s, flow) || config.planes.use == RNIC_PLANES_SHARED;
    const uint32_t n = flow->config.interfaces > 1 ? flow->config.interfaces : 1;
    struct rnic_address peers[RNIC_INTERFACES] = {{0}};
    for (uint32_t i = 0; i < n; i++)
        peers[i].ip = peer[i].config.ip;
    if (rnic_add_qp(card, &config, sends ? &transport->cc : NULL) ||
        rnic_connect_ways(card, config.qpn, peers, n, config.qpn, first_psn_of(s, flow, peer)) ||
        rnic_receive_anything(card, config.qpn))
        return sim_fail(s, SIM_EINVAL, "flow %u: %s", flow->number, rnic_error(card));
    return SIM_OK;
}

static void remove_end(struct nic *nic, const struct flow *flow)
{
    if (nic->card)
        rnic_remove_qp(nic->card, qpn_of(flow));
}

/* If it fails, nothing of the flow stays. */
int endpoint_add(struct sim *s, struct flow *flow)
{
    const uint32_t payload = flow->config.payload;
    if (payload < RNIC_MTU_MIN || payload > RNIC_MTU_MAX || (payload & (payload - 1)))
        return sim_fail(s, SIM_EINVAL, "flow %u: with a transport the payload is 256, 512, 1024, 2048 or 4096 bytes, not %u",
                        flow->number, payload);
    if (source_of(s, flow)->card && source_of(s, flow)->card == target_of(s, flow)->card)
        return sim_fail(s, SIM_EINVAL, "flow %u: node %u has one card for both ends, and a queue pair's ends are two cards'",
                        flow->number, flow->config.src);
    int status = add_end(s, flow, source_of(s, flow), target_of(s, flow));
    if (!status)
        status = add_end(s, flow, target_of(s, flow), source_of(s, flow));
    if (is_read(flow)) {
        flow->at_node = flow->config.src;
        flow->at_port = flow->config.src_port;
    }
    if (status) {
        remove_end(source_of(s, flow), flow);
        remove_end(target_of(s, flow), flow);
    }
    return status;
}

int endpoint_set_port(struct sim *s, const struct flow *flow, uint16_t udp_port)
{
    struct rnic *card = data_from(s, flow)->card;
    if (rnic_set_udp_port(card, qpn_of(flow), udp_port))
        return sim_fail(s, SIM_EINVAL, "flow %u: %s", flow->number, rnic_error(card));
    return SIM_OK;
}

int sim_collect(sim *s, uint32_t number)
{
    if (number >= s->n_flows || !s->flows[number]->config.transport)
        return sim_fail(s, SIM_ENOENT, "flow %u: only cards collect, and it has no transport", number);
    const struct flow *flow = s->flows[number];
    struct rnic *card = source_of(s, flow)->card;
    if (is_read(flow))
        return sim_fail(s, SIM_EINVAL, "flow %u: the responses of READs collect nothing", number);
    if (rnic_collect(card, qpn_of(flow), 1))
        return sim_fail(s, SIM_EINVAL, "flow %u: %s", number, rnic_error(card));
    return SIM_OK;
}

int sim_collects(sim *s, uint32_t number)
{
    const struct flow *flow = number < s->n_flows ? s->flows[number] : NULL;
    return flow && flow->config.transport && !is_read(flow) && rnic_collects(source_of(s, flow)->card, qpn_of(flow));
}

static __attribute__((noinline)) uint64_t paused_beyond(const struct sim *s, const struct flow *flow, const struct nic *first)
{
    uint64_t paused = 0;
    for (uint32_t i = 1; i < flow->config.interfaces; i++)
        paused += nic_paused(&first[i].queues[flow->config.queue], s->now);
    return paused;
}

/* How long what it sends has been paused up to now; of several lines all of them together. */
static inline uint64_t paused_of(struct sim *s, const struct flow *flow)
{
    const struct nic *nic = data_from(s, flow);
    const uint64_t paused = nic_paused(&nic->queues[flow->config.queue], s->now);
    return __builtin_expect(flow->config.interfaces > 1, 0) ? paused + paused_beyond(s, flow, nic) : paused;
}

/* --- messages ---------------------------------------------------------------------------------- */

/* What the card knows it by, also when its place is another's. */
static uint64_t id_of(const struct message *message, uint64_t number) { return (uint64_t)message->generation << 32 | number; }

int endpoint_post(struct sim *s, struct flow *flow, uint64_t number, uint64_t length, int idle)
{
    const struct rnic_work work = {.id = id_of(&s->messages[number], number), .operation = flow->config.operation, .length = length};
    if (idle)
        flow->paused_mark = paused_of(s, flow);
    return !rnic_post(source_of(s, flow)->card, qpn_of(flow), &work, s->now);
}

static void post_all(struct sim *s, struct flow *flow, uint64_t number)
{
    struct message *message = &s->messages[number];
    uint64_t left = message->bytes;
    message->works = (uint32_t)((left + PIECE_MOST - 1) / PIECE_MOST);
    const int idle = flow->open_tail < 0;
    if (idle)
        flow->open_head = (int64_t)number;
    else
        s->messages[flow->open_tail].next_open = (int64_t)number;
    flow->open_tail = (int64_t)number;
    while (left) {
        const uint64_t length = left < PIECE_MOST ? left : PIECE_MOST;
        if (!endpoint_post(s, flow, number, length, idle && left == message->bytes))
            break; /* the queue pair has failed: the message will never be done */
        left -= length;
    }
}

void endpoint_message(struct sim *s, struct flow *flow, uint64_t number)
{
    struct message *message = &s->messages[number];
    struct nic *nic = source_of(s, flow);
    message->next_open = -1;
    nic->stats.queue_packets += message->packets;
    nic->stats.queue_bytes += message->bytes;
    if (flow->stripes)
        stripes_message(s, flow, number);
    else
        post_all(s, flow, number);
    nic_wake(s, flow->config.src, flow->config.src_port);
}

/* The oldest message of a flow that carries its own, or the one of its oldest piece, lacks a work request less. */
static void arrived(struct sim *s, struct flow *flow)
{
    const int64_t number = flow->stripes ? stripes_arrived(flow) : flow->open_head;
    if (number < 0)
        return;
    struct message *message = &s->messages[number];
    if (--message->works)
        return;
    message->times.done = s->now;
    if (!flow->stripes && (flow->open_head = message->next_open) < 0)
        flow->open_tail = -1;
    message_done(s, (uint64_t)number);
}

/* A work request of ours is acknowledged, or a READ has its data. */
static void completed(struct sim *s, struct flow *flow)
{
    if (is_read(flow))
        arrived(s, flow);
    if (!flow->stripes)
        return;
    stripes_completed(s, flow);
    nic_wake(s, flow->config.src, flow->config.src_port);
}

static void failed(struct sim *s, const struct nic *nic, struct flow *flow)
{
    if (nic->card != source_of(s, flow)->card)
        return;
    s->totals.failed_flows++;
    if (!flow->stripes)
        return;
    stripes_failed(s, flow);
    nic_wake(s, flow->config.src, flow->config.src_port);
}

/* What a card has to say. A message that is done may make others ready, on this card too: the events come first. */
static void take_events(struct sim *s, struct nic *nic)
{
    struct rnic_event events[EVENTS];
    size_t n;
    while ((n = rnic_take_events(nic->card, events, EVENTS)))
        for (size_t i = 0; i < n; i++) {
            struct flow *flow = s->flows[events[i].qpn - 1];
            switch ((enum rnic_event_kind)events[i].kind) {
            case RNIC_PLACED:
                if (!is_read(flow))
                    arrived(s, flow);
                break;
            case RNIC_COMPLETED:
                completed(s, flow);
                break;
            case RNIC_QP_FAILED:
                failed(s, nic, flow);
                break;
            case RNIC_RECEIVED:
            case RNIC_FAILED:
            case RNIC_MIGRATED:
                break;
            }
        }
}

/* --- a card's lines: of one interface, as most have, without a detour ------------------------------ */

static inline int is_device(const struct nic *nic) { return __builtin_expect(nic->lines > 1, 0); }

static void pause_line(struct nic *nic, uint32_t mask)
{
    if (is_device(nic))
        rnic_set_pause_on(nic->card, nic->line, mask);
    else
        rnic_set_pause(nic->card, mask);
}

/* --- sending ----------------------------------------------------------------------------------- */

/* Paused queues hold the card back, a link that is down all of them. Returns the next time at which a pause ends. */
static ws_time set_pause(struct sim *s, struct nic *nic)
{
    ws_time ends = WS_NEVER;
    uint32_t mask = 0;
    if (!nic->end.out || (!nic->end.out->up && !nic->believed)) {
        pause_line(nic, UINT32_MAX);
        return ends;
    }
    for (uint32_t q = 0; q < QUEUES && nic->pauses_end > s->now; q++)
        if (nic->queues[q].paused_until > s->now) {
            mask |= 1u << q;
            if (nic->queues[q].paused_until < ends)
                ends = nic->queues[q].paused_until;
        }
    pause_line(nic, mask);
    return ends;
}

ws_time endpoint_next(struct sim *s, struct nic *nic)
{
    const ws_time resumed = set_pause(s, nic);
    ws_time next = is_device(nic) ? rnic_next_event_on(nic->card, nic->line) : rnic_next_event(nic->card);
    if (resumed < next)
        next = resumed;
    if (next == WS_NEVER)
        return next;
    if (next < nic->busy_until)
        next = nic->busy_until;
    return next < s->now ? s->now : next;
}

int endpoint_queue(struct sim *s, struct nic *nic)
{
    rnic_advance(nic->card, s->now);
    take_events(s, nic);
    set_pause(s, nic);
    const int queue = is_device(nic) ? rnic_ready_queue_on(nic->card, nic->line, s->now) : rnic_ready_queue(nic->card, s->now);
    return nic->busy_until <= s->now ? queue : -1;
}

/* How much a READ asks for: the last field of its RETH. */
static uint32_t read_length(const struct rnic_packet *packet)
{
    const uint8_t *at = packet->header + HEADERS + 12;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void note_data(struct sim *s, struct flow *flow)
{
    struct sim_flow_stats *stats = &flow->stats;
    const uint64_t paused = paused_of(s, flow);
    stats->paused_ps += paused - flow->paused_mark;
    flow->paused_mark = paused;
    if (stats->first_sent < 0)
        stats->first_sent = s->now;
    stats->last_sent = s->now;
}

static void note_work(struct sim *s, const struct flow *flow, const struct rnic_packet *packet)
{
    struct nic *nic = source_of(s, flow); /* of several the first, where they were counted in */
    const uint64_t number = packet->id & UINT32_MAX;
    struct message *message = &s->messages[number];
    if (id_of(message, number) == packet->id) {
        if (message->times.first_sent < 0)
            message->times.first_sent = s->now;
        if (packet->ends && message->times.done < 0)
            message->times.last_sent = s->now;
    }
    if (packet->repeated)
        return;
    const int asks = packet->kind == RNIC_READ_REQUEST;
    const uint32_t bytes = asks ? read_length(packet) : packet->payload_length, most = flow->config.payload;
    nic->stats.queue_packets -= asks ? (bytes + most - 1) / most : 1;
    nic->stats.queue_bytes -= bytes;
}

static void note_sent(struct sim *s, const struct rnic_packet *packet)
{
    struct flow *flow = s->flows[packet->qpn - 1];
    if (packet->kind == RNIC_DATA || packet->kind == RNIC_RESPONSE)
        note_data(s, flow);
    if (packet->kind == RNIC_DATA || packet->kind == RNIC_READ_REQUEST)
        note_work(s, flow, packet);
}

int endpoint_send(struct sim *s, struct nic *nic)
{
    struct rnic_packet packet;
    if (!(is_device(nic) ? rnic_transmit_on(nic->card, nic->line, s->now, &packet) : rnic_transmit(nic->card, s->now, &packet)))
        return 0;
    struct flight *flight = flight_new(s, packet.header_length);
    if (!flight)
        return 1;
    memcpy(flight_data(flight), packet.header, packet.header_length);
    flight->tail = packet.payload_length + packet.pad + RNIC_ICRC;
    flight->tail_seed = (uint64_t)s->now | WS_TAIL_ICRC; /* when it was sent: endpoint_receive reads it */
    s->totals.sent++;
    note_sent(s, &packet);
    nic_emit(s, nic, flight);
    return 1;
}

/* --- receiving --------------------------------------------------------------------------------- */

void endpoint_receive(struct sim *s, struct nic *nic, struct flow *flow, const struct flight *flight)
{
    const uint8_t *frame = flight_bytes(flight), *udp = frame + ETHERNET + IPV4;
    const int plain = udp[2] == ROCE_PORT >> 8 && udp[3] == (ROCE_PORT & 0xff);
    const uint32_t opcode = udp[UDP + (plain ? 0 : weft_telemetry_length(udp + UDP))];
    const int data = opcode_is_data(opcode);
    const int taken = is_device(nic) ? rnic_receive_on(nic->card, nic->line, frame, flight->length, flight->tail, s->now)
                                     : rnic_receive(nic->card, frame, flight->length, flight->tail, s->now);
    if (!taken) {
        s->totals.received_other++;
        return;
    }
    if (data) {
        struct sim_flow_stats *stats = &flow->stats;
        if (!plain && __builtin_expect(s->hops != NULL, 0))
            hops_arrived(s, flow, flight);
        if (stats->first_received < 0)
            stats->first_received = s->now;
        stats->last_received = s->now;
        if (flight->tail) {
            const uint64_t delay = (uint64_t)s->now - (flight->tail_seed & ~WS_TAIL_ICRC);
            stats->timed_packets++;
            stats->delay_sum_ps += delay;
            if (delay > stats->delay_max_ps)
                stats->delay_max_ps = delay;
        }
        if (s->sample_interval)
            flow_dirty(s, flow, flow->number);
    }
    take_events(s, nic);
}

/* --- what happened ----------------------------------------------------------------------------- */

void endpoint_refresh(struct sim *s, struct flow *flow)
{
    struct rnic_qp_stats sender, receiver;
    struct sim_flow_stats *stats = &flow->stats;
    if (!flow->config.transport || rnic_qp_stats_get(data_from(s, flow)->card, qpn_of(flow), s->now, &sender) ||
        rnic_qp_stats_get(data_to(s, flow)->card, qpn_of(flow), s->now, &receiver))
        return;
    stats->sent_packets = sender.sent_packets;
    stats->sent_bytes = sender.sent_bytes;
    stats->received_packets = receiver.received_packets;
    stats->received_bytes = receiver.received_bytes;
    stats->marked = receiver.marked;
    stats->out_of_order = receiver.out_of_order;
    stats->duplicates = receiver.duplicates;
}

uint64_t endpoint_rate(struct sim *s, struct flow *flow)
{
    struct rnic_qp_stats sender;
    if (!flow->config.transport || rnic_qp_stats_get(data_from(s, flow)->card, qpn_of(flow), s->now, &sender))
        return 0;
    return sender.rate_bps;
}

const struct cc_slot *sim_flow_slot(sim *s, uint32_t number)
{
    if (number >= s->n_flows || !s->flows[number]->config.transport)
        return NULL;
    return rnic_qp_slot(data_from(s, s->flows[number])->card, qpn_of(s->flows[number]));
}

int sim_transport_stats_get(sim *s, uint32_t first, uint32_t n, struct sim_transport_stats *stats)
{
    if ((uint64_t)first + n > s->n_flows)
        return sim_fail(s, SIM_ENOENT, "there are %u flows", s->n_flows);
    for (uint32_t i = 0; i < n; i++) {
        struct flow *flow = s->flows[first + i];
        struct rnic_qp_stats sender, receiver, asker;
        stats[i] = (struct sim_transport_stats){.first_cut_at = -1};
        if (!flow->config.transport || rnic_qp_stats_get(data_from(s, flow)->card, qpn_of(flow), s->now, &sender) ||
            rnic_qp_stats_get(data_to(s, flow)->card, qpn_of(flow), s->now, &receiver) ||
            rnic_qp_stats_get(source_of(s, flow)->card, qpn_of(flow), s->now, &asker))
            continue;
        stats[i] = (struct sim_transport_stats){
            .repeated_packets = sender.repeated_packets,
            .repeated_bytes = sender.repeated_bytes,
            .timeouts = asker.timeouts,
            .acks = asker.acks_received,
            .naks = asker.naks_received,
            .cnps = sender.cnps_received,
            .notified = sender.notified_received,
            .first_cut_at = sender.first_cut_at,
            .acked_bytes = asker.acked_bytes,
            .dropped = receiver.dropped,
            .rate_bps = sender.rate_bps,
            .state = asker.state,
            .failure = asker.failure,
        };
    }
    return SIM_OK;
}
