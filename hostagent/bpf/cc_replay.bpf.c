// For tests: DCQCN in the kernel on given events, so that its state can be compared with what the
// same header gives natively. Each run of the program does the next step; BPF_PROG_TEST_RUN repeats
// it. Steps and states lie in arrays that the test maps (hostagent/bpf_test_run.py). Never attached.

#include <uapi/linux/bpf.h>

#include "dcqcn.h"

#define REPLAY_STEPS 262144
#define REPLAY_STATES 16384
#define REPLAY_ASK_RATE 0x80000000  // in a step's event kind: write down the rate, change nothing

struct replay_step {
    u64 now;
    u64 bytes;
    u32 kind;
    u32 state;  // index into `states`
};

BPF_F_TABLE("array", u32, struct replay_step, steps, REPLAY_STEPS, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct dcqcn, states, REPLAY_STATES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, u64, rates, REPLAY_STATES, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, u32, next_step, 1, BPF_F_MMAPABLE);

int dcqcn_replay(struct xdp_md *context)
{
    u32 zero = 0, index, number;
    u32 *next = next_step.lookup(&zero);
    struct replay_step *step;
    struct dcqcn_event event = {};
    struct dcqcn *state;
    u64 *rate;

    if (!next)
        return XDP_ABORTED;
    index = (*next)++;
    step = steps.lookup(&index);
    if (!step)
        return XDP_DROP;
    number = step->state;
    state = states.lookup(&number);
    if (!state)
        return XDP_DROP;
    if (step->kind == REPLAY_ASK_RATE) {
        rate = rates.lookup(&number);
        if (rate)
            *rate = dcqcn_rate_at(state, step->now);
        return XDP_PASS;
    }
    event.kind = step->kind;
    event.bytes = step->bytes;
    dcqcn_on_event(state, &event, step->now);
    return XDP_PASS;
}
