#include "arrays.h"

#include <stdlib.h>
#include <string.h>

#include "switch.h"

int ws_arrays_create(const struct wp_pipeline *pipeline, struct wp_env *env)
{
    env->registers = calloc(pipeline->n_registers + 1, sizeof *env->registers);
    env->counters = calloc(pipeline->n_counters + 1, sizeof *env->counters);
    int ok = env->registers && env->counters;
    for (uint32_t i = 0; ok && i < pipeline->n_registers; i++) {
        const struct wp_register_desc *desc = &pipeline->registers[i];
        struct wp_register *reg = &env->registers[i];
        reg->limbs = (desc->bitwidth + 63) / 64;
        reg->size = desc->size;
        reg->cells = calloc((size_t)reg->size * reg->limbs + 1, sizeof *reg->cells);
        ok = reg->cells != NULL;
    }
    for (uint32_t i = 0; ok && i < pipeline->n_counters; i++) {
        struct wp_counter_array *counter = &env->counters[i];
        counter->size = pipeline->counters[i].size;
        counter->cells = calloc((size_t)counter->size + 1, sizeof *counter->cells);
        ok = counter->cells != NULL;
    }
    if (ok)
        return WS_OK;
    ws_arrays_destroy(pipeline, env);
    return WS_ENOMEM;
}

void ws_arrays_destroy(const struct wp_pipeline *pipeline, struct wp_env *env)
{
    for (uint32_t i = 0; env->registers && i < pipeline->n_registers; i++)
        free(env->registers[i].cells);
    for (uint32_t i = 0; env->counters && i < pipeline->n_counters; i++)
        free(env->counters[i].cells);
    free(env->registers);
    free(env->counters);
    env->registers = NULL;
    env->counters = NULL;
}

static struct wp_counter *counter_at(const ws_switch *sw, uint32_t counter, uint32_t index)
{
    if (!sw->pipeline || counter >= sw->pipeline->n_counters || index >= sw->env.counters[counter].size)
        return NULL;
    return &sw->env.counters[counter].cells[index];
}

static uint64_t *register_at(const ws_switch *sw, uint32_t reg, uint32_t index)
{
    if (!sw->pipeline || reg >= sw->pipeline->n_registers || index >= sw->env.registers[reg].size)
        return NULL;
    return &sw->env.registers[reg].cells[(size_t)index * sw->env.registers[reg].limbs];
}

int ws_counter_get(const ws_switch *sw, uint32_t counter, uint32_t index, struct wp_counter *out)
{
    const struct wp_counter *cell = counter_at(sw, counter, index);
    if (!cell)
        return WS_ENOENT;
    *out = *cell;
    return WS_OK;
}

int ws_counter_set(ws_switch *sw, uint32_t counter, uint32_t index, const struct wp_counter *value)
{
    struct wp_counter *cell = counter_at(sw, counter, index);
    if (!cell)
        return WS_ENOENT;
    *cell = *value;
    return WS_OK;
}

int ws_register_get(const ws_switch *sw, uint32_t reg, uint32_t index, uint64_t *limbs)
{
    const uint64_t *cell = register_at(sw, reg, index);
    if (!cell)
        return WS_ENOENT;
    memcpy(limbs, cell, sw->env.registers[reg].limbs * sizeof *limbs);
    return WS_OK;
}

int ws_register_set(ws_switch *sw, uint32_t reg, uint32_t index, const uint64_t *limbs)
{
    uint64_t *cell = register_at(sw, reg, index);
    if (!cell)
        return WS_ENOENT;
    memcpy(cell, limbs, sw->env.registers[reg].limbs * sizeof *limbs);
    return WS_OK;
}
