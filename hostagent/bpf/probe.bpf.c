// Proves that this machine can run our eBPF: one XDP program and one TC program, each of which
// counts the frames of the probe and lets them pass. Loaded by hostagent/bpf_probe.py with bcc.

#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>
#include <uapi/linux/pkt_cls.h>

// IEEE 802's number for local experiments: no stack answers it, so only our frames count.
#define PROBE_ETHERTYPE 0x88b5

enum probe_hook { PROBE_XDP, PROBE_TC, PROBE_HOOKS };

BPF_ARRAY(frames, u64, PROBE_HOOKS);

static inline void count_probe(void *data, void *data_end, u32 hook)
{
    struct ethhdr *ethernet = data;
    u64 *counter;

    if ((void *)(ethernet + 1) > data_end)
        return;
    if (ethernet->h_proto != bpf_htons(PROBE_ETHERTYPE))
        return;
    counter = frames.lookup(&hook);
    if (counter)
        __sync_fetch_and_add(counter, 1);
}

int probe_xdp(struct xdp_md *context)
{
    count_probe((void *)(long)context->data, (void *)(long)context->data_end, PROBE_XDP);
    return XDP_PASS;
}

int probe_tc(struct __sk_buff *context)
{
    count_probe((void *)(long)context->data, (void *)(long)context->data_end, PROBE_TC);
    return TC_ACT_OK;
}
