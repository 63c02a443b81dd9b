/* Owns the bytes of Ethernet, IPv4 and UDP headers in front of a payload. */
#include "datagram.h"

#include <string.h>

enum { MAC_BYTES = 6 };

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put_mac(uint8_t *at, uint64_t mac)
{
    for (int i = 0; i < MAC_BYTES; i++)
        at[i] = (uint8_t)(mac >> 8 * (MAC_BYTES - 1 - i));
}

static void put_ip(uint8_t *at, uint32_t address)
{
    put16(at, address >> 16);
    put16(at + 2, address);
}

void datagram_make(struct datagram *datagram, const struct program_host *host, uint8_t tos)
{
    const struct program_interface *interface = &host->interfaces[0];
    uint8_t *ip = datagram->frame + DATAGRAM_ETHERNET;
    put_mac(datagram->frame, interface->gateway_mac);
    put_mac(datagram->frame + MAC_BYTES, interface->mac);
    put16(datagram->frame + 12, 0x0800);
    ip[0] = 0x45;
    ip[1] = tos;
    put16(ip + 6, 0x4000); /* it is never cut into pieces */
    ip[8] = 64;
    ip[9] = 17;
    put_ip(ip + 12, interface->ip);
    for (int i = 0; i < DATAGRAM_IP; i += 2)
        datagram->ip_sum += (uint32_t)ip[i] << 8 | ip[i + 1];
}

int datagram_send(struct datagram *datagram, struct program_host *host, uint32_t address, uint32_t port, const uint8_t *payload,
                  uint32_t length, uint32_t tail)
{
    uint8_t *ip = datagram->frame + DATAGRAM_ETHERNET, *udp = ip + DATAGRAM_IP;
    const uint32_t bytes = DATAGRAM_UDP + length + tail;
    uint32_t sum = datagram->ip_sum + (address >> 16) + (address & 0xffff) + DATAGRAM_IP + bytes;
    if (length > DATAGRAM_PAYLOAD)
        return PROGRAM_ELENGTH;
    put16(ip + 2, DATAGRAM_IP + bytes);
    put_ip(ip + 16, address);
    put16(udp, port);
    put16(udp + 2, port);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    put16(ip + 10, ~sum);
    put16(udp + 4, bytes);
    memcpy(datagram->frame + DATAGRAM_HEADERS, payload, length);
    return host->calls->send_long(host, 0, datagram->frame, DATAGRAM_HEADERS + length, tail);
}
