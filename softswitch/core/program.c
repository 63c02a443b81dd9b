#include "program.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "switch.h"
#include "table.h"
#include "trace.h"

enum {
    LOG_LINE_MAX = 1024,
    LOG_MESSAGE = 0, /* kinds of env->log */
    LOG_ASSERT = 1,
    LOG_ENDLESS = 3,
};
static const ws_time ENDLESS_LOG_PS = 1000000000000; /* one line a second, however many packets */

/* --- what generated code calls -------------------------------------------------------------- */

static uint64_t next_random(const struct wp_env *env) /* splitmix64 */
{
    ws_switch *sw = env->core;
    uint64_t z = sw->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Counts a packet that goes round for ever; 0 while the last one's line is recent. */
static int endless(ws_switch *sw)
{
    const ws_time last = sw->endless_logged_at;
    if (sw->stats.endless_passes++ && sw->now - last < ENDLESS_LOG_PS)
        return 0;
    sw->endless_logged_at = sw->now;
    return 1;
}

static void log_line(const struct wp_ctx *ctx, uint32_t kind, const char *format, uint32_t n,
                     const uint64_t *values)
{
    ws_switch *sw = ctx->env->core;
    if (kind == LOG_ASSERT)
        sw->stats.assert_failures++;
    const int due = kind != LOG_ENDLESS || endless(sw), logged = due && sw->log;
    if (!logged && !sw->trace)
        return;
    char line[LOG_LINE_MAX];
    size_t used = 0;
    uint32_t next = 0;
    for (const char *c = format; *c && used + 1 < sizeof line; c++) {
        if (c[0] == '{' && c[1] == '}' && next < n) {
            int written = snprintf(line + used, sizeof line - used, "%llu", (unsigned long long)values[next++]);
            used += (size_t)written < sizeof line - used ? (size_t)written : sizeof line - used - 1;
            c++;
        } else {
            line[used++] = *c;
        }
    }
    line[used] = '\0';
    ws_trace_text(sw, ws_packet_of(ctx), kind, line);
    if (logged)
        sw->log(sw->log_opaque, (int)kind, line);
}

/* --- life ------------------------------------------------------------------------------------ */

static int fail(ws_switch *sw, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(sw->error, sizeof sw->error, format, args);
    va_end(args);
    return status;
}

void *ws_program_open(ws_switch *sw, const char *so_path, const struct wp_pipeline **pipeline)
{
    char path[PATH_MAX];
    if (!realpath(so_path, path)) {
        fail(sw, WS_ELOAD, "%s: no such file", so_path);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fail(sw, WS_ELOAD, "%s", dlerror());
        return NULL;
    }
    const struct wp_pipeline *found = dlsym(library, "weft_pipeline");
    int status = WS_OK;
    if (!found)
        status = fail(sw, WS_ELOAD, "%s: no symbol weft_pipeline, so not a compiled pipeline", path);
    else if (found->abi_version != WP_ABI_VERSION)
        status = fail(sw, WS_ELOAD, "%s: pipeline ABI %u.%u, this switch has %u.%u: compile the program again, "
                      "or start the switch again if its sources changed", path,
                      found->abi_version & UINT16_MAX, found->abi_version >> 16,
                      WP_ABI_VERSION & UINT16_MAX, WP_ABI_VERSION >> 16);
    else if (found->phv_size < sizeof(struct wp_std))
        status = fail(sw, WS_ELOAD, "%s: PHV of %u bytes lacks the standard metadata", path, found->phv_size);
    *pipeline = found;
    if (status == WS_OK)
        return library;
    dlclose(library);
    return NULL;
}

static int make_state(ws_switch *sw, struct ws_program *program)
{
    const struct wp_pipeline *pipeline = program->pipeline;
    program->env = (struct wp_env){
        .core = sw,
        .drop_port = sw->config.drop_port,
        .select = ws_profile_select,
        .meter = ws_meter_execute,
        .direct_meter = ws_meter_execute_direct,
        .random = next_random,
        .log = log_line,
        .trace = ws_trace_step,
    };
    ws_pool_init(&program->pool, program, pipeline->phv_size, pipeline->max_header_bytes,
                 &sw->stats.drop_no_memory);
    program->headers = malloc((size_t)pipeline->max_header_bytes + 1);
    int status = program->headers ? WS_OK : WS_ENOMEM;
    if (status == WS_OK)
        status = ws_tables_create(pipeline, &program->env.tables, sw->error, sizeof sw->error);
    if (status == WS_OK)
        status = ws_arrays_create(pipeline, &program->env);
    if (status == WS_OK)
        status = ws_profiles_create(pipeline, &program->profiles);
    if (status == WS_OK)
        status = ws_meters_create(pipeline, &program->meters);
    return status;
}

struct ws_program *ws_program_load(ws_switch *sw, const char *so_path, int *status)
{
    *status = WS_ELOAD;
    const struct wp_pipeline *pipeline = NULL;
    void *library = ws_program_open(sw, so_path, &pipeline);
    if (!library)
        return NULL;
    struct ws_program *program = ws_memory_get(sizeof *program);
    fail(sw, WS_ENOMEM, "%s: out of memory", so_path);
    if (!program) {
        *status = WS_ENOMEM;
        dlclose(library);
        return NULL;
    }
    program->library = library;
    program->pipeline = pipeline;
    *status = make_state(sw, program);
    if (*status == WS_OK)
        return program;
    ws_program_free(program);
    return NULL;
}

void ws_program_free(struct ws_program *program)
{
    if (!program)
        return;
    const struct wp_pipeline *pipeline = program->pipeline;
    ws_pool_free(&program->pool);
    free(program->headers);
    if (program->env.tables)
        ws_tables_destroy(pipeline, program->env.tables);
    if (program->env.registers)
        ws_arrays_destroy(pipeline, &program->env);
    ws_profiles_destroy(pipeline, program->profiles);
    ws_meters_destroy(pipeline, program->meters);
    if (program->variant.library)
        dlclose(program->variant.library);
    free(program->variant.shadow);
    dlclose(program->library);
    ws_memory_put(program, sizeof *program);
}

void ws_programs_collect(ws_switch *sw)
{
    struct ws_program **link = &sw->retired;
    while (*link) {
        struct ws_program *program = *link;
        if (program->pool.live) {
            link = &program->next;
            continue;
        }
        *link = program->next;
        ws_program_free(program);
    }
}

/* --- from one program to the next --------------------------------------------------------------- */

static int may_keep(const struct ws_program *from, const struct ws_program *to, const struct ws_keep *keep)
{
    const struct wp_pipeline *a = from->pipeline, *b = to->pipeline;
    switch ((enum ws_keep_kind)keep->kind) {
    case WS_KEEP_REGISTER:
        return keep->old_index < a->n_registers && keep->new_index < b->n_registers &&
               from->env.registers[keep->old_index].limbs == to->env.registers[keep->new_index].limbs;
    case WS_KEEP_COUNTER:
        return keep->old_index < a->n_counters && keep->new_index < b->n_counters;
    case WS_KEEP_METER:
        return keep->old_index < a->n_meters && keep->new_index < b->n_meters &&
               from->meters[keep->old_index].bytes == to->meters[keep->new_index].bytes;
    case WS_KEEP_ENTRY:
        return keep->old_index < a->n_tables && keep->new_index < b->n_tables &&
               ws_table_entry(from->env.tables[keep->old_index], keep->old_handle) &&
               ws_table_entry(to->env.tables[keep->new_index], keep->new_handle);
    }
    return 0;
}

static void keep_one(struct ws_program *from, struct ws_program *to, const struct ws_keep *keep)
{
    switch ((enum ws_keep_kind)keep->kind) {
    case WS_KEEP_REGISTER:
        ws_register_keep(&to->env.registers[keep->new_index], &from->env.registers[keep->old_index]);
        break;
    case WS_KEEP_COUNTER:
        ws_counter_keep(&to->env.counters[keep->new_index], &from->env.counters[keep->old_index]);
        break;
    case WS_KEEP_METER:
        ws_meter_keep(&to->meters[keep->new_index], &from->meters[keep->old_index]);
        break;
    case WS_KEEP_ENTRY:
        ws_table_entry_keep(ws_table_entry(to->env.tables[keep->new_index], keep->new_handle),
                            ws_table_entry(from->env.tables[keep->old_index], keep->old_handle));
        break;
    }
}

int ws_adopt(ws_switch *sw, ws_switch *donor, const struct ws_keep *keep, size_t n)
{
    if (!donor->program)
        return fail(sw, WS_EINVAL, "the donor runs no program");
    struct ws_program *from = sw->program, *to = donor->program;
    for (size_t i = 0; i < n; i++)
        if (!from || !may_keep(from, to, &keep[i]))
            return fail(sw, WS_EINVAL, "item %zu to keep does not exist or has another shape", i);
    for (size_t i = 0; i < n; i++)
        keep_one(from, to, &keep[i]);
    /* The donor's own packets, if any, go nowhere; its packets' pool moves along with the program. */
    donor->program = NULL;
    to->env.core = sw;
    to->pool.refused = &sw->stats.drop_no_memory;
    to->number = ++sw->programs;
    struct ws_replication replication = sw->replication;
    sw->replication = donor->replication;
    donor->replication = replication;
    sw->program = to;
    if (from) {
        from->next = sw->retired;
        sw->retired = from;
    }
    ws_profiles_follow_ports(sw); /* they were made where all ports are up */
    ws_programs_collect(sw);
    return WS_OK;
}

struct ws_packet *ws_program_adopt_packet(ws_switch *sw, struct ws_packet *packet)
{
    struct ws_packet *copy = ws_packet_new(&sw->program->pool, packet->ctx.data_len);
    if (copy) {
        memcpy(copy->frame, packet->ctx.data, packet->ctx.data_len);
        memset(copy->phv, 0, sw->program->pool.phv_size);
        copy->phv->std = packet->phv->std;
        copy->ctx.env = &sw->program->env;
        copy->tail = packet->tail;
        copy->tail_seed = packet->tail_seed;
        copy->ctx.packet_length = packet->ctx.packet_length;
        copy->ctx.ingress_length = packet->ctx.ingress_length;
        copy->ingress_port = packet->ingress_port;
        copy->port = packet->port;
        copy->generation = packet->generation;
        copy->class_in = packet->class_in;
    }
    ws_packet_free(packet);
    return copy;
}
