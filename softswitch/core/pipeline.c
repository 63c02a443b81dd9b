#include "pipeline.h"

#include <string.h>

#include "switch.h"
#include "trace.h"

static const uint64_t TIMESTAMP_MASK = 0xffffffffffff; /* 48 bits */
enum {
    SESSION_MASK = 0x7fff, /* BMv2 keeps 15 bits of a clone session's id */
    FIELD_LIST_MASK = 0x7fffffff,
};

/* Instant egress clones in a row. One is BMv2's; a clone that clones itself has to take time, as recirculation does, or
 * `advance` would never return. */
enum { GENERATIONS_AT_ONCE = 1 };

static void clear_requests(struct wp_ctx *ctx)
{
    ctx->clone_session = 0;
    ctx->clone_field_list = 0;
    ctx->resubmit_field_list = 0;
    ctx->recirc_field_list = 0;
    ctx->learn_list = 0;
}

static void clear_phv(ws_switch *sw, struct ws_packet *packet)
{
    memset(packet->phv, 0, sw->program->pool.phv_size);
}

/* A new packet with the bytes [data, data + length), no headers, metadata all zero. */
static struct ws_packet *copy_frame(ws_switch *sw, const struct ws_packet *from, const uint8_t *data, uint32_t length)
{
    struct ws_packet *copy =
        length + from->tail <= WS_PACKET_BIG ? ws_packet_new(&sw->program->pool, length) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy->frame, data, length);
    copy->tail = from->tail;
    copy->tail_seed = from->tail_seed;
    copy->ctx.packet_length = length + from->tail;
    clear_phv(sw, copy);
    copy->ctx.env = &sw->program->env;
    copy->ctx.ingress_length = from->ctx.ingress_length;
    copy->ingress_port = from->ingress_port;
    copy->generation = from->generation;
    copy->class_in = from->class_in;
    return copy;
}

/* A copy with all headers and metadata: same payload, no requests, truncation forgotten. */
static struct ws_packet *copy_packet(ws_switch *sw, const struct ws_packet *from)
{
    struct ws_packet *copy = ws_packet_new(&sw->program->pool, from->ctx.data_len);
    if (!copy)
        return NULL;
    const uint32_t parsed = from->ctx.parsed_len;
    /* The parsed bytes are in the headers: only the payload is read again. */
    memcpy(copy->frame + parsed, from->ctx.data + parsed, from->ctx.data_len - parsed);
    copy->tail = from->tail;
    copy->tail_seed = from->tail_seed;
    memcpy(copy->phv, from->phv, sw->program->pool.phv_size);
    struct wp_ctx *ctx = &copy->ctx;
    ctx->env = &sw->program->env;
    ctx->parsed_len = parsed;
    ctx->packet_length = from->ctx.packet_length;
    ctx->ingress_length = from->ctx.ingress_length;
    ctx->parser_error = from->ctx.parser_error;
    ctx->checksum_error = from->ctx.checksum_error;
    copy->ingress_port = from->ingress_port;
    copy->generation = from->generation;
    copy->class_in = from->class_in;
    return copy;
}

/* Has a packet wait as long as recirculation takes; 0 where too many do, or memory is out. */
static int postpone(ws_switch *sw, struct ws_packet *packet, enum ws_event_class then, uint32_t port)
{
    if (sw->waiting >= sw->config.recirculate_packets) {
        sw->stats.drop_recirculate++;
        return 0;
    }
    if (!ws_events_push(&sw->events, sw->now + sw->config.recirculate_ps, then, port, packet)) {
        sw->stats.drop_no_memory++;
        return 0;
    }
    sw->waiting++;
    return 1;
}

static void enqueue(ws_switch *sw, uint32_t port, struct ws_packet *packet)
{
    if (packet->generation <= GENERATIONS_AT_ONCE) {
        ws_port_enqueue(sw, port, packet);
        return;
    }
    packet->generation = 0;
    packet->port = port;
    if (postpone(sw, packet, WS_EVENT_REQUEUE, port))
        return;
    ws_trace_end(sw, packet, WS_TRACE_DROP_RECIRCULATE, port);
    ws_packet_free(packet);
}

