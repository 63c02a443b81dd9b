/* Owns what hosts are to send: flows, streams, messages and scripts. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { FLOWS_MAX = 0xfffffe, PAYLOAD_MIN = 256, PAYLOAD_MAX = 4096 };

static int grow32(void **array, uint64_t wanted, uint32_t *capacity, size_t size)
{
    if (wanted <= *capacity)
        return 1;
    uint64_t bigger = *capacity ? 2 * (uint64_t)*capacity : 64;
    if (bigger < wanted)
        bigger = wanted;
    if (bigger > UINT32_MAX)
        return 0;
    void *moved = realloc(*array, bigger * size);
    if (!moved)
        return 0;
    *array = moved;
    *capacity = (uint32_t)bigger;
    return 1;
}

/* --- flows ------------------------------------------------------------------------------------- */

static int check_flow(struct sim *s, const struct sim_flow_config *flow, uint32_t i)
{
    const uint32_t ends[2][2] = {{flow->src, flow->src_port}, {flow->dst, flow->dst_port}};
    for (int end = 0; end < 2; end++)
        if (ends[end][0] >= s->n_nodes || ends[end][1] >= s->nodes[ends[end][0]].n_nics)
            return sim_fail(s, SIM_EINVAL, "flow %u: node %u has no interface %u", i, ends[end][0], ends[end][1]);
    if (flow->src == flow->dst && flow->src_port == flow->dst_port)
        return sim_fail(s, SIM_EINVAL, "flow %u: from an interface to itself", i);
    if (flow->transport > s->n_transports)
        return sim_fail(s, SIM_EINVAL, "flow %u: there is no transport %u", i, flow->transport - 1);
    if (flow->transport && (flow->operation > RNIC_READ || flow->operation == RNIC_SEND_IMM || flow->operation == RNIC_WRITE_IMM))
        return sim_fail(s, SIM_EINVAL, "flow %u: messages are SENDs, WRITEs or READs", i);
    if (flow->interfaces > 1 &&
        (!flow->transport || flow->src_port || flow->dst_port || flow->src == flow->dst || flow->interfaces > RNIC_INTERFACES ||
         flow->interfaces > s->nodes[flow->src].n_nics || flow->interfaces > s->nodes[flow->dst].n_nics))
        return sim_fail(s, SIM_EINVAL, "flow %u: %u interfaces need a transport, two hosts that have as many, at most %d, and ports of 0", i,
                        flow->interfaces, RNIC_INTERFACES);
    if (flow->queue >= QUEUES || flow->dscp > 63)
        return sim_fail(s, SIM_EINVAL, "flow %u: queue %u or DSCP %u out of range", i, flow->queue, flow->dscp);
    return SIM_OK;
}

static uint32_t payload_of(const struct sim *s, const struct sim_flow_config *flow)
{
    if (flow->payload)
        return flow->payload;
    uint32_t mtu = UINT32_MAX;
    for (uint32_t i = 0; i == 0 || i < flow->interfaces; i++) {
        const uint32_t here = s->nodes[flow->src].nics[flow->src_port + i].config.mtu;
        const uint32_t there = s->nodes[flow->dst].nics[flow->dst_port + i].config.mtu;
        mtu = here < mtu ? here : mtu;
        mtu = there < mtu ? there : mtu;
    }
    uint32_t payload = PAYLOAD_MAX;
    while (payload > PAYLOAD_MIN && payload + IPV4 + UDP + BTH + ICRC > mtu)
        payload /= 2;
    return payload;
}

