#include "cc.h"

void cc_start_slot(struct cc_slot *slot, const struct cc_params *params, uint64_t now) { cc_begin(slot, params, now); }

uint64_t cc_rate_now(const struct cc_slot *slot, uint64_t now) { return cc_rate_at(slot, now); }

uint64_t cc_window_now(const struct cc_slot *slot, uint64_t now) { return cc_window_at(slot, now); }

void cc_start(enum cc_place place, void *state, const void *params, uint64_t now)
{
    switch (place) {
#define CC_ALGORITHM(name)                \
    case CC_PLACE_##name:                 \
        name##_init(state, params, now);  \
        break;
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    case CC_ALGORITHMS:
        break;
    }
}

static const struct cc_telemetry *of_step(const struct cc_telemetry *told, size_t i)
{
    return told && told[i].format ? told + i : NULL;
}

#define CC_ALGORITHM(name)                                                                                        \
    static void replay_##name(const struct cc_step *steps, size_t n, const struct cc_telemetry *told,             \
                              struct name *states, uint64_t *rates)                                               \
    {                                                                                                             \
        for (const struct cc_step *step = steps; step < steps + n; step++)                                        \
            if (step->asks)                                                                                       \
                rates[step->state] = name##_rate_at(&states[step->state], step->now);                             \
            else                                                                                                  \
                name##_on_event(&states[step->state], &step->event, of_step(told, (size_t)(step - steps)),        \
                                step->now);                                                                       \
    }
#include "cc_algorithms.h"
#undef CC_ALGORITHM

void cc_replay(enum cc_place place, const struct cc_step *steps, size_t n, const struct cc_telemetry *told, void *states,
               uint64_t *rates)
{
    switch (place) {
#define CC_ALGORITHM(name)                            \
    case CC_PLACE_##name:                             \
        replay_##name(steps, n, told, states, rates); \
        break;
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    case CC_ALGORITHMS:
        break;
    }
}

int cc_cnp_due(struct cnp_interval *s, int marked, uint64_t now) { return cnp_due(s, marked, now); }