/* Replicates `packet` (consumed) to `group`. `truncate_to` of a clone session holds for each replica. */
static void multicast(ws_switch *sw, struct ws_packet *packet, uint32_t group, uint32_t truncate_to)
{
    const struct ws_multicast *m = ws_multicast_find(&sw->replication, group);
    ws_trace(sw, packet, WS_TRACE_REPLICATE, group, m ? m->copies : 0, 0, 0, 0);
    if (!m) {
        sw->stats.multicast_unknown_group++;
        ws_trace_end(sw, packet, WS_TRACE_NO_GROUP, 0);
        ws_packet_free(packet);
        return;
    }
    for (uint32_t i = 0; i < m->n;) {
        const struct ws_replica *replica = ws_replica_next(sw, m, &i);
        struct ws_packet *copy = packet;
        if (i < m->n) {
            copy = copy_packet(sw, packet);
            if (!copy)
                continue;
            ws_trace_child(sw, copy, packet, WS_TRACE_REPLICA);
        } else {
            clear_requests(&copy->ctx);
        }
        copy->ctx.truncate_to = truncate_to;
        copy->phv->std.egress_rid = replica->rid;
        sw->stats.replicated++;
        enqueue(sw, replica->port, copy);
    }
}

/* Sends a clone (consumed) where its session says. */
static void send_clone(ws_switch *sw, struct ws_packet *clone, const struct ws_session *session)
{
    uint32_t truncate_to = session->truncate ? session->truncate : UINT32_MAX;
    sw->stats.cloned++;
    if (session->priority)
        clone->phv->std.priority = session->priority;
    if (session->group_valid) {
        struct ws_packet *replicated = clone;
        if (session->port_valid) {
            replicated = copy_packet(sw, clone);
            if (replicated)
                ws_trace_child(sw, replicated, clone, WS_TRACE_REPLICA);
        }
        if (replicated)
            multicast(sw, replicated, session->group, truncate_to);
    }
    if (session->port_valid) {
        clone->ctx.truncate_to = truncate_to;
        enqueue(sw, session->egress_port, clone);
    } else if (!session->group_valid) {
        ws_packet_free(clone);
    }
}

/* What every packet passes is compiled twice, for traced packets and for all others: these test once a pass. */
#define TWICE static inline __attribute__((always_inline))

TWICE void parse(ws_switch *sw, struct ws_packet *packet, const struct wp_pipeline *pipeline)
{
    struct wp_ctx *ctx = &packet->ctx;
    ctx->now = ws_ticks(sw);
    pipeline->parse(ctx, packet->phv);
}

/* --- ingress ------------------------------------------------------------------------------- */

void ws_pipeline_receive(ws_switch *sw, struct ws_packet *packet, uint32_t port)
{
    clear_phv(sw, packet);
    packet->ctx.env = &sw->program->env;
    packet->ingress_port = port;
    struct wp_std *std = &packet->phv->std;
    std->ingress_port = port;
    std->packet_length = packet->ctx.packet_length;
    std->ingress_global_timestamp = ws_ticks(sw) & TIMESTAMP_MASK;
}