int sim_add_flows(sim *s, const struct sim_flow_config *flows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (check_flow(s, &flows[i], i))
            return SIM_EINVAL;
    for (uint32_t i = 0; i < n; i++)
        if (flows[i].interfaces > 1) {
            const int status = endpoint_device(s, &flows[i], i);
            if (status)
                return status;
        }
    if ((uint64_t)s->n_flows + n > FLOWS_MAX)
        return sim_fail(s, SIM_EINVAL, "more than %d flows", FLOWS_MAX);
    if (!grow32((void **)&s->flows, (uint64_t)s->n_flows + n, &s->flows_capacity, sizeof *s->flows))
        return sim_fail(s, SIM_ENOMEM, "no memory for %u flows", n);
    int first = (int)s->n_flows;
    for (uint32_t i = 0; i < n; i++) {
        struct flow *flow = ws_memory_get(flow_bytes(&flows[i]));
        if (!flow)
            return sim_fail(s, SIM_ENOMEM, "no memory for %u flows", n);
        flow->config = flows[i];
        flow->config.payload = payload_of(s, &flows[i]);
        flow->number = s->n_flows;
        flow->at_node = flows[i].dst;
        flow->at_port = flows[i].dst_port;
        flow->open_head = flow->open_tail = flow->open_hint = -1;
        flow->next_dirty = flow->number;
        flow->stats.first_sent = flow->stats.last_sent = -1;
        flow->stats.first_received = flow->stats.last_received = -1;
        flow_header(s, flow);
        const int status = flow->config.transport ? endpoint_add(s, flow) : SIM_OK;
        if (status) {
            ws_memory_put(flow, flow_bytes(&flows[i]));
            return status;
        }
        s->flows[s->n_flows++] = flow;
    }
    return first;
}

int sim_set_source_port(sim *s, uint32_t number, uint16_t udp_port)
{
    if (number >= s->n_flows)
        return sim_fail(s, SIM_EINVAL, "there is no flow %u", number);
    if (!udp_port)
        return sim_fail(s, SIM_EINVAL, "flow %u: a source port is from 1 to 65535", number);
    struct flow *flow = s->flows[number];
    const int status = flow->config.transport ? endpoint_set_port(s, flow, udp_port) : SIM_OK;
    if (status)
        return status;
    flow->config.udp_port = udp_port;
    flow_header(s, flow);
    return SIM_OK;
}

static struct nic *nic_of(struct sim *s, const struct flow *flow)
{
    return &s->nodes[flow->config.src].nics[flow->config.src_port];
}

int sim_add_transports(sim *s, const struct sim_transport_config *transports, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_transport_config *t = &transports[i];
        if (t->cc.algorithms >> CC_ALGORITHMS || t->repeat > RNIC_SELECTIVE || t->cnp_queue >= QUEUES || t->cnp_dscp > 63 ||
            t->ack_queue >= QUEUES || t->ack_dscp > 63)
            return sim_fail(s, SIM_EINVAL, "transport %u: algorithm, retransmission, queue or DSCP out of range", i);
        if (t->udp_ports > 0xffff)
            return sim_fail(s, SIM_EINVAL, "transport %u: %u UDP ports", i, t->udp_ports);
    }
    struct sim_transport_config *bigger = realloc(s->transports, ((size_t)s->n_transports + n + 1) * sizeof *bigger);
    if (!bigger)
        return sim_fail(s, SIM_ENOMEM, "no memory for %u transports", n);
    s->transports = bigger;
    memcpy(bigger + s->n_transports, transports, n * sizeof *bigger);
    s->n_transports += n;
    return (int)(s->n_transports - n);
}

/* --- streams ------------------------------------------------------------------------------------- */

static ws_time stream_gap(struct stream *stream)
{
    if (stream->config.kind == SIM_CBR)
        return stream->config.interval_ps;
    return sim_exponential(stream->config.interval_ps, sim_random(&stream->random));
}

static void stream_next(struct sim *s, uint64_t number, ws_time at)
{
    struct stream *stream = &s->streams[number];
    if (at >= stream->config.stop_ps || (stream->config.packets && stream->sent >= stream->config.packets) ||
        order_timer(s, at, TIMER_STREAM, number))
        s->streams_open--;
}

