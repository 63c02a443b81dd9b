#include "cc.h"

void cc_replay(const struct cc_step *steps, size_t n, struct dcqcn *states, uint64_t *rates)
{
    for (size_t i = 0; i < n; i++) {
        const struct cc_step *step = &steps[i];
        struct dcqcn *state = &states[step->state];
        if (step->kind == CC_ASK_RATE) {
            rates[step->state] = dcqcn_rate_at(state, step->now);
        } else {
            const struct dcqcn_event event = {.kind = step->kind, .bytes = step->bytes};
            dcqcn_on_event(state, &event, step->now);
        }
    }
}

void cc_replay_fast(const struct cc_step *steps, size_t n, struct fast_cnp *states, uint64_t *rates)
{
    for (size_t i = 0; i < n; i++) {
        const struct cc_step *step = &steps[i];
        struct fast_cnp *state = &states[step->state];
        if (step->kind == CC_ASK_RATE) {
            rates[step->state] = fast_cnp_rate_at(state, step->now);
        } else {
            const struct fast_cnp_event event = {.severity = step->kind, .validity = (uint32_t)step->bytes};
            fast_cnp_on_event(state, &event, step->now);
        }
    }
}

void cc_init(struct dcqcn *state, const struct dcqcn_params *params, uint64_t now) { dcqcn_init(state, params, now); }

void cc_fast_init(struct fast_cnp *state, const struct fast_cnp_params *params, uint64_t now)
{
    fast_cnp_init(state, params, now);
}

uint64_t cc_rate_now(const struct cc_slot *slot, uint64_t now) { return cc_rate_at(slot, now); }

uint64_t cc_fast_rate_now(const struct cc_slot *slot, uint64_t now) { return fast_cnp_rate_at(&slot->fast, now); }

int cc_np_packet(struct dcqcn_np *np, int marked, uint64_t now) { return dcqcn_np_packet(np, marked, now); }
