/* Arrays: owns the cells of registers and indirect counters, and the members of parser value sets. */
#ifndef WEFT_ARRAYS_H
#define WEFT_ARRAYS_H

#include "weft_switch.h"

/* `n` zeroed cells of `size` bytes that several programs may share; freed with the last one's. NULL: no memory. */
void *ws_cells_new(size_t n, size_t size);
void *ws_cells_share(void *cells);
void ws_cells_free(void *cells);

int ws_arrays_create(const struct wp_pipeline *pipeline, struct wp_env *env);
void ws_arrays_destroy(const struct wp_pipeline *pipeline, struct wp_env *env);

/* `to` takes over what `from` holds: the very cells when sizes agree, else a copy of those that both have. */
void ws_register_keep(struct wp_register *to, const struct wp_register *from);
void ws_counter_keep(struct wp_counter_array *to, const struct wp_counter_array *from);

#endif
