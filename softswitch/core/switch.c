#include "switch.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "pipeline.h"
#include "table.h"

enum {
    LOG_LINE_MAX = 1024,
    LOG_MESSAGE = 0, /* kinds of env->log */
    LOG_ASSERT = 1,
};

/* --- what generated code calls -------------------------------------------------------------- */

static uint64_t next_random(const struct wp_env *env) /* splitmix64 */
{
    ws_switch *sw = env->core;
    uint64_t z = sw->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void log_line(const struct wp_ctx *ctx, uint32_t kind, const char *format, uint32_t n,
                     const uint64_t *values)
{
    ws_switch *sw = ctx->env->core;
    if (kind == LOG_ASSERT)
        sw->stats.assert_failures++;
    if (!sw->log)
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
    sw->log(sw->log_opaque, (int)kind, line);
}

/* --- life ------------------------------------------------------------------------------------ */

void ws_config_default(struct ws_config *config)
{
    *config = (struct ws_config){
        .drop_port = 511,
        .priorities = 1,
        .tick_ps = 1000000,
        .queue_packets = 64,
        .recirculate_ps = 1000000,
        .recirculate_packets = 1024,
        .seed = 1,
    };
}

ws_switch *ws_create(const struct ws_config *config)
{
    if (config->priorities < 1 || config->priorities > WS_PRIORITIES_MAX || config->tick_ps <= 0 ||
        config->recirculate_ps <= 0)
        return NULL;
    ws_switch *sw = calloc(1, sizeof *sw);
    if (!sw)
        return NULL;
    sw->config = *config;
    sw->random = config->seed;
    return sw;
}

static void forget_packets(ws_switch *sw)
{
    ws_ports_forget_packets(&sw->ports);
    ws_events_free(&sw->events);
    ws_outputs_free(&sw->outputs);
    ws_pool_free(&sw->pool);
    sw->waiting = 0;
}

static void unload(ws_switch *sw)
{
    forget_packets(sw);
    free(sw->headers);
    sw->headers = NULL;
    ws_replication_free(&sw->replication);
    if (!sw->pipeline)
        return;
    ws_tables_destroy(sw->pipeline, sw->env.tables);
    ws_profiles_destroy(sw->pipeline, sw->profiles);
    ws_arrays_destroy(sw->pipeline, &sw->env);
    ws_meters_destroy(sw->pipeline, sw->meters);
    sw->pipeline = NULL;
    dlclose(sw->library);
    sw->library = NULL;
}

void ws_destroy(ws_switch *sw)
{
    if (!sw)
        return;
    unload(sw);
    ws_ports_free(&sw->ports);
    free(sw);
}

static int fail(ws_switch *sw, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(sw->error, sizeof sw->error, format, args);
    va_end(args);
    return status;
}

int ws_load(ws_switch *sw, const char *so_path)
{
    char path[PATH_MAX];
    if (!realpath(so_path, path))
        return fail(sw, WS_ELOAD, "%s: no such file", so_path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(sw, WS_ELOAD, "%s", dlerror());
    const struct wp_pipeline *pipeline = dlsym(library, "weft_pipeline");
    int status = WS_OK;
    if (!pipeline)
        status = fail(sw, WS_ELOAD, "%s: no symbol weft_pipeline, so not a compiled pipeline", path);
    else if (pipeline->abi_version != WP_ABI_VERSION)
        status = fail(sw, WS_ELOAD, "%s: pipeline ABI %u, this switch has %u: compile the program again", path,
                      pipeline->abi_version, WP_ABI_VERSION);
    else if (pipeline->phv_size < sizeof(struct wp_std))
        status = fail(sw, WS_ELOAD, "%s: PHV of %u bytes lacks the standard metadata", path, pipeline->phv_size);
    if (status != WS_OK) {
        dlclose(library);
        return status;
    }

    struct wp_env env = {
        .core = sw,
        .drop_port = sw->config.drop_port,
        .select = ws_profile_select,
        .meter = ws_meter_execute,
        .direct_meter = ws_meter_execute_direct,
        .random = next_random,
        .log = log_line,
    };
    struct ws_profile *profiles = NULL;
    struct ws_meter_array *meters = NULL;
    uint8_t *headers = malloc((size_t)pipeline->max_header_bytes + 1);
    fail(sw, WS_ENOMEM, "%s: out of memory", path);
    status = headers ? ws_tables_create(pipeline, &env.tables, sw->error, sizeof sw->error) : WS_ENOMEM;
    if (status == WS_OK)
        status = ws_arrays_create(pipeline, &env);
    if (status == WS_OK)
        status = ws_profiles_create(pipeline, &profiles);
    if (status == WS_OK)
        status = ws_meters_create(pipeline, &meters);
    if (status != WS_OK) {
        if (env.tables)
            ws_tables_destroy(pipeline, env.tables);
        if (env.registers)
            ws_arrays_destroy(pipeline, &env);
        ws_profiles_destroy(pipeline, profiles);
        free(headers);
        dlclose(library);
        return status;
    }

    unload(sw);
    sw->pipeline = pipeline;
    sw->library = library;
    sw->env = env;
    sw->profiles = profiles;
    sw->meters = meters;
    sw->headers = headers;
    sw->error[0] = '\0';
    ws_pool_init(&sw->pool, pipeline->phv_size, pipeline->max_header_bytes);
    return WS_OK;
}

const struct wp_pipeline *ws_pipeline(const ws_switch *sw) { return sw->pipeline; }

const char *ws_last_error(const ws_switch *sw) { return sw->error; }

void ws_stats_get(const ws_switch *sw, struct ws_stats *stats) { *stats = sw->stats; }

void ws_set_log(ws_switch *sw, void (*log)(void *opaque, int level, const char *line), void *opaque)
{
    sw->log = log;
    sw->log_opaque = opaque;
}

/* --- time and packets ------------------------------------------------------------------------ */

static void receive(ws_switch *sw, struct ws_packet *packet, struct ws_port *port)
{
    if (port->state == WS_PORT_DOWN) {
        port->stats.drop_down++;
        ws_packet_free(&sw->pool, packet);
        return;
    }
    port->stats.rx_packets++;
    port->stats.rx_bytes += packet->ctx.data_len;
    ws_pipeline_receive(sw, packet, port->number);
    ws_ingress(sw, packet);
}

static void run_event(ws_switch *sw, const struct ws_event *event)
{
    struct ws_port *port;
    struct ws_packet *packet = event->object;
    switch ((enum ws_event_class)(event->order >> 32)) {
    case WS_EVENT_PORT:
        port = event->object;
        if (port->wake_at == event->time)
            port->wake_at = WS_NEVER;
        ws_port_serve(sw, port);
        break;
    case WS_EVENT_REQUEUE:
        sw->waiting--;
        ws_port_enqueue(sw, packet->port, packet);
        break;
    case WS_EVENT_REENTER:
        sw->waiting--;
        ws_ingress(sw, packet);
        break;
    case WS_EVENT_ARRIVE:
        receive(sw, packet, ws_port_at(sw, packet->port));
        break;
    }
    ws_ports_settle(sw);
}

static void run_until(ws_switch *sw, ws_time until)
{
    while (ws_events_next(&sw->events) <= until) {
        struct ws_event event = ws_events_pop(&sw->events);
        if (event.time > sw->now)
            sw->now = event.time;
        run_event(sw, &event);
    }
    if (until > sw->now)
        sw->now = until;
}

void ws_advance(ws_switch *sw, ws_time now) { run_until(sw, now > sw->now ? now : sw->now); }

ws_time ws_next_event(const ws_switch *sw)
{
    ws_time event = ws_events_next(&sw->events), output = ws_output_next(&sw->outputs);
    return event < output ? event : output;
}

static void inject_one(ws_switch *sw, const struct ws_packet_in *in, ws_time now)
{
    struct ws_port *port = ws_port_at(sw, in->port);
    if (!port) {
        sw->stats.drop_bad_port++;
        return;
    }
    if (!sw->pipeline) {
        sw->stats.drop_no_pipeline++;
        return;
    }
    struct ws_packet *packet = ws_packet_new(&sw->pool, in->length);
    if (!packet) { /* longer than any frame */
        sw->stats.drop_ingress++;
        return;
    }
    memcpy(packet->frame, in->data, in->length);
    ws_time arrival = (in->at ? in->at : now) + port->config.rx_delay_ps;
    if (arrival > now) {
        packet->port = in->port;
        if (!ws_events_push(&sw->events, arrival, WS_EVENT_ARRIVE, in->port, packet))
            ws_packet_free(&sw->pool, packet);
        return;
    }
    run_until(sw, arrival > sw->now ? arrival : sw->now);
    receive(sw, packet, port);
    ws_ports_settle(sw);
}

void ws_inject(ws_switch *sw, const struct ws_packet_in *packets, size_t n, ws_time now)
{
    if (now < sw->now)
        now = sw->now;
    for (size_t i = 0; i < n; i++)
        inject_one(sw, &packets[i], now);
    run_until(sw, now);
}
