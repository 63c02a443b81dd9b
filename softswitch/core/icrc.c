#include "icrc.h"

#include <string.h>

enum {
    SLICES = 8,
    ETHERNET = 14,
    IPV4 = 20,
    UDP = 8,
    BTH = 12,
    ICRC = 4,
    ROCE_PORT = 4791,
    HEADERS = IPV4 + UDP + BTH,
};

static uint32_t table[SLICES][256];

static __attribute__((constructor)) void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int slice = 1; slice < SLICES; slice++)
            table[slice][i] = table[slice - 1][i] >> 8 ^ table[0][table[slice - 1][i] & 0xff];
}

uint32_t ws_crc32_more(uint32_t crc, const uint8_t *data, size_t n)
{
    while (n >= SLICES) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
              table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^ table[0][data[7]];
        data += SLICES;
        n -= SLICES;
    }
    while (n--)
        crc = crc >> 8 ^ table[0][(crc ^ *data++) & 0xff];
    return crc;
}

uint32_t ws_icrc(const uint8_t *packet, size_t n, const uint8_t *payload, size_t more)
{
    /* What routers may change counts as ones: TOS, TTL, both checksums, BTH's byte with FECN and BECN. In front stands
     * a local route header that is not there. */
    uint8_t masked[8 + HEADERS];
    memset(masked, 0xff, 8);
    memcpy(masked + 8, packet, HEADERS);
    uint8_t *ip = masked + 8;
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
    ip[IPV4 + 6] = ip[IPV4 + 7] = 0xff;
    ip[IPV4 + UDP + 4] = 0xff;
    uint32_t crc = ws_crc32_more(0xffffffff, masked, sizeof masked);
    crc = ws_crc32_more(crc, packet + HEADERS, n - HEADERS);
    if (more)
        crc = ws_crc32_more(crc, payload, more);
    return ~crc;
}

int ws_icrc_write(uint8_t *frame, size_t length)
{
    const uint8_t *ip = frame + ETHERNET;
    if (length < ETHERNET + HEADERS + ICRC || frame[12] != 0x08 || frame[13] != 0 || ip[0] != 0x45 || ip[9] != 17 ||
        ((uint32_t)ip[IPV4 + 2] << 8 | ip[IPV4 + 3]) != ROCE_PORT ||
        ((size_t)ip[2] << 8 | ip[3]) != length - ETHERNET)
        return 0;
    uint32_t crc = ws_icrc(ip, length - ETHERNET - ICRC, NULL, 0);
    for (int i = 0; i < ICRC; i++)
        frame[length - ICRC + (size_t)i] = (uint8_t)(crc >> 8 * i);
    return 1;
}
