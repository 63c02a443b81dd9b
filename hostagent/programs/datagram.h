/* UDP datagrams over IPv4, as programs send them by a host's first interface: one buffer, whose headers are made once. */
#ifndef WEFT_DATAGRAM_H
#define WEFT_DATAGRAM_H

#include <stdint.h>

#include "host_program.h"

enum {
    DATAGRAM_ETHERNET = 14,
    DATAGRAM_IP = 20,
    DATAGRAM_UDP = 8,
    DATAGRAM_HEADERS = DATAGRAM_ETHERNET + DATAGRAM_IP + DATAGRAM_UDP,
    DATAGRAM_PAYLOAD = 8192, /* at most, without a tail */
};

struct datagram {
    uint32_t ip_sum; /* of the IPv4 header, without length and destination */
    uint8_t frame[DATAGRAM_HEADERS + DATAGRAM_PAYLOAD];
};

/* `tos`: DSCP and ECN. */
void datagram_make(struct datagram *datagram, const struct program_host *host, uint8_t tos);
/* To this address and port, and from the same port, `tail` bytes of any value behind it. Returns an enum program_status. */
int datagram_send(struct datagram *datagram, struct program_host *host, uint32_t address, uint32_t port, const uint8_t *payload,
                  uint32_t length, uint32_t tail);

#endif
