#include "trace.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"
#include "switch.h"
#include "tuple_space.h"

struct tracer {
    int used;
    struct ws_filter_insn *filter;
    uint32_t filter_n;
    uint32_t *ports;
    uint32_t ports_n;
    uint64_t left; /* packets that it still takes */
};

struct ws_trace {
    struct tracer tracers[WS_TRACERS_MAX];
    uint8_t *buffer; /* records, oldest first */
    size_t capacity, used;
    int gap;
    struct ws_trace_stats stats;
};

static size_t padded(size_t n) { return (n + 7) & ~(size_t)7; }

/* --- records ------------------------------------------------------------------------------------ */

static struct ws_trace_record *reserve(struct ws_trace *trace, size_t size)
{
    if (size > trace->capacity - trace->used) {
        trace->stats.lost++;
        trace->gap = 1;
        return NULL;
    }
    struct ws_trace_record *record = (struct ws_trace_record *)(trace->buffer + trace->used);
    trace->used += size;
    *record = (struct ws_trace_record){.size = (uint32_t)size, .flags = trace->gap ? WS_TRACE_GAP : 0};
    trace->gap = 0;
    return record;
}

static struct ws_trace_record *label(struct ws_trace_record *record, const ws_switch *sw,
                                     const struct ws_packet *packet, uint32_t kind, uint32_t data_len)
{
    record->kind = (uint16_t)kind;
    record->packet = packet->trace_root;
    record->branch = packet->trace;
    record->program = packet->pool->program->number;
    record->data_len = data_len;
    record->at = sw->now;
    memset((uint8_t *)(record + 1) + data_len, 0, padded(data_len) - data_len);
    return record;
}

/* A record with `data_len` bytes for the caller to fill; NULL when there is no room (or no tracer any more). */
static struct ws_trace_record *put(ws_switch *sw, const struct ws_packet *packet, uint32_t kind, uint32_t data_len)
{
    struct ws_trace_record *record =
        sw->trace ? reserve(sw->trace, sizeof *record + padded(data_len)) : NULL;
    return record ? label(record, sw, packet, kind, data_len) : NULL;
}

/* The same, with what changed in the PHV. */
static struct ws_trace_record *put_phv(ws_switch *sw, const struct ws_packet *packet, uint32_t kind,
                                       uint32_t data_len)
{
    struct ws_program *program = packet->pool->program;
    struct ws_variant *variant = &program->variant;
    const uint32_t n = program->pipeline->phv_size / sizeof(uint32_t);
    if (!sw->trace)
        return NULL;
    uint16_t flags = 0;
    if (variant->shadow_branch != packet->trace) {
        memset(variant->shadow, 0, n * sizeof(uint32_t));
        variant->shadow_branch = packet->trace;
        flags = WS_TRACE_WHOLE;
    }
    const uint8_t *phv = (const uint8_t *)packet->phv;
    uint32_t words = 0;
    for (uint32_t i = 0; i < n; i++)
        words += memcmp(&variant->shadow[i], phv + i * sizeof(uint32_t), sizeof(uint32_t)) != 0;
    struct ws_trace_record *record =
        reserve(sw->trace, sizeof *record + padded(data_len) + words * sizeof(struct ws_trace_word));
    if (!record) {
        variant->shadow_branch = 0;
        return NULL;
    }
    label(record, sw, packet, kind, data_len);
    record->flags |= flags;
    record->words = words;
    struct ws_trace_word *word = (struct ws_trace_word *)((uint8_t *)(record + 1) + padded(data_len));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value;
        memcpy(&value, phv + i * sizeof value, sizeof value);
        if (value == variant->shadow[i])
            continue;
        *word++ = (struct ws_trace_word){i, value};
        variant->shadow[i] = value;
    }
    return record;
}