/* The packet as it arrived, parsed again; metadata zero but for the preserved fields. */
static void clone_ingress(ws_switch *sw, struct ws_packet *packet, uint32_t arrived_length)
{
    struct wp_ctx *ctx = &packet->ctx;
    uint32_t field_list = ctx->clone_field_list;
    const struct ws_session *session = ws_session_find(&sw->replication, ctx->clone_session & SESSION_MASK);
    ws_trace(sw, packet, WS_TRACE_CLONE, WS_TRACE_INGRESS_CLONE, ctx->clone_session & SESSION_MASK, session != NULL, 0, 0);
    ctx->clone_session = 0;
    ctx->clone_field_list = 0;
    if (!session) {
        sw->stats.clone_unknown_session++;
        return;
    }
    struct ws_packet *clone = copy_frame(sw, packet, ctx->data, ctx->data_len);
    if (!clone)
        return;
    clone->ctx.packet_length = arrived_length;
    clone->phv->std.ingress_port = packet->ingress_port; /* parsers may branch on it */
    parse(sw, clone, sw->program->pipeline);
    if (clone->ctx.parser_error && clone->tail) {
        clone = ws_packet_unfold(clone);
        if (!clone)
            return;
        clear_phv(sw, clone);
        clone->phv->std.ingress_port = packet->ingress_port;
        parse(sw, clone, sw->program->pipeline);
    }
    sw->program->pipeline->reset_metadata(clone->phv);
    sw->program->pipeline->copy_field_list(field_list, clone->phv, packet->phv);
    clone->phv->std.instance_type = WP_INGRESS_CLONE;
    ws_trace_child(sw, clone, packet, WS_TRACE_INGRESS_CLONE);
    send_clone(sw, clone, session);
}

static void learn(ws_switch *sw, const struct ws_packet *packet)
{
    for (uint32_t i = 0; i < sw->program->pipeline->n_learns; i++) {
        const struct wp_learn_desc *desc = &sw->program->pipeline->learns[i];
        if (desc->json_id != packet->ctx.learn_list)
            continue;
        struct ws_packet *digest = ws_packet_new(&sw->program->pool, desc->bytes);
        if (!digest)
            return;
        sw->program->pipeline->learn(i, packet->phv, digest->frame);
        digest->kind = WS_OUT_DIGEST;
        digest->port = i;
        digest->out = digest->frame;
        digest->length = desc->bytes;
        digest->time = sw->now;
        sw->stats.digests++;
        ws_trace(sw, packet, WS_TRACE_DIGEST, i, 0, 0, 0, 0);
        if (!ws_output_add(&sw->outputs, digest)) {
            sw->stats.drop_no_memory++;
            ws_packet_free(digest);
        }
        return;
    }
}

/* Sends `packet` (consumed) into ingress again, later. */
static void reenter(ws_switch *sw, struct ws_packet *packet, uint64_t *counter)
{
    packet->generation = 0;
    if (postpone(sw, packet, WS_EVENT_REENTER, 0)) {
        ++*counter;
        return;
    }
    ws_trace_end(sw, packet, WS_TRACE_DROP_RECIRCULATE, 0);
    ws_packet_free(packet);
}

static void resubmit(ws_switch *sw, struct ws_packet *packet, uint32_t arrived_length)
{
    struct ws_packet *again = copy_frame(sw, packet, packet->ctx.data, packet->ctx.data_len);
    if (again) {
        sw->program->pipeline->copy_field_list(packet->ctx.resubmit_field_list & FIELD_LIST_MASK, again->phv, packet->phv);
        again->phv->std.instance_type = WP_RESUBMIT;
        again->phv->std.packet_length = arrived_length;
        again->ctx.packet_length = arrived_length;
        ws_trace_child(sw, again, packet, WS_TRACE_RESUBMIT);
        reenter(sw, again, &sw->stats.resubmitted);
    }
    ws_trace_end(sw, packet, WS_TRACE_RESUBMITTED, 0);
    ws_packet_free(packet);
}

/* The parser may have run into the tail: once more, with the whole packet. It came from a port: others were unfolded. */
WS_COLD static struct ws_packet *parse_whole(ws_switch *sw, struct ws_packet *packet)
{
    packet = ws_packet_unfold(packet);
    if (packet) {
        ws_pipeline_receive(sw, packet, packet->ingress_port);
        parse(sw, packet, sw->program->pipeline);
    }
    return packet;
}

