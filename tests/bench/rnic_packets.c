/* Two cards hand each other one long WRITE in memory: `rnic_packets whole congestion packets` prints ns a data packet. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rnic.h"

enum { MTU = 4096, ACK_EVERY = 8, WORKS = 8, MARKED_ONE_IN = 500 };
static const uint64_t LINE = 400000000000;
static const rnic_time PACKET_PS = 84000;
static uint8_t memory[64 << 20], target[64 << 20], frame[16384];

static rnic *make(uint32_t number, uint32_t whole, uint32_t congestion)
{
    const struct rnic_config card = {.mac = number, .gateway_mac = 9, .ip = number, .max_qps = 4, .line_rate_bps = LINE,
                                     .whole = whole, .check_icrc = whole, .cnp_dscp = 48, .cnp_queue = 6};
    const struct cc_params cc = {
        .algorithms = CC_BIT(dcqcn),
        .dcqcn = {.line_rate = LINE, .min_rate = 100000000, .rate_ai = 80000000, .rate_hai = 800000000,
                  .alpha_timer_ns = 1000, .increase_timer_ns = 300000, .fast_recovery = 1, .gain_q16 = 256},
    };
    const struct rnic_qp_config pair = {.qpn = 1, .mtu = MTU, .udp_port = 50000, .queue = 3, .dscp = 26, .ack_every = ACK_EVERY,
                                        .retries = 7, .timeout_ps = 4000000000, .cnp_interval_ns = 4000};
    rnic *r = rnic_create(&card);
    rnic_register(r, 1, 0, whole ? target : NULL, sizeof target, RNIC_REMOTE_WRITE);
    rnic_want_events(r, 1u << RNIC_FAILED | 1u << RNIC_QP_FAILED);
    rnic_add_qp(r, &pair, congestion ? &cc : NULL);
    rnic_connect(r, 1, 3 - number, 0, 1, 0);
    return r;
}

static void hand_over(const struct rnic_packet *packet, rnic *to, int whole, rnic_time now)
{
    if (whole)
        rnic_receive(to, frame, rnic_write_packet(packet, frame), 0, now);
    else
        rnic_receive(to, packet->header, packet->header_length, packet->payload_length + packet->pad + RNIC_ICRC, now);
}

int main(int count, char **values)
{
    if (count < 4)
        return 2;
    const uint32_t whole = (uint32_t)atoi(values[1]), congestion = (uint32_t)atoi(values[2]);
    const long packets = atol(values[3]);
    rnic *sender = make(1, whole, congestion), *receiver = make(2, whole, congestion);
    const struct rnic_work work = {.operation = RNIC_WRITE, .length = sizeof memory, .local = memory, .rkey = 1};
    struct rnic_packet packet;
    struct timespec begin, end;
    rnic_time now = 0;
    long sent = 0, posted = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (sent < packets) {
        const long needed = sent / (long)(sizeof memory / MTU) + WORKS;
        for (; posted < needed; posted++)
            rnic_post(sender, 1, &work, now);
        now += PACKET_PS;
        const rnic_time due = rnic_next_event(sender);
        if (due > now && due < RNIC_NEVER)
            now = due; /* its congestion control holds it back */
        rnic_advance(sender, now);
        if (!rnic_transmit(sender, now, &packet))
            continue;
        if (congestion && sent % MARKED_ONE_IN == 0 && !whole)
            packet.header[15] |= 3;
        sent++;
        hand_over(&packet, receiver, (int)whole, now);
        rnic_next_event(receiver);
        while (rnic_transmit(receiver, now, &packet))
            hand_over(&packet, sender, (int)whole, now);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    struct rnic_qp_stats stats;
    rnic_qp_stats_get(receiver, 1, now, &stats);
    if (stats.received_packets != (uint64_t)packets || rnic_events_waiting(sender))
        return 1;
    printf("%.1f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)packets);
    rnic_destroy(sender);
    rnic_destroy(receiver);
    return 0;
}