int sim_add_streams(sim *s, const struct sim_stream_config *streams, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_stream_config *stream = &streams[i];
        if (stream->flow >= s->n_flows)
            return sim_fail(s, SIM_EINVAL, "stream %u: there is no flow %u", i, stream->flow);
        if (s->flows[stream->flow]->config.transport)
            return sim_fail(s, SIM_EINVAL, "stream %u: flow %u has a transport, which carries messages alone", i, stream->flow);
        if (stream->kind > SIM_POISSON || stream->interval_ps <= 0 || stream->interval_ps > WS_DELAY_MAX ||
            stream->start_ps < 0)
            return sim_fail(s, SIM_EINVAL, "stream %u: interval or start out of range", i);
        if (stream->payload + HEADERS + 3 + ICRC > WS_PACKET_BIG)
            return sim_fail(s, SIM_EINVAL, "stream %u: a payload of %u bytes fits no frame", i, stream->payload);
    }
    if (!grow32((void **)&s->streams, (uint64_t)s->n_streams + n, &s->streams_capacity, sizeof *s->streams))
        return sim_fail(s, SIM_ENOMEM, "no memory for %u streams", n);
    int first = (int)s->n_streams;
    for (uint32_t i = 0; i < n; i++) {
        struct stream *stream = &s->streams[s->n_streams];
        *stream = (struct stream){.config = streams[i], .random = streams[i].seed};
        ws_time start = stream->config.start_ps > s->now ? stream->config.start_ps : s->now;
        s->streams_open++;
        s->n_streams++;
        /* A Poisson process has no packet at its beginning. */
        stream_next(s, s->n_streams - 1, stream->config.kind == SIM_POISSON ? start + stream_gap(stream) : start);
    }
    return first;
}

static void stream_due(struct sim *s, const struct timer *timer)
{
    const uint64_t number = timer->object;
    struct stream *stream = &s->streams[number];
    struct flow *flow = s->flows[stream->config.flow];
    struct nic *nic = nic_of(s, flow);
    stream->sent++;
    nic->stats.queue_packets++;
    nic->stats.queue_bytes += stream->config.payload;
    if (flow->head && flow->tail->message < 0 && flow->tail->payload == stream->config.payload) {
        flow->tail->packets++;
    } else {
        struct work *work = work_new(s);
        if (work) {
            work->packets = 1;
            work->payload = stream->config.payload;
            flow_offer(s, flow, work);
        }
    }
    stream_next(s, number, s->now + stream_gap(stream));
}

/* --- messages ------------------------------------------------------------------------------------- */

static void message_begin(struct sim *s, uint64_t number);

void message_ready(struct sim *s, uint64_t number)
{
    struct message *message = &s->messages[number];
    ws_time at = s->now + message->gap;
    if (at < message->start)
        at = message->start;
    if (at > s->now || !s->fixed)
        order_timer(s, at, TIMER_MESSAGE, number);
    else
        message_begin(s, number);
}

static int check_messages(struct sim *s, const struct sim_message *messages, const uint64_t *first,
                          const uint32_t *next, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (messages[i].flow >= s->n_flows)
            return sim_fail(s, SIM_EINVAL, "message %u: there is no flow %u", i, messages[i].flow);
        if (!stripes_take(s->flows[messages[i].flow]))
            return sim_fail(s, SIM_EINVAL, "message %u: flow %u is not the first of those that it is striped over", i, messages[i].flow);
        if (messages[i].gap_ps < 0 || messages[i].start_ps < 0 || messages[i].gap_ps > WS_DELAY_MAX)
            return sim_fail(s, SIM_EINVAL, "message %u: start or gap out of range", i);
        if (first[i + 1] < first[i] || first[i + 1] - first[i] > UINT32_MAX)
            return sim_fail(s, SIM_EINVAL, "message %u: its dependents are out of order", i);
    }
    uint32_t *waits = calloc((size_t)n + 1, sizeof *waits);
    if (!waits)
        return sim_fail(s, SIM_ENOMEM, "no memory for %u messages", n);
    int status = SIM_OK;
    for (uint64_t i = n ? first[0] : 0; n && i < first[n] && !status; i++) {
        if (next[i] >= n)
            status = sim_fail(s, SIM_EINVAL, "message %u, which one waits for another, is not there", next[i]);
        else
            waits[next[i]]++;
    }
    for (uint32_t i = 0; i < n && !status; i++)
        if (waits[i] != messages[i].waits)
            status = sim_fail(s, SIM_EINVAL, "message %u waits for %u messages, and %u lead to it", i,
                              messages[i].waits, waits[i]);
    free(waits);
    return status;
}

