// For tests: congestion control in the kernel on given events, so that its state can be compared
// with what the same headers give natively. Each run of a program does the next step;
// BPF_PROG_TEST_RUN repeats it. Steps and states lie in arrays that the test maps
// (hostagent/bpf_test_run.py). Never attached.

#include <uapi/linux/bpf.h>

#include "dcqcn.h"
#include "fast_cnp.h"

#define REPLAY_STEPS 262144
#define REPLAY_STATES 16384
#define REPLAY_ASK_RATE 0x80000000  // in a step's event kind: write down the rate, change nothing

// As struct cc_step (hostagent/rnic/core/cc.h).
struct replay_step {
    u64 now;
    u64 bytes;
    u32 kind;
    u32 state;  // index into the states
};

BPF_F_TABLE("array", u32, struct replay_step, steps, REPLAY_STEPS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct dcqcn, dcqcn_states, REPLAY_STATES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct fast_cnp, fast_states, REPLAY_STATES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, u64, rates, REPLAY_STATES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, u32, next_step, 1, BPF_F_MMAPABLE);

static inline struct replay_step *take_step(void)
{
    u32 zero = 0, index;
    u32 *next = next_step.lookup(&zero);

    if (!next)
        return NULL;
    index = (*next)++;
    return steps.lookup(&index);
}

static inline int write_rate(u32 state, u64 said)
{
    u64 *rate = rates.lookup(&state);

    if (rate)
        *rate = said;
    return XDP_PASS;
}

int dcqcn_replay(struct xdp_md *context)
{
    struct replay_step *step = take_step();
    struct dcqcn_event event = {};
    struct dcqcn *state;
    u32 number;

    if (!step)
        return XDP_DROP;
    number = step->state;
    state = dcqcn_states.lookup(&number);
    if (!state)
        return XDP_DROP;
    if (step->kind == REPLAY_ASK_RATE)
        return write_rate(number, dcqcn_rate_at(state, step->now));
    event.kind = step->kind;
    event.bytes = step->bytes;
    dcqcn_on_event(state, &event, step->now);
    return XDP_PASS;
}

int fast_cnp_replay(struct xdp_md *context)
{
    struct replay_step *step = take_step();
    struct fast_cnp_event event = {};
    struct fast_cnp *state;
    u32 number;

    if (!step)
        return XDP_DROP;
    number = step->state;
    state = fast_states.lookup(&number);
    if (!state)
        return XDP_DROP;
    if (step->kind == REPLAY_ASK_RATE)
        return write_rate(number, fast_cnp_rate_at(state, step->now));
    event.severity = step->kind;
    event.validity = step->bytes;
    fast_cnp_on_event(state, &event, step->now);
    return XDP_PASS;
}
