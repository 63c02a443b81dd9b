/* Parser value sets for generated pipelines: whether a transition key is a member. */
#ifndef WEFT_VALUE_SET_H
#define WEFT_VALUE_SET_H

#include "pipeline_abi.h"

static inline int wpx_in_set(const struct wp_value_set *set, const uint64_t *key)
{
    const uint64_t *member = set->members;
    for (uint32_t i = 0; i < set->n; i++, member += 2 * set->words) {
        uint64_t differs = 0;
        for (uint32_t w = 0; w < set->words; w++)
            differs |= (key[w] & member[set->words + w]) ^ member[w];
        if (!differs)
            return 1;
    }
    return 0;
}

#endif