int64_t sim_hold_messages(sim *s, const struct sim_message *messages, const uint64_t *first, const uint32_t *next,
                          uint32_t n)
{
    if (s->n_stored)
        return sim_fail(s, SIM_EINVAL, "messages are added before collectives");
    int status = check_messages(s, messages, first, next, n);
    if (status)
        return status;
    if (s->n_messages + n > UINT32_MAX)
        return sim_fail(s, SIM_EINVAL, "more than 4 294 967 295 messages");
    uint64_t edges = n ? first[n] - first[0] : 0;
    struct message *bigger = realloc(s->messages, (s->n_messages + n + 1) * sizeof *bigger);
    if (!bigger)
        return sim_fail(s, SIM_ENOMEM, "no memory for %u messages", n);
    s->messages = bigger;
    uint32_t *more = realloc(s->dependents, (s->n_dependents + edges + 1) * sizeof *more);
    if (!more)
        return sim_fail(s, SIM_ENOMEM, "no memory for %llu dependents", (unsigned long long)edges);
    s->dependents = more;
    uint64_t base = s->n_messages;
    for (uint32_t i = 0; i < n; i++) {
        s->messages[base + i] = (struct message){
            .flow = messages[i].flow,
            .waits = messages[i].waits,
            .bytes = messages[i].bytes,
            .to_arrive = messages[i].bytes,
            .start = messages[i].start_ps,
            .gap = messages[i].gap_ps,
            .dependents = s->n_dependents + (first[i] - first[0]),
            .n_dependents = (uint32_t)(first[i + 1] - first[i]),
            .packets = message_packets(s->flows[messages[i].flow], messages[i].bytes),
            .next_open = -1,
            .times = {-1, -1, -1, -1},
        };
    }
    for (uint64_t i = 0; i < edges; i++)
        s->dependents[s->n_dependents + i] = (uint32_t)(base + next[first[0] + i]);
    s->n_dependents += edges;
    s->n_messages += n;
    s->totals.messages += n;
    return (int64_t)base;
}

int sim_start_messages(sim *s)
{
    const uint64_t end = s->n_stored ? s->n_stored : s->n_messages;
    uint32_t *begin = malloc((end - s->n_started + 1) * sizeof *begin);
    if (!begin)
        return sim_fail(s, SIM_ENOMEM, "no memory to start %llu messages", (unsigned long long)(end - s->n_started));
    /* All are found first: those that begin now may make others ready. */
    uint64_t n = 0;
    for (; s->n_started < end; s->n_started++)
        if (!s->messages[s->n_started].waits)
            begin[n++] = (uint32_t)s->n_started;
    for (uint64_t i = 0; i < n; i++)
        message_ready(s, begin[i]);
    free(begin);
    return SIM_OK;
}

int64_t sim_add_messages(sim *s, const struct sim_message *messages, const uint64_t *first, const uint32_t *next, uint32_t n)
{
    const int64_t base = sim_hold_messages(s, messages, first, next, n);
    return base >= 0 && sim_start_messages(s) ? SIM_ENOMEM : base;
}

static void message_begin(struct sim *s, uint64_t number)
{
    struct message *message = &s->messages[number];
    struct flow *flow = s->flows[message->flow];
    message->times.ready = s->now;
    if (message_is_made(s, number))
        collective_ready(s, number);
    if (message_is_ordered(s, number)) {
        message->times.first_sent = s->now;
        program_order(s, number);
        return;
    }
    if (!message->bytes) {
        message->times.done = s->now;
        message_done(s, number);
        return;
    }
    if (flow->config.transport) {
        endpoint_message(s, flow, number);
        return;
    }
    struct work *work = work_new(s);
    if (!work)
        return;
    work->message = (int64_t)number;
    work->bytes = message->bytes;
    work->payload = flow->config.payload;
    struct nic *nic = nic_of(s, flow);
    nic->stats.queue_packets += message->packets;
    nic->stats.queue_bytes += message->bytes;
    flow_offer(s, flow, work);
}

