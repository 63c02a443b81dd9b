/* Handles: owns the mapping handle -> object of tables and profiles.
 *
 * A handle is (version << 32) | (slot + 1). The lowest free slot is taken first, so that the order of slots
 * is the order of BMv2's handles: ties of priority and the members' order in a group follow it. The version
 * grows with each reuse of a slot, so an old handle never names a new object.
 */
#ifndef WEFT_SLOTS_H
#define WEFT_SLOTS_H

#include <stdint.h>

struct ws_slots {
    void **objects;
    uint32_t *versions;
    uint32_t capacity;
    uint32_t used;
    uint32_t lowest_free; /* no free slot lies below */
};

/* Stores `object` and returns its handle, 0 when memory is out. */
uint64_t ws_slots_put(struct ws_slots *slots, void *object);
/* NULL when the handle is stale or was never given out. */
void *ws_slots_get(const struct ws_slots *slots, uint64_t handle);
void ws_slots_drop(struct ws_slots *slots, uint64_t handle);
void ws_slots_free(struct ws_slots *slots);

static inline uint32_t ws_slot_of(uint64_t handle) { return (uint32_t)handle - 1; }

#endif
