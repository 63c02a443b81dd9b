/* DCQCN's header as functions, for tests that compare the kernel's run of it with the native one. */
#ifndef RNIC_CC_H
#define RNIC_CC_H

#include <stddef.h>
#include <stdint.h>

#include "dcqcn.h"

/* As struct replay_step in hostagent/bpf/dcqcn_replay.bpf.c. */
struct cc_step {
    uint64_t now, bytes;
    uint32_t kind;  /* enum dcqcn_event_kind, or CC_ASK_RATE */
    uint32_t state; /* index into `states` */
};
#define CC_ASK_RATE 0x80000000u

/* Carries out steps in order; a step that asks for a rate writes it into rates[state]. */
void cc_replay(const struct cc_step *steps, size_t n, struct dcqcn *states, uint64_t *rates);
void cc_init(struct dcqcn *state, const struct dcqcn_params *params, uint64_t now);

#endif
