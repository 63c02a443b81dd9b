#include "slots.h"

#include <stdlib.h>
#include <string.h>

static int grow(struct ws_slots *slots)
{
    uint32_t capacity = slots->capacity ? slots->capacity * 2 : 16;
    void **objects = realloc(slots->objects, capacity * sizeof *objects);
    if (!objects)
        return 0;
    slots->objects = objects;
    uint32_t *versions = realloc(slots->versions, capacity * sizeof *versions);
    if (!versions)
        return 0;
    slots->versions = versions;
    size_t added = capacity - slots->capacity;
    memset(objects + slots->capacity, 0, added * sizeof *objects);
    memset(versions + slots->capacity, 0, added * sizeof *versions);
    slots->capacity = capacity;
    return 1;
}

uint64_t ws_slots_put(struct ws_slots *slots, void *object)
{
    uint32_t slot = slots->lowest_free;
    while (slot < slots->capacity && slots->objects[slot])
        slot++;
    if (slot == slots->capacity && !grow(slots))
        return 0;
    slots->objects[slot] = object;
    slots->lowest_free = slot + 1;
    slots->used++;
    return (uint64_t)slots->versions[slot] << 32 | (slot + 1);
}

void *ws_slots_get(const struct ws_slots *slots, uint64_t handle)
{
    uint32_t slot = ws_slot_of(handle);
    if (slot >= slots->capacity || slots->versions[slot] != handle >> 32)
        return NULL;
    return slots->objects[slot];
}

void ws_slots_drop(struct ws_slots *slots, uint64_t handle)
{
    if (!ws_slots_get(slots, handle))
        return;
    uint32_t slot = ws_slot_of(handle);
    slots->objects[slot] = NULL;
    slots->versions[slot]++;
    slots->used--;
    if (slot < slots->lowest_free)
        slots->lowest_free = slot;
}

void ws_slots_free(struct ws_slots *slots)
{
    free(slots->objects);
    free(slots->versions);
    *slots = (struct ws_slots){0};
}
