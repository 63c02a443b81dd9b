// Fast CNP alone: the core, what it needs, and ECN marking, because the two agree on who marks what.
// ARP and counted drops make it usable between hosts; sampling of queue pairs is left out.

#define PROFILE 1
#define WITH_FAST_CNP 1
#define WITH_DCQCN 1
#define WITH_ARP 1
#define WITH_DROP_COUNTERS 1
#define WITHOUT_QUEUE_PAIR_SAMPLES 1

#include "fabric.p4"
