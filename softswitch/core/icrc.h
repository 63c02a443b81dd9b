/* The invariant CRC of RoCEv2 packets (InfiniBand Architecture vol. 1, annex A17.3.3). */
#ifndef WEFT_ICRC_H
#define WEFT_ICRC_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 (IEEE 802.3) of more bytes: start with 0xffffffff, end by inverting. */
uint32_t ws_crc32_more(uint32_t crc, const uint8_t *data, size_t n);

/* Over an IPv4 packet (from its header of 20 bytes on, at least up to the BTH: 40 bytes) of which `n` bytes are at `packet`
 * and `more` follow at `payload`, both without the ICRC itself. The result goes on the wire least significant byte first. */
uint32_t ws_icrc(const uint8_t *packet, size_t n, const uint8_t *payload, size_t more);

/* The same of a packet that carries `shim` bytes of telemetry between UDP and BTH, which count in `n`: as if they were not there,
 * its lengths were smaller by them and its port were RoCEv2's (docs/wire-formats.md). 0: as ws_icrc. */
uint32_t ws_icrc_without(const uint8_t *packet, uint32_t shim, size_t n, const uint8_t *payload, size_t more);

/* If the frame (Ethernet, without FCS, whole) is a RoCEv2 packet over IPv4 without options, perhaps with telemetry: writes its right ICRC into
 * its last four bytes and returns 1. */
int ws_icrc_write(uint8_t *frame, size_t length);

#endif