static void look_up(ws_switch *sw, const struct ws_packet *packet, const struct wp_trace_step *step)
{
    const struct wp_pipeline *pipeline = packet->pool->program->pipeline;
    const struct wp_table_desc *table = &pipeline->tables[step->object];
    const uint32_t key = table->key_bytes, action = step->run->action;
    const uint32_t args =
        action < pipeline->n_actions ? pipeline->actions[action].limbs * (uint32_t)sizeof(uint64_t) : 0;
    const struct ws_entry *entry = ws_entry_of(step->entry);
    const int hit = step->entry->hit && key;
    struct ws_trace_record *record = put_phv(sw, packet, step->kind, key * (hit ? 3 : 1) + args);
    if (!record)
        return;
    record->a = step->object;
    record->b = (step->entry->hit ? 1u : 0) | (step->entry->group ? 2u : 0);
    record->c = action;
    uint8_t *data = (uint8_t *)(record + 1);
    memcpy(data, step->key, key);
    data += key;
    if (hit) {
        record->x = entry->handle;
        record->y = (uint64_t)(int64_t)entry->priority;
        memcpy(data, entry->low, key);
        memcpy(data + key, entry->high, key);
        data += 2 * key;
    }
    memcpy(data, step->run->args, args);
}

void ws_trace_step(const struct wp_ctx *ctx, const struct wp_phv *phv, const struct wp_trace_step *step)
{
    (void)phv;
    ws_switch *sw = ctx->env->core;
    const struct ws_packet *packet = ws_packet_of(ctx);
    if (step->kind == WP_TRACE_TABLE) {
        look_up(sw, packet, step);
        return;
    }
    /* Arrays are used in the middle of an action, whose changes belong to its own record. */
    struct ws_trace_record *record =
        step->kind < WP_TRACE_REGISTER_READ ? put_phv(sw, packet, step->kind, 0) : put(sw, packet, step->kind, 0);
    if (!record)
        return;
    record->a = step->object;
    record->x = step->index;
    record->y = step->value;
}

/* --- from the core ------------------------------------------------------------------------------ */

static uint32_t next_branch(ws_switch *sw)
{
    if (++sw->trace_branches == 0)
        sw->trace_branches = 1;
    return sw->trace_branches;
}

static int takes(const struct tracer *tracer, const struct ws_packet *packet, uint32_t port)
{
    if (!tracer->used || !tracer->left)
        return 0;
    uint32_t i = 0;
    while (i < tracer->ports_n && tracer->ports[i] != port)
        i++;
    if (tracer->ports_n && i == tracer->ports_n)
        return 0;
    return !tracer->filter_n || ws_filter_run(tracer->filter, packet->frame, packet->ctx.data_len);
}

void ws_trace_arrived(ws_switch *sw, struct ws_packet *packet, uint32_t port)
{
    struct ws_trace *trace = sw->trace;
    uint64_t mask = 0;
    for (int t = 0; t < WS_TRACERS_MAX; t++)
        if (takes(&trace->tracers[t], packet, port))
            mask |= 1u << t;
    if (!mask)
        return;
    if (!packet->pool->program->variant.pipeline || trace->capacity - trace->used <= trace->capacity / 4) {
        trace->stats.missed++;
        return;
    }
    trace->stats.packets++;
    for (int t = 0; t < WS_TRACERS_MAX; t++)
        if (mask >> t & 1)
            trace->tracers[t].left--;
    packet->trace = packet->trace_root = next_branch(sw);
    uint32_t length = packet->ctx.data_len, snap = length < WS_TRACE_SNAP ? length : WS_TRACE_SNAP;
    struct ws_trace_record *record = put(sw, packet, WS_TRACE_BEGIN, snap);
    if (!record)
        return;
    record->a = WS_TRACE_RECEIVED;
    record->c = port;
    record->x = length;
    record->y = mask;
    memcpy(record + 1, packet->frame, snap);
}

void ws_trace_begin_child(ws_switch *sw, struct ws_packet *child, const struct ws_packet *parent,
                          enum ws_trace_origin origin)
{
    if (!child->pool->program->variant.pipeline)
        return; /* of a program that was loaded since */
    child->trace_root = parent->trace_root;
    child->trace = next_branch(sw);
    struct ws_trace_record *record = put(sw, child, WS_TRACE_BEGIN, 0);
    if (!record)
        return;
    record->a = origin;
    record->b = parent->trace;
    record->c = parent->ingress_port;
    record->x = child->ctx.packet_length;
}

