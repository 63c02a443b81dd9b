#include "meter.h"

#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "switch.h"

enum { GREEN = 0, YELLOW = 1, RED = 2, PS_PER_US = 1000000, US_PER_S = 1000000 };

int ws_meters_create(const struct wp_pipeline *pipeline, struct ws_meter_array **meters)
{
    *meters = calloc(pipeline->n_meters + 1, sizeof **meters);
    if (!*meters)
        return WS_ENOMEM;
    for (uint32_t i = 0; i < pipeline->n_meters; i++) {
        struct ws_meter_array *array = &(*meters)[i];
        array->size = pipeline->meters[i].size;
        array->bytes = pipeline->meters[i].bytes;
        array->cells = ws_cells_new(array->size, sizeof *array->cells);
        if (!array->cells) {
            ws_meters_destroy(pipeline, *meters);
            *meters = NULL;
            return WS_ENOMEM;
        }
    }
    return WS_OK;
}

void ws_meters_destroy(const struct wp_pipeline *pipeline, struct ws_meter_array *meters)
{
    for (uint32_t i = 0; meters && i < pipeline->n_meters; i++)
        ws_cells_free(meters[i].cells);
    free(meters);
}

void ws_meter_keep(struct ws_meter_array *to, const struct ws_meter_array *from)
{
    if (to->size != from->size) {
        memcpy(to->cells, from->cells, (to->size < from->size ? to->size : from->size) * sizeof *to->cells);
        return;
    }
    ws_cells_free(to->cells);
    to->cells = ws_cells_share(from->cells);
}

struct ws_meter *ws_meter_new(void) { return calloc(1, sizeof(struct ws_meter)); }

int ws_meter_configure(struct ws_meter *meter, const struct ws_meter_config *config)
{
    if (config->configured && config->cir > config->pir)
        return WS_EINVAL;
    *meter = (struct ws_meter){.configured = config->configured};
    if (!config->configured)
        return WS_OK;
    meter->peak = (struct ws_bucket){config->pir, config->pburst, config->pburst, 0};
    meter->committed = (struct ws_bucket){config->cir, config->cburst, config->cburst, 0};
    return WS_OK;
}

static int take(struct ws_bucket *bucket, uint64_t microseconds, uint64_t input)
{
    uint64_t issued = (uint64_t)((__uint128_t)microseconds * bucket->rate / US_PER_S);
    uint64_t fresh = issued - bucket->issued;
    bucket->issued = issued;
    uint64_t room = bucket->burst - bucket->tokens;
    bucket->tokens += fresh < room ? fresh : room;
    if (bucket->tokens < input)
        return 0;
    bucket->tokens -= input;
    return 1;
}

static uint32_t execute(const struct wp_ctx *ctx, struct ws_meter *meter, uint32_t bytes)
{
    if (!meter->configured)
        return GREEN;
    const ws_switch *sw = ctx->env->core;
    uint64_t microseconds = (uint64_t)sw->now / PS_PER_US;
    uint64_t input = bytes ? ctx->ingress_length : 1;
    if (!take(&meter->peak, microseconds, input))
        return RED;
    return take(&meter->committed, microseconds, input) ? GREEN : YELLOW;
}

uint32_t ws_meter_execute(const struct wp_ctx *ctx, uint32_t meter, uint64_t index)
{
    const ws_switch *sw = ctx->env->core;
    struct ws_meter_array *array = &sw->program->meters[meter];
    return index < array->size ? execute(ctx, &array->cells[index], array->bytes) : GREEN;
}

uint32_t ws_meter_execute_direct(const struct wp_ctx *ctx, uint32_t meter, struct wp_entry *entry)
{
    const ws_switch *sw = ctx->env->core;
    return entry->meter ? execute(ctx, entry->meter, sw->program->meters[meter].bytes) : GREEN;
}

static struct ws_meter *meter_at(const ws_switch *sw, uint32_t meter, uint32_t index)
{
    if (!sw->program || meter >= sw->program->pipeline->n_meters || index >= sw->program->meters[meter].size)
        return NULL;
    return &sw->program->meters[meter].cells[index];
}

int ws_meter_set(ws_switch *sw, uint32_t meter, uint32_t index, const struct ws_meter_config *config)
{
    struct ws_meter *cell = meter_at(sw, meter, index);
    return cell ? ws_meter_configure(cell, config) : WS_ENOENT;
}

int ws_meter_get(const ws_switch *sw, uint32_t meter, uint32_t index, struct ws_meter_config *config)
{
    const struct ws_meter *cell = meter_at(sw, meter, index);
    if (!cell)
        return WS_ENOENT;
    *config = (struct ws_meter_config){
        .cir = cell->committed.rate,
        .cburst = cell->committed.burst,
        .pir = cell->peak.rate,
        .pburst = cell->peak.burst,
        .configured = cell->configured,
    };
    return WS_OK;
}
