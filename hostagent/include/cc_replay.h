/* For tests: steps that an algorithm is taken through, in the kernel (bpf/cc_replay.bpf.c) and natively (rnic/core/cc.c). */
#ifndef WEFT_CC_REPLAY_H
#define WEFT_CC_REPLAY_H

#include "cc_event.h"

struct cc_step {
    weft_u64 now;
    struct cc_event event;
    weft_u32 state; /* which of the states it happens to */
    weft_u32 asks;  /* 1: nothing happens, the rate at `now` is written down */
};

#endif