TWICE void ingress(ws_switch *sw, struct ws_packet *packet, const struct wp_pipeline *pipeline, const int traced)
{
    struct wp_ctx *ctx = &packet->ctx;
    struct wp_std *std = &packet->phv->std;
    const uint32_t arrived_length = ctx->packet_length;
    sw->stats.ingress++;
    if (traced)
        ws_trace_note(sw, packet, WS_TRACE_INGRESS, std->ingress_port, 0, 0, 0, 0);
    parse(sw, packet, pipeline);
    if (__builtin_expect(ctx->parser_error && packet->tail, 0)) {
        ctx->packet_length = arrived_length;
        packet = parse_whole(sw, packet);
        if (!packet)
            return;
        ctx = &packet->ctx;
        std = &packet->phv->std;
    }
    std->parser_error = ctx->parser_error;
    std->checksum_error = ctx->checksum_error != 0;
    sw->stats.parser_errors += ctx->parser_error != 0;
    if (traced)
        ws_trace_note(sw, packet, WS_TRACE_PARSED, ctx->parsed_len, ctx->parser_error, ctx->checksum_error, 0, 0);
    pipeline->ingress(ctx, packet->phv);
    ctx->exit_flag = 0;

    if (ctx->clone_session)
        clone_ingress(sw, packet, arrived_length);
    if (ctx->learn_list)
        learn(sw, packet);
    if (ctx->resubmit_field_list) {
        resubmit(sw, packet, arrived_length);
        return;
    }
    if (std->mcast_grp) {
        std->instance_type = WP_REPLICATION;
        multicast(sw, packet, std->mcast_grp, UINT32_MAX);
        return;
    }
    if (std->egress_spec == sw->config.drop_port) {
        sw->stats.drop_ingress++;
        ws_trace_end(sw, packet, WS_TRACE_DROP_INGRESS, std->egress_spec);
        ws_packet_free(packet);
        return;
    }
    std->instance_type = WP_NORMAL;
    ws_port_enqueue(sw, std->egress_spec, packet);
}

WS_COLD static void ingress_traced(ws_switch *sw, struct ws_packet *packet)
{
    ingress(sw, packet, sw->program->variant.pipeline, 1);
}

void ws_ingress(ws_switch *sw, struct ws_packet *packet)
{
    /* What enters again has metadata that a second parse would not find; a trace shows the parser's states once. */
    if (__builtin_expect(packet->tail != 0, 0) &&
        (packet->trace || sw->program->pipeline->reads_payload || packet->phv->std.instance_type != WP_NORMAL)) {
        packet = ws_packet_unfold(packet);
        if (!packet)
            return;
    }
    if (packet->trace)
        ingress_traced(sw, packet);
    else
        ingress(sw, packet, sw->program->pipeline, 0);
}

/* --- egress -------------------------------------------------------------------------------- */

/* The packet as it is at the end of egress, not parsed again; metadata zero but for the preserved fields. */
static void clone_egress(ws_switch *sw, struct ws_packet *packet)
{
    struct wp_ctx *ctx = &packet->ctx;
    uint32_t field_list = ctx->clone_field_list;
    const struct ws_session *session = ws_session_find(&sw->replication, ctx->clone_session & SESSION_MASK);
    ws_trace(sw, packet, WS_TRACE_CLONE, WS_TRACE_EGRESS_CLONE, ctx->clone_session & SESSION_MASK, session != NULL, 0, 0);
    ctx->clone_session = 0;
    ctx->clone_field_list = 0;
    if (!session) {
        sw->stats.clone_unknown_session++;
        return;
    }
    struct ws_packet *clone = copy_packet(sw, packet);
    if (!clone)
        return;
    sw->program->pipeline->reset_metadata(clone->phv);
    sw->program->pipeline->copy_field_list(field_list, clone->phv, packet->phv);
    clone->phv->std.instance_type = WP_EGRESS_CLONE;
    clone->generation++;
    ws_trace_child(sw, clone, packet, WS_TRACE_EGRESS_CLONE);
    send_clone(sw, clone, session);
}

