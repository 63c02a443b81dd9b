/* Two cards of two interfaces, every kind of work, three packets in four lost, links that come and go: whatever they took is
 * freed, with algorithms that want everything (test_rnic_sanitized.py). */
#include <stdlib.h>
#include "path_choice.h"
#include "rnic.h"

int main(void)
{
    static uint8_t memory[65536], frame[16384];
    for (uint32_t repeat = 0; repeat < 2; repeat++) {
        rnic *cards[2];
        const struct cc_params cc = {
            .algorithms = CC_BIT(dcqcn) | CC_BIT(fast_cnp) | CC_BIT(windowed) | CC_BIT(listener),
            .windowed = {.line_rate = CC_NO_LIMIT, .window = 1 << 20},
            .listener = {.line_rate = CC_NO_LIMIT},
            .dcqcn = {.line_rate = 1000000000, .min_rate = 1000000, .rate_ai = 1000000, .rate_hai = 1000000,
                      .alpha_timer_ns = 55000, .increase_timer_ns = 55000, .gain_q16 = 256},
            .fast_cnp = {.line_rate = 1000000000, .min_rate = 1000000, .validity_unit_ns = 1, .rate_unit_q16 = 1},
        };
        for (uint32_t i = 0; i < 2; i++) {
            const struct rnic_config config = {.mac = 1 + i, .gateway_mac = 9, .ip = 1 + i, .max_qps = 8, .whole = 1, .check_icrc = 1};
            const struct rnic_interface second = {.mac = 3 + i, .gateway_mac = 9, .ip = 3 + i};
            const struct rnic_address peers[] = {{.ip = 2 - i}, {.ip = 4 - i}};
            cards[i] = rnic_create(&config);
            if (rnic_add_interface(cards[i], &second) != 1)
                return 3;
            rnic_register(cards[i], 1, 0, memory, sizeof memory, RNIC_REMOTE_READ | RNIC_REMOTE_WRITE);
            for (uint32_t qpn = 1; qpn < 4; qpn++) {
                const struct rnic_qp_config qp = {.qpn = qpn, .mtu = 256, .repeat = repeat, .retries = 3, .timeout_ps = 1000000,
                                                  .interfaces = qpn == 1 ? 1 : 2, .udp_ports = (uint16_t)(qpn == 1 ? 16 : qpn),
                                                  .path_kind = qpn == 1 && repeat == RNIC_SELECTIVE ? PATH_REPS : PATH_KIND_NONE};
                rnic_add_qp(cards[i], &qp, qpn == 2 ? NULL : &cc);
                if (rnic_connect_ways(cards[i], qpn, peers, qpn == 1 ? 1 : 2, qpn, 0))
                    return 4;
                for (uint32_t n = 0; n < 40; n++) {
                    const struct rnic_work work = {.id = n, .operation = n % 5, .length = n * 100, .local = memory, .rkey = 1};
                    rnic_post(cards[i], qpn, &work, 0);
                    rnic_post_receive(cards[i], qpn, n, memory, sizeof memory);
                }
            }
        }
        rnic_remove_qp(cards[0], 2);
        srand(1);
        for (rnic_time now = 0; now < 3000000000; now += 10000)
            for (int i = 0; i < 2; i++) {
                struct rnic_packet packet;
                const uint32_t line = (uint32_t)(now / 10000 % 2);
                rnic_advance(cards[i], now);
                rnic_set_busy(cards[i], !line, now + 1);
                if (rnic_transmit_on(cards[i], line, now, &packet) && rand() % 4 == 0)
                    rnic_receive_on(cards[!i], line, frame, rnic_write_packet(&packet, frame), 0, now);
                if (rand() % 50 == 0)
                    rnic_set_link(cards[i], line, rand() % 2);
            }
        for (int i = 0; i < 2; i++) {
            struct rnic_event events[64];
            if (!rnic_take_events(cards[i], events, 64))
                return 2;
            rnic_destroy(cards[i]);
        }
    }
    return 0;
}