void ws_trace_note(ws_switch *sw, const struct ws_packet *packet, enum ws_trace_kind kind, uint32_t a, uint32_t b,
                   uint32_t c, uint64_t x, uint64_t y)
{
    struct ws_trace_record *record =
        kind < WS_TRACE_CLONE ? put_phv(sw, packet, kind, 0) : put(sw, packet, kind, 0);
    if (!record)
        return;
    record->a = a;
    record->b = b;
    record->c = c;
    record->x = x;
    record->y = y;
}

void ws_trace_queued(ws_switch *sw, const struct ws_packet *packet, const struct ws_port *port)
{
    const struct ws_queue *queue = &port->queues[packet->priority];
    ws_trace_note(sw, packet, WS_TRACE_ENQUEUE, port->number, packet->priority, packet->phv->std.enq_qdepth, queue->packets,
                  queue->bytes);
}

void ws_trace_sent(ws_switch *sw, struct ws_packet *packet)
{
    ws_trace_finish(sw, packet, packet->kind == WS_OUT_CPU ? WS_TRACE_TO_CPU : WS_TRACE_SENT, packet->port);
}

void ws_trace_text(ws_switch *sw, const struct ws_packet *packet, uint32_t kind, const char *text)
{
    if (!packet->trace)
        return;
    uint32_t length = (uint32_t)strlen(text);
    struct ws_trace_record *record = put(sw, packet, WS_TRACE_LOG, length);
    if (!record)
        return;
    record->a = kind;
    memcpy(record + 1, text, length);
}

void ws_trace_finish(ws_switch *sw, struct ws_packet *packet, enum ws_trace_end why, uint32_t port)
{
    const int sent = why == WS_TRACE_SENT || why == WS_TRACE_TO_CPU;
    struct ws_trace_record *record = put(sw, packet, WS_TRACE_END, 0);
    packet->trace = 0;
    if (!record)
        return;
    record->a = why;
    record->b = port;
    record->x = sent ? packet->length : packet->ctx.packet_length;
    if (sent)
        record->at = packet->time;
}

void ws_trace_gone(struct ws_packet *packet)
{
    ws_switch *sw = packet->pool->program->env.core;
    ws_trace_finish(sw, packet, WS_TRACE_GONE, packet->port);
}

void ws_trace_unloaded(ws_switch *sw)
{
    struct ws_trace_record *record = sw->trace && sw->program ? reserve(sw->trace, sizeof *record) : NULL;
    if (!record)
        return;
    record->kind = WS_TRACE_UNLOADED;
    record->program = sw->program->number;
    record->at = sw->now;
}

/* --- public ------------------------------------------------------------------------------------- */

static int refuse(ws_switch *sw, void *library, const char *path, const char *why)
{
    snprintf(sw->error, sizeof sw->error, "%.300s: %s", path, why);
    if (library)
        dlclose(library);
    return WS_ELOAD;
}

int ws_trace_variant(ws_switch *sw, const char *so_path)
{
    struct ws_program *program = sw->program;
    if (!program)
        return WS_ENOENT;
    if (program->variant.pipeline)
        return WS_OK;
    const struct wp_pipeline *pipeline = NULL;
    void *library = ws_program_open(sw, so_path, &pipeline);
    if (!library)
        return WS_ELOAD;
    const struct wp_trace *layout = dlsym(library, "weft_trace");
    if (!layout)
        return refuse(sw, library, so_path, "not a traced variant of a pipeline");
    if (!pipeline->layout || !program->pipeline->layout || strcmp(pipeline->layout, program->pipeline->layout) != 0 ||
        pipeline->phv_size != program->pipeline->phv_size || pipeline->phv_size % sizeof(uint32_t))
        return refuse(sw, library, so_path, "the traced variant of another program than the one that runs");
    uint32_t *shadow = malloc(pipeline->phv_size);
    if (!shadow) {
        refuse(sw, library, so_path, "out of memory");
        return WS_ENOMEM;
    }
    program->variant = (struct ws_variant){.library = library, .pipeline = pipeline, .layout = layout, .shadow = shadow};
    return WS_OK;
}