/* Puts the headers in front of the payload; the headroom holds the longest that the program can write. */
TWICE void deparse(ws_switch *sw, struct ws_packet *packet, const struct wp_pipeline *pipeline, const int traced)
{
    struct wp_ctx *ctx = &packet->ctx;
    uint32_t header = pipeline->deparse(ctx, packet->phv, sw->program->headers);
    packet->out = packet->frame + ctx->parsed_len - header;
    packet->length = header + ctx->data_len - ctx->parsed_len;
    memcpy(packet->out, sw->program->headers, header);
    if (traced)
        ws_trace_note(sw, packet, WS_TRACE_DEPARSED, header, 0, 0, ws_packet_total(packet), 0);
}

static void recirculate(ws_switch *sw, struct ws_packet *packet)
{
    struct ws_packet *again = copy_frame(sw, packet, packet->out, packet->length);
    if (!again) {
        sw->stats.drop_recirculate += packet->length + packet->tail > WS_PACKET_BIG; /* it has grown */
        ws_trace_end(sw, packet, WS_TRACE_DROP_RECIRCULATE, 0);
        return;
    }
    sw->program->pipeline->copy_field_list(packet->ctx.recirc_field_list & FIELD_LIST_MASK, again->phv, packet->phv);
    again->phv->std.instance_type = WP_RECIRC;
    again->phv->std.packet_length = ws_packet_total(packet);
    again->ctx.ingress_length = ws_packet_total(packet);
    ws_trace_child(sw, again, packet, WS_TRACE_RECIRCULATE);
    reenter(sw, again, &sw->stats.recirculated);
}

TWICE int egress(ws_switch *sw, struct ws_packet *packet, uint32_t port, uint32_t depth,
                 const struct wp_pipeline *pipeline, const int traced)
{
    struct wp_ctx *ctx = &packet->ctx;
    struct wp_std *std = &packet->phv->std;
    const uint32_t drop_port = sw->config.drop_port;
    sw->stats.egress++;
    ctx->now = ws_ticks(sw);
    std->egress_global_timestamp = ctx->now & TIMESTAMP_MASK;
    std->deq_timedelta = (ctx->now - std->enq_timestamp) & UINT32_MAX;
    std->deq_qdepth = depth;
    std->qid = packet->priority;
    std->egress_port = port;
    /* Any other value than the drop port, cut to egress_spec's 9 bits as BMv2 does. */
    std->egress_spec = drop_port <= 0x1ff ? (drop_port + 1) & 0x1ff : drop_port + 1;
    std->packet_length = ctx->packet_length;
    if (traced)
        ws_trace_note(sw, packet, WS_TRACE_EGRESS, port, packet->priority, depth, 0, 0);

    sw->in_egress = 1;
    pipeline->egress(ctx, packet->phv);
    if (ctx->clone_session)
        clone_egress(sw, packet);
    sw->in_egress = 0;

    if (std->egress_spec == drop_port) {
        sw->stats.drop_egress++;
        ws_trace_end(sw, packet, WS_TRACE_DROP_EGRESS, port);
        ws_packet_free(packet);
        return 0;
    }
    deparse(sw, packet, pipeline, traced);
    if (ctx->recirc_field_list) {
        recirculate(sw, packet);
        ws_trace_end(sw, packet, WS_TRACE_RECIRCULATED, port);
        ws_packet_free(packet);
        return 0;
    }
    if (ws_packet_total(packet) > ctx->truncate_to) {
        if (packet->length > ctx->truncate_to)
            packet->length = ctx->truncate_to;
        packet->tail = ctx->truncate_to - packet->length;
    }
    return 1;
}

WS_COLD static int egress_traced(ws_switch *sw, struct ws_packet *packet, uint32_t port, uint32_t depth)
{
    return egress(sw, packet, port, depth, sw->program->variant.pipeline, 1);
}

int ws_egress(ws_switch *sw, struct ws_packet *packet, uint32_t port, uint32_t depth)
{
    struct ws_program *current = sw->program;
    sw->program = packet->pool->program; /* the one that parsed it */
    int leaves = packet->trace ? egress_traced(sw, packet, port, depth)
                               : egress(sw, packet, port, depth, sw->program->pipeline, 0);
    sw->program = current;
    return leaves;
}
