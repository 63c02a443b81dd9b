/* Sends each UDP datagram to its port back to where it came from, after `delay_ns`; one at a time where that is not 0.
 *
 * The other end's addresses and ports are exchanged, which no checksum notices.
 */
#include "host_program.h"

#include <string.h>

enum {
    MAC_BYTES = 6,
    ETHERNET = 14,
    IP_SOURCE = ETHERNET + 12,
    IP_HEADER_AT = ETHERNET,
};

enum { PORT, DELAY_NS };

struct echo {
    uint32_t interface, length; /* of what waits; 0: nothing does */
    uint8_t frame[PROGRAM_FRAME_MAX];
};

static void swap(uint8_t *a, uint8_t *b, size_t n)
{
    uint8_t held[MAC_BYTES];
    memcpy(held, a, n);
    memcpy(a, b, n);
    memcpy(b, held, n);
}

static void send_back(struct program_host *host, struct echo *echo)
{
    uint8_t *udp = echo->frame + ETHERNET + 4 * (echo->frame[IP_HEADER_AT] & 15);
    swap(echo->frame, echo->frame + MAC_BYTES, MAC_BYTES);
    swap(echo->frame + IP_SOURCE, echo->frame + IP_SOURCE + 4, 4);
    swap(udp, udp + 2, 2);
    host->calls->count(host, host->calls->send(host, echo->interface, echo->frame, echo->length) ? "lost" : "answered", 1);
    echo->length = 0;
}

static void echo_start(struct program_host *host)
{
    const int64_t port = host->settings[PORT].value;
    const int status = port > 0 && port <= UINT16_MAX ? host->calls->listen(host, PROGRAM_UDP, (uint32_t)port) : PROGRAM_ENUMBER;
    if (status == PROGRAM_ETAKEN)
        host->calls->fail(host, "another program listens to its UDP port");
    else if (status)
        host->calls->fail(host, "port: a UDP port is a number from 1 to 65535, other than RoCEv2's 4791");
    else if (host->settings[DELAY_NS].value < 0)
        host->calls->fail(host, "delay_ns: a delay is not below 0");
}

static void echo_packet(struct program_host *host, uint32_t interface, const uint8_t *frame, uint32_t length)
{
    struct echo *echo = host->state;
    if (echo->length) {
        host->calls->count(host, "refused", 1);
        return;
    }
    echo->interface = interface;
    echo->length = length;
    memcpy(echo->frame, frame, length);
    if (host->settings[DELAY_NS].value)
        host->calls->set_timer(host, 0, host->now_ns + host->settings[DELAY_NS].value);
    else
        send_back(host, echo);
}

static void echo_timer(struct program_host *host, uint32_t token)
{
    (void)token;
    send_back(host, host->state);
}

static const struct program_setting echo_settings[] = {
    [PORT] = {"port", 7},
    [DELAY_NS] = {"delay_ns", 0},
    {NULL, 0},
};

const struct program_ops echo_program = {
    .name = "echo",
    .bytes = sizeof(struct echo),
    .settings = echo_settings,
    .start = echo_start,
    .packet = echo_packet,
    .timer = echo_timer,
};
