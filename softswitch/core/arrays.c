#include "arrays.h"

#include <stdlib.h>
#include <string.h>

#include "switch.h"

/* In front of shared cells; 16 bytes, so that cells are as aligned as malloc's. */
struct cells {
    uint64_t users;
    uint64_t bytes; /* with this */
};

enum { FEW_BYTES = 16384 }; /* more may never be used: they are zeros of the system, which take no memory */

void *ws_cells_new(size_t n, size_t size)
{
    const size_t bytes = sizeof(struct cells) + (n + 1) * size; /* + 1: a size of 0 has an address too */
    struct cells *head = bytes > FEW_BYTES ? calloc(1, bytes) : ws_memory_get(bytes);
    if (!head)
        return NULL;
    head->users = 1;
    head->bytes = bytes;
    return head + 1;
}

void *ws_cells_share(void *cells)
{
    ((struct cells *)cells - 1)->users++;
    return cells;
}

void ws_cells_free(void *cells)
{
    if (!cells)
        return;
    struct cells *head = (struct cells *)cells - 1;
    if (--head->users)
        return;
    if (head->bytes > FEW_BYTES)
        free(head);
    else
        ws_memory_put(head, head->bytes);
}

int ws_arrays_create(const struct wp_pipeline *pipeline, struct wp_env *env)
{
    env->registers = calloc(pipeline->n_registers + 1, sizeof *env->registers);
    env->counters = calloc(pipeline->n_counters + 1, sizeof *env->counters);
    struct wp_value_set *sets = calloc(pipeline->n_value_sets + 1, sizeof *sets);
    env->value_sets = sets;
    int ok = env->registers && env->counters && sets;
    for (uint32_t i = 0; ok && i < pipeline->n_value_sets; i++)
        sets[i].words = pipeline->value_sets[i].words;
    for (uint32_t i = 0; ok && i < pipeline->n_registers; i++) {
        const struct wp_register_desc *desc = &pipeline->registers[i];
        struct wp_register *reg = &env->registers[i];
        reg->limbs = (desc->bitwidth + 63) / 64;
        reg->size = desc->size;
        reg->cells = ws_cells_new((size_t)reg->size * reg->limbs, sizeof *reg->cells);
        ok = reg->cells != NULL;
    }
    for (uint32_t i = 0; ok && i < pipeline->n_counters; i++) {
        struct wp_counter_array *counter = &env->counters[i];
        counter->size = pipeline->counters[i].size;
        counter->cells = ws_cells_new(counter->size, sizeof *counter->cells);
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
        ws_cells_free(env->registers[i].cells);
    for (uint32_t i = 0; env->counters && i < pipeline->n_counters; i++)
        ws_cells_free(env->counters[i].cells);
    for (uint32_t i = 0; env->value_sets && i < pipeline->n_value_sets; i++)
        free((void *)(uintptr_t)env->value_sets[i].members);
    free(env->registers);
    free(env->counters);
    free((void *)(uintptr_t)env->value_sets);
    env->registers = NULL;
    env->counters = NULL;
    env->value_sets = NULL;
}

void ws_register_keep(struct wp_register *to, const struct wp_register *from)
{
    if (to->size != from->size) {
        uint32_t n = to->size < from->size ? to->size : from->size;
        memcpy(to->cells, from->cells, (size_t)n * to->limbs * sizeof *to->cells);
        return;
    }
    ws_cells_free(to->cells);
    to->cells = ws_cells_share(from->cells);
}

void ws_counter_keep(struct wp_counter_array *to, const struct wp_counter_array *from)
{
    if (to->size != from->size) {
        memcpy(to->cells, from->cells, (to->size < from->size ? to->size : from->size) * sizeof *to->cells);
        return;
    }
    ws_cells_free(to->cells);
    to->cells = ws_cells_share(from->cells);
}

static struct wp_counter *counter_at(const ws_switch *sw, uint32_t counter, uint32_t index)
{
    if (!sw->program || counter >= sw->program->pipeline->n_counters || index >= sw->program->env.counters[counter].size)
        return NULL;
    return &sw->program->env.counters[counter].cells[index];
}

static uint64_t *register_at(const ws_switch *sw, uint32_t reg, uint32_t index)
{
    if (!sw->program || reg >= sw->program->pipeline->n_registers || index >= sw->program->env.registers[reg].size)
        return NULL;
    return &sw->program->env.registers[reg].cells[(size_t)index * sw->program->env.registers[reg].limbs];
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
    memcpy(limbs, cell, sw->program->env.registers[reg].limbs * sizeof *limbs);
    return WS_OK;
}

int ws_register_set(ws_switch *sw, uint32_t reg, uint32_t index, const uint64_t *limbs)
{
    uint64_t *cell = register_at(sw, reg, index);
    if (!cell)
        return WS_ENOENT;
    memcpy(cell, limbs, sw->program->env.registers[reg].limbs * sizeof *limbs);
    return WS_OK;
}

int ws_value_set_set(ws_switch *sw, uint32_t set, const uint64_t *members, uint32_t n)
{
    if (!sw->program || set >= sw->program->pipeline->n_value_sets)
        return WS_ENOENT;
    const struct wp_value_set_desc *desc = &sw->program->pipeline->value_sets[set];
    if (n > desc->max_size)
        return WS_EFULL;
    size_t bytes = (size_t)n * 2 * desc->words * sizeof *members;
    uint64_t *copy = malloc(bytes + 1);
    if (!copy)
        return WS_ENOMEM;
    memcpy(copy, members, bytes);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t w = 0; w < desc->words; w++)
            copy[(2 * i + 0) * desc->words + w] &= copy[(2 * i + 1) * desc->words + w];
    struct wp_value_set *target = (struct wp_value_set *)(uintptr_t)&sw->program->env.value_sets[set];
    free((void *)(uintptr_t)target->members);
    *target = (struct wp_value_set){.n = n, .words = desc->words, .members = copy};
    return WS_OK;
}
