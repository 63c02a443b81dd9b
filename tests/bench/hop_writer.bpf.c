// What stands for a path of five switches between two namespaces, for bench_endpoint.py: every frame goes on by
// interface OUT, and one that collects telemetry gets five records on its way, of ports that are half used and empty.
//
//   Ethernet 14 | IPv4 20 | UDP 8 | shim 4 | [five records, 60] | BTH ...

#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>
#include <uapi/linux/in.h>
#include <uapi/linux/ip.h>
#include <uapi/linux/udp.h>

#include "path_telemetry.h"
#include "telemetry.h"

#define HOPS 5
#define RECORDS (HOPS * PATH_HOP_BYTES)
#define IN_FRONT (ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr) + TELEMETRY_SHIM_BYTES)
#define RATE_CODE (11 << 12 | 745)  // 100 Gb/s
#define SENT_A_NS_Q10 100           // half of that, in 64 bytes

static inline int collects(void *data, void *end)
{
    struct ethhdr *ethernet = data;
    struct iphdr *ip = data + ETH_HLEN;
    struct udphdr *udp = (void *)(ip + 1);
    u8 *shim = (void *)(udp + 1);

    if (data + IN_FRONT > end)
        return 0;
    return ethernet->h_proto == bpf_htons(ETH_P_IP) && ip->ihl == 5 && ip->protocol == IPPROTO_UDP &&
           udp->dest == bpf_htons(TELEMETRY_PORT) && !udp->check &&
           (shim[0] & 7) == WEFT_TELEMETRY_COLLECTS && !shim[1];
}

static inline void lengthen(void *data)
{
    struct iphdr *ip = data + ETH_HLEN;
    struct udphdr *udp = (void *)(ip + 1);
    u8 *shim = (void *)(udp + 1);
    u32 sum = (u16)~ip->check + (u16)~ip->tot_len;

    ip->tot_len = bpf_htons(bpf_ntohs(ip->tot_len) + RECORDS);
    sum += ip->tot_len;
    sum = (sum & 0xffff) + (sum >> 16);
    ip->check = ~((sum & 0xffff) + (sum >> 16));
    udp->len = bpf_htons(bpf_ntohs(udp->len) + RECORDS);
    shim[1] = RECORDS / 4;
    shim[2] = HOPS;
    shim[3] = PATH_TELEMETRY_HOPS;
}

static inline void write_records(u8 *out, u64 now)
{
    u64 sent = now * SENT_A_NS_Q10 >> 10;

#pragma unroll
    for (u32 i = 0; i < HOPS; i++, out += PATH_HOP_BYTES) {
        u8 record[PATH_HOP_BYTES] = {0, i + 1, RATE_CODE >> 8, RATE_CODE & 0xff, now >> 16, now >> 8, now,
                                     sent >> 16, sent >> 8, sent};

        __builtin_memcpy(out, record, sizeof(record));
    }
}

int hop_writer(struct xdp_md *context)
{
    void *data = (void *)(long)context->data;

    if (!collects(data, (void *)(long)context->data_end))
        return bpf_redirect(OUT, 0);
    if (bpf_xdp_adjust_head(context, -RECORDS))
        return XDP_ABORTED;
    data = (void *)(long)context->data;
    if (data + IN_FRONT + RECORDS > (void *)(long)context->data_end)
        return XDP_ABORTED;
    // To the front, byte by byte: both places overlap.
#pragma unroll
    for (u32 i = 0; i < IN_FRONT; i++)
        ((volatile u8 *)data)[i] = ((volatile u8 *)data)[RECORDS + i];
    lengthen(data);
    write_records(data + IN_FRONT, bpf_ktime_get_ns());
    return bpf_redirect(OUT, 0);
}