void message_done(struct sim *s, uint64_t number)
{
    s->totals.messages_done++;
    if (message_is_made(s, number)) {
        collective_done(s, number);
        return;
    }
    if (s->n_stored)
        collective_begin(s, number);
    uint64_t first = s->messages[number].dependents, end = first + s->messages[number].n_dependents;
    for (uint64_t i = first; i < end; i++)
        message_waits_less(s, s->dependents[i]);
}

void message_waits_less(struct sim *s, uint64_t number)
{
    if (--s->messages[number].waits == 0)
        message_ready(s, number);
}

/* --- scripts --------------------------------------------------------------------------------------- */

int sim_add_script(sim *s, const struct sim_script_packet *packets, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_script_packet *packet = &packets[i];
        if (packet->node >= s->n_nodes || packet->port >= s->nodes[packet->node].n_nics)
            return sim_fail(s, SIM_EINVAL, "script packet %u: node %u has no interface %u", i, packet->node, packet->port);
        if (packet->length < ETHERNET || packet->length > WS_PACKET_BIG ||
            packet->tail_length > WS_PACKET_BIG - packet->length)
            return sim_fail(s, SIM_EINVAL, "script packet %u: a frame has 14 to %d bytes", i, WS_PACKET_BIG);
        if (packet->at < 0)
            return sim_fail(s, SIM_EINVAL, "script packet %u: sent before the start", i);
    }
    if (!grow32((void **)&s->script, (uint64_t)s->n_script + n, &s->script_capacity, sizeof *s->script))
        return sim_fail(s, SIM_ENOMEM, "no memory for %u script packets", n);
    for (uint32_t i = 0; i < n; i++) {
        struct raw_frame *frame = malloc(sizeof *frame + packets[i].length);
        if (!frame)
            return sim_fail(s, SIM_ENOMEM, "no memory for %u script packets", n);
        *frame = (struct raw_frame){.length = packets[i].length, .tail = packets[i].tail_length, .tail_seed = packets[i].tail_seed};
        memcpy(frame->data, packets[i].data, packets[i].length);
        s->script[s->n_script] = (struct script_packet){packets[i].node, packets[i].port, frame};
        if (!order_timer(s, packets[i].at > s->now ? packets[i].at : s->now, TIMER_SCRIPT, s->n_script))
            s->script_open++;
        s->n_script++;
    }
    return SIM_OK;
}

static void script_due(struct sim *s, const struct timer *timer)
{
    struct script_packet *packet = &s->script[timer->object];
    struct raw_frame *frame = packet->frame;
    packet->frame = NULL;
    s->script_open--;
    nic_script(s, packet->node, packet->port, frame);
}

static void scripts_free(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_script; i++)
        free(s->script[i].frame);
    free(s->script);
}

/* --- as elements ------------------------------------------------------------------------------------- */

static void message_due(struct sim *s, const struct timer *timer) { message_begin(s, timer->object); }

static enum element_state streams_state(const struct sim *s)
{
    return s->streams_open ? ELEMENT_OPEN : s->n_streams ? ELEMENT_SENT : ELEMENT_UNUSED;
}

/* A message that is done has arrived: nothing of it is waited for. */
static enum element_state messages_state(const struct sim *s)
{
    return s->totals.messages_done < s->totals.messages ? ELEMENT_OPEN : ELEMENT_UNUSED;
}

static enum element_state scripts_state(const struct sim *s)
{
    return s->script_open ? ELEMENT_OPEN : s->n_script ? ELEMENT_SENT : ELEMENT_UNUSED;
}

static void streams_free(struct sim *s) { free(s->streams); }

static void messages_free(struct sim *s)
{
    free(s->messages);
    free(s->dependents);
}

const struct element_ops stream_element = {.due = stream_due, .state = streams_state, .free = streams_free};
const struct element_ops message_element = {.due = message_due, .state = messages_state, .free = messages_free};
const struct element_ops script_element = {.due = script_due, .state = scripts_state, .free = scripts_free};
