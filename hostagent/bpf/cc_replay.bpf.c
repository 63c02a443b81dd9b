// For tests: an algorithm in the kernel on given events, so that its state can be compared with what
// its header gives natively. ALGORITHM is its name in cc_algorithms.h. Each run of the program does
// the next step; BPF_PROG_TEST_RUN repeats it. Steps and states lie in arrays that the test maps
// (hostagent/bpf_test_run.py). With WITH_TELEMETRY another array has what comes with each step. Never attached.

#include <uapi/linux/bpf.h>

#include "cc_algorithms.h"
#include "cc_replay.h"

#define REPLAY_STEPS 262144
#define REPLAY_STATES 16384

#define JOINED(name, rest) name##rest
#define OF(name, rest) JOINED(name, rest)

BPF_F_TABLE("array", u32, struct cc_step, steps, REPLAY_STEPS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct ALGORITHM, states, REPLAY_STATES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, u64, rates, REPLAY_STATES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, u32, next_step, 1, BPF_F_MMAPABLE);
#ifdef WITH_TELEMETRY
BPF_F_TABLE("array", u32, struct cc_telemetry, told, REPLAY_STEPS, BPF_F_MMAPABLE);
#endif

static inline struct cc_step *take_step(u32 *index)
{
    u32 zero = 0;
    u32 *next = next_step.lookup(&zero);

    if (!next)
        return NULL;
    *index = (*next)++;
    return steps.lookup(index);
}

static inline const struct cc_telemetry *telemetry_of(u32 index)
{
#ifdef WITH_TELEMETRY
    struct cc_telemetry *found = told.lookup(&index);

    return found && found->format ? found : NULL;
#else
    return NULL;
#endif
}

static inline int write_rate(u32 state, u64 said)
{
    u64 *rate = rates.lookup(&state);

    if (rate)
        *rate = said;
    return XDP_PASS;
}

int cc_replay(struct xdp_md *context)
{
    u32 number, index = 0;
    struct cc_step *step = take_step(&index);
    struct ALGORITHM *state;
    struct cc_event event;

    if (!step)
        return XDP_DROP;
    number = step->state;
    state = states.lookup(&number);
    if (!state)
        return XDP_DROP;
    if (step->asks)
        return write_rate(number, OF(ALGORITHM, _rate_at)(state, step->now));
    event = step->event;
    OF(ALGORITHM, _on_event)(state, &event, telemetry_of(index), step->now);
    return XDP_PASS;
}