const struct wp_trace *ws_trace_layout(const ws_switch *sw)
{
    return sw->program ? sw->program->variant.layout : NULL;
}

static struct ws_trace *trace_new(size_t capacity)
{
    struct ws_trace *trace = calloc(1, sizeof *trace);
    uint8_t *buffer = trace ? malloc(capacity) : NULL;
    if (!buffer) {
        free(trace);
        return NULL;
    }
    trace->buffer = buffer;
    trace->capacity = capacity;
    return trace;
}

static void tracer_free(struct tracer *tracer)
{
    free(tracer->filter);
    free(tracer->ports);
    *tracer = (struct tracer){0};
}

void ws_trace_free(ws_switch *sw)
{
    if (!sw->trace)
        return;
    for (int t = 0; t < WS_TRACERS_MAX; t++)
        tracer_free(&sw->trace->tracers[t]);
    free(sw->trace->buffer);
    free(sw->trace);
    sw->trace = NULL;
}

/* 0 when memory is out. */
static int copy_array(void *copy, const void *array, size_t n, size_t size)
{
    void *made = n ? malloc(n * size) : NULL;
    if (made)
        memcpy(made, array, n * size);
    memcpy(copy, &made, sizeof made);
    return !n || made;
}

int ws_trace_start(ws_switch *sw, const struct ws_trace_request *request, size_t capacity)
{
    if (request->filter_n && !ws_filter_valid(request->filter, request->filter_n))
        return WS_EINVAL;
    if (!sw->trace && !(sw->trace = trace_new(capacity)))
        return WS_ENOMEM;
    int t = 0;
    while (t < WS_TRACERS_MAX && sw->trace->tracers[t].used)
        t++;
    if (t == WS_TRACERS_MAX)
        return WS_EFULL;
    struct tracer *tracer = &sw->trace->tracers[t];
    *tracer = (struct tracer){
        .used = 1,
        .filter_n = request->filter_n,
        .ports_n = request->ports_n,
        .left = request->limit ? request->limit : UINT64_MAX,
    };
    sw->trace->stats.tracers++;
    if (copy_array(&tracer->filter, request->filter, request->filter_n, sizeof *request->filter) &&
        copy_array(&tracer->ports, request->ports, request->ports_n, sizeof *request->ports))
        return t;
    ws_trace_stop(sw, (uint32_t)t);
    return WS_ENOMEM;
}

int ws_trace_stop(ws_switch *sw, uint32_t tracer)
{
    if (!sw->trace || tracer >= WS_TRACERS_MAX || !sw->trace->tracers[tracer].used)
        return WS_ENOENT;
    tracer_free(&sw->trace->tracers[tracer]);
    if (--sw->trace->stats.tracers == 0)
        ws_trace_free(sw);
    return WS_OK;
}

size_t ws_trace_read(ws_switch *sw, uint8_t *buffer, size_t size)
{
    struct ws_trace *trace = sw->trace;
    size_t taken = 0;
    while (trace && taken < trace->used) {
        uint32_t next;
        memcpy(&next, trace->buffer + taken, sizeof next); /* `size` is a record's first member */
        if (next > size - taken)
            break;
        taken += next;
    }
    if (!taken)
        return 0;
    memcpy(buffer, trace->buffer, taken);
    trace->used -= taken;
    memmove(trace->buffer, trace->buffer + taken, trace->used);
    return taken;
}

void ws_trace_stats_get(const ws_switch *sw, struct ws_trace_stats *stats)
{
    *stats = sw->trace ? sw->trace->stats : (struct ws_trace_stats){0};
    stats->ready = sw->program && sw->program->variant.pipeline;
}
