/* Arrays: owns the cells of registers and indirect counters. */
#ifndef WEFT_ARRAYS_H
#define WEFT_ARRAYS_H

#include "weft_switch.h"

int ws_arrays_create(const struct wp_pipeline *pipeline, struct wp_env *env);
void ws_arrays_destroy(const struct wp_pipeline *pipeline, struct wp_env *env);

#endif
