#include "icrc.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum {
    SLICES = 8,
    ETHERNET = 14,
    IPV4 = 20,
    UDP = 8,
    BTH = 12,
    ICRC = 4,
    ROCE_PORT = 4791,
    TELEMETRY_PORT = 4794, /* a shim follows UDP: version in the upper half of its first byte, words behind it in the second */
    SHIM = 4,
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

/* --- by carry-less multiplication, where the processor has it ---------------------------------- */

#ifdef __x86_64__
enum { FOLD = 64, LANE = 16 }; /* bytes a step; the shortest that is worth it is two steps */

static inline __attribute__((target("pclmul,sse4.1"))) __m128i fold(__m128i sum, __m128i by, __m128i next)
{
    const __m128i low = _mm_clmulepi64_si128(sum, by, 0x00), high = _mm_clmulepi64_si128(sum, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

static inline __attribute__((target("pclmul,sse4.1"))) __m128i lane(const uint8_t *data, int i)
{
    return _mm_loadu_si128((const __m128i *)(data + LANE * i));
}

/* `n` is a multiple of LANE, at least FOLD. Four lanes are folded side by side, then into one, which Barrett's reduction
 * brings to 32 bits. Method and constants (powers of x modulo the reflected polynomial): Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009. */
static __attribute__((target("pclmul,sse4.1"))) uint32_t crc32_folded(uint32_t crc, const uint8_t *data, size_t n)
{
    const __m128i by_fold = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by_lane = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i by_half = _mm_set_epi64x(0, 0x163cd6124), barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i words = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i sum[4] = {_mm_xor_si128(lane(data, 0), _mm_cvtsi32_si128((int)crc)), lane(data, 1), lane(data, 2), lane(data, 3)};
    for (data += FOLD, n -= FOLD; n >= FOLD; data += FOLD, n -= FOLD)
        for (int i = 0; i < 4; i++)
            sum[i] = fold(sum[i], by_fold, lane(data, i));
    __m128i one = sum[0];
    for (int i = 1; i < 4; i++)
        one = fold(one, by_lane, sum[i]);
    for (; n >= LANE; data += LANE, n -= LANE)
        one = fold(one, by_lane, lane(data, 0));
    one = _mm_xor_si128(_mm_srli_si128(one, 8), _mm_clmulepi64_si128(one, by_lane, 0x10));
    one = _mm_xor_si128(_mm_srli_si128(one, 4), _mm_clmulepi64_si128(_mm_and_si128(one, words), by_half, 0x00));
    __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(one, words), barrett, 0x10), words);
    one = _mm_xor_si128(one, _mm_clmulepi64_si128(quotient, barrett, 0x00));
    return (uint32_t)_mm_extract_epi32(one, 1);
}

static int can_fold;
static __attribute__((constructor)) void look(void)
{
    __builtin_cpu_init();
    can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#endif

uint32_t ws_crc32_more(uint32_t crc, const uint8_t *data, size_t n)
{
#ifdef __x86_64__
    if (can_fold && n >= 2 * FOLD) {
        const size_t whole = n / LANE * LANE;
        crc = crc32_folded(crc, data, whole);
        data += whole;
        n -= whole;
    }
#endif
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

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}
static uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

uint32_t ws_icrc(const uint8_t *packet, size_t n, const uint8_t *payload, size_t more)
{
    return ws_icrc_without(packet, 0, n, payload, more);
}

uint32_t ws_icrc_without(const uint8_t *packet, uint32_t shim, size_t n, const uint8_t *payload, size_t more)
{
    /* What routers may change counts as ones: TOS, TTL, both checksums, BTH's byte with FECN and BECN. In front stands
     * a local route header that is not there. */
    uint8_t masked[8 + HEADERS];
    memset(masked, 0xff, 8);
    memcpy(masked + 8, packet, IPV4 + UDP);
    memcpy(masked + 8 + IPV4 + UDP, packet + IPV4 + UDP + shim, BTH);
    uint8_t *ip = masked + 8;
    if (shim) {
        put16(ip + 2, get16(ip + 2) - shim);
        put16(ip + IPV4 + 2, ROCE_PORT);
        put16(ip + IPV4 + 4, get16(ip + IPV4 + 4) - shim);
    }
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
    ip[IPV4 + 6] = ip[IPV4 + 7] = 0xff;
    ip[IPV4 + UDP + 4] = 0xff;
    uint32_t crc = ws_crc32_more(0xffffffff, masked, sizeof masked);
    crc = ws_crc32_more(crc, packet + HEADERS + shim, n - HEADERS - shim);
    if (more)
        crc = ws_crc32_more(crc, payload, more);
    return ~crc;
}

int ws_icrc_write(uint8_t *frame, size_t length)
{
    const uint8_t *ip = frame + ETHERNET;
    if (length < ETHERNET + HEADERS + ICRC || frame[12] != 0x08 || frame[13] != 0 || ip[0] != 0x45 || ip[9] != 17 ||
        get16(ip + 2) != length - ETHERNET)
        return 0;
    const uint32_t port = get16(ip + IPV4 + 2);
    uint32_t shim = 0;
    if (port == TELEMETRY_PORT && ip[IPV4 + UDP] >> 4 == 0)
        shim = SHIM + 4 * (uint32_t)ip[IPV4 + UDP + 1];
    if ((port != ROCE_PORT && !shim) || length < ETHERNET + HEADERS + ICRC + shim)
        return 0;
    uint32_t crc = ws_icrc_without(ip, shim, length - ETHERNET - ICRC, NULL, 0);
    for (int i = 0; i < ICRC; i++)
        frame[length - ICRC + (size_t)i] = (uint8_t)(crc >> 8 * i);
    return 1;
}
