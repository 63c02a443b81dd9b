/* The pure headers as functions, for callers that are not C. An algorithm is named by its place in the list. */
#ifndef RNIC_CC_H
#define RNIC_CC_H

#include <stddef.h>
#include <stdint.h>

#include "cc_replay.h"
#include "cc_slot.h"
#include "cnp_interval.h"

/* A fresh slot's congestion control starts. */
void cc_start_slot(struct cc_slot *slot, const struct cc_params *params, uint64_t now);
/* cc_rate_at of a copy of a slot. */
uint64_t cc_rate_now(const struct cc_slot *slot, uint64_t now);
/* cc_window_at, likewise. */
uint64_t cc_window_now(const struct cc_slot *slot, uint64_t now);

/* One algorithm alone; `state` is its struct, `params` its parameters'. Nothing happens where there is no such place. */
void cc_start(enum cc_place place, void *state, const void *params, uint64_t now);
/* Carries out steps in order on its `states`; a step that asks for a rate writes it into rates[state]. `told`: the telemetry that
 * comes with each step, none where its format is 0; NULL: none with any. */
void cc_replay(enum cc_place place, const struct cc_step *steps, size_t n, const struct cc_telemetry *told, void *states,
               uint64_t *rates);

int cc_cnp_due(struct cnp_interval *s, int marked, uint64_t now);

#endif
