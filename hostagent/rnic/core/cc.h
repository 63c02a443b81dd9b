/* The pure headers as functions, for callers that are not C. */
#ifndef RNIC_CC_H
#define RNIC_CC_H

#include <stddef.h>
#include <stdint.h>

#include "cc_slot.h"

/* As struct replay_step in hostagent/bpf/cc_replay.bpf.c. */
struct cc_step {
    uint64_t now, bytes;
    uint32_t kind;  /* enum dcqcn_event_kind, or CC_ASK_RATE */
    uint32_t state; /* index into `states` */
};
#define CC_ASK_RATE 0x80000000u

/* Carries out steps in order; a step that asks for a rate writes it into rates[state]. */
void cc_replay(const struct cc_step *steps, size_t n, struct dcqcn *states, uint64_t *rates);
/* As above: a step is a notification whose severity is `kind` and whose validity is `bytes`. */
void cc_replay_fast(const struct cc_step *steps, size_t n, struct fast_cnp *states, uint64_t *rates);
/* cc_rate_at of a copy of a slot. */
uint64_t cc_rate_now(const struct cc_slot *slot, uint64_t now);
uint64_t cc_fast_rate_now(const struct cc_slot *slot, uint64_t now); /* what fast CNPs alone allow */
void cc_init(struct dcqcn *state, const struct dcqcn_params *params, uint64_t now);
void cc_fast_init(struct fast_cnp *state, const struct fast_cnp_params *params, uint64_t now);
int cc_np_packet(struct dcqcn_np *np, int marked, uint64_t now);

#endif
