/* BMv2's hash algorithms over an input in two parts (fields, then payload), so that
 * the payload need not be copied. CRC tables are generated beside the code that uses them. */
#ifndef WEFT_HASH_H
#define WEFT_HASH_H

#include "weft_bits.h"

/* Byte `i` of the two parts together. */
static inline uint8_t wpx_byte(const uint8_t *a, size_t n, const uint8_t *b, size_t i)
{
    return i < n ? a[i] : b[i - n];
}

/* --- Internet checksum (RFC 1071) ---------------------------------------------------------- */

static inline uint64_t wpx_sum16(const uint8_t *p, size_t n)
{
    uint64_t sum = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) sum += wpx_ld32(p + i);
    if (n - i >= 2) {
        sum += wpx_ld16(p + i);
        i += 2;
    }
    if (i < n) sum += (uint64_t)p[i] << 8;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static inline uint64_t wpx_csum16(const uint8_t *a, size_t n, const uint8_t *b, size_t m)
{
    uint64_t sum = wpx_sum16(a, n);
    if (m > 0) {
        uint64_t rest = wpx_sum16(b, m);
        if (n % 2) rest = (rest << 8 | rest >> 8) & 0xffff;
        sum += rest;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return ~sum & 0xffff;
}

/* --- CRC: reflected ones shift right, the others left ------------------------------------- */

#define WPX_CRC_REFLECTED(name, type, table, init, final)                                      \
    static inline uint64_t wpx_##name(const uint8_t *a, size_t n, const uint8_t *b, size_t m)   \
    {                                                                                           \
        type crc = (init);                                                                      \
        for (size_t i = 0; i < n; i++) crc = (type)(table[(uint8_t)(crc ^ a[i])] ^ (type)((uint64_t)crc >> 8)); \
        for (size_t i = 0; i < m; i++) crc = (type)(table[(uint8_t)(crc ^ b[i])] ^ (type)((uint64_t)crc >> 8)); \
        return (type)(crc ^ (final));                                                           \
    }

#define WPX_CRC_STRAIGHT(name, type, bits, table, init, final)                                  \
    static inline uint64_t wpx_##name(const uint8_t *a, size_t n, const uint8_t *b, size_t m)   \
    {                                                                                           \
        type crc = (init);                                                                      \
        for (size_t i = 0; i < n; i++)                                                          \
            crc = (type)(table[(uint8_t)((crc >> ((bits) - 8)) ^ a[i])] ^ (type)((uint64_t)crc << 8)); \
        for (size_t i = 0; i < m; i++)                                                          \
            crc = (type)(table[(uint8_t)((crc >> ((bits) - 8)) ^ b[i])] ^ (type)((uint64_t)crc << 8)); \
        return (type)(crc ^ (final));                                                           \
    }

/* The lowest `bits` bits in reverse order. */
static inline uint64_t wpx_mirrored(uint64_t v, unsigned bits)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < bits; i++) r = r << 1 | (v >> i & 1);
    return r;
}

/* --- others --------------------------------------------------------------------------------- */

/* The first eight bytes as a number. */
static inline uint64_t wpx_identity(const uint8_t *a, size_t n, const uint8_t *b, size_t m)
{
    uint64_t v = 0;
    for (size_t i = 0; i < 8 && i < n + m; i++) v = v << 8 | wpx_byte(a, n, b, i);
    return v;
}

/* Exclusive or of words of `size` bytes, the last one filled up with zeros. */
static inline uint64_t wpx_xor(const uint8_t *a, size_t n, const uint8_t *b, size_t m, size_t size)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n + m; i++)
        v ^= (uint64_t)wpx_byte(a, n, b, i) << (8 * (size - 1 - i % size));
    return v;
}

static inline uint64_t wpx_xor16(const uint8_t *a, size_t n, const uint8_t *b, size_t m)
{
    return wpx_xor(a, n, b, m, 2);
}

static inline uint64_t wpx_xor32(const uint8_t *a, size_t n, const uint8_t *b, size_t m)
{
    return wpx_xor(a, n, b, m, 4);
}

/* BMv2's key is all zeros until the control plane sets one, which P4Runtime can't. */
static inline uint64_t wpx_toeplitz(const uint8_t *a, size_t n, const uint8_t *b, size_t m)
{
    (void)a, (void)n, (void)b, (void)m;
    return 0;
}

#define WPX_XX1 UINT64_C(0x9E3779B185EBCA87)
#define WPX_XX2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define WPX_XX3 UINT64_C(0x165667B19E3779F9)
#define WPX_XX4 UINT64_C(0x85EBCA77C2B2AE63)
#define WPX_XX5 UINT64_C(0x27D4EB2F165667C5)

static inline uint64_t wpx_rotl(uint64_t v, unsigned n) { return v << n | v >> (64 - n); }

static inline uint64_t wpx_xx_round(uint64_t acc, uint64_t lane)
{
    return wpx_rotl(acc + lane * WPX_XX2, 31) * WPX_XX1;
}

/* Little-endian word of `size` bytes at `i` of the two parts. */
static inline uint64_t wpx_xx_word(const uint8_t *a, size_t n, const uint8_t *b, size_t i, size_t size)
{
    uint64_t v = 0;
    for (size_t k = size; k-- > 0;) v = v << 8 | wpx_byte(a, n, b, i + k);
    return v;
}

/* xxHash, 64 bits, seed 0 (the published specification). */
static inline uint64_t wpx_xxh64(const uint8_t *a, size_t n, const uint8_t *b, size_t m)
{
    size_t total = n + m, i = 0;
    uint64_t h;
    if (total >= 32) {
        uint64_t acc[4] = {WPX_XX1 + WPX_XX2, WPX_XX2, 0, (uint64_t)0 - WPX_XX1};
        for (; i + 32 <= total; i += 32)
            for (size_t k = 0; k < 4; k++)
                acc[k] = wpx_xx_round(acc[k], wpx_xx_word(a, n, b, i + 8 * k, 8));
        h = wpx_rotl(acc[0], 1) + wpx_rotl(acc[1], 7) + wpx_rotl(acc[2], 12) + wpx_rotl(acc[3], 18);
        for (size_t k = 0; k < 4; k++)
            h = (h ^ wpx_xx_round(0, acc[k])) * WPX_XX1 + WPX_XX4;
    } else {
        h = WPX_XX5;
    }
    h += total;
    for (; i + 8 <= total; i += 8)
        h = wpx_rotl(h ^ wpx_xx_round(0, wpx_xx_word(a, n, b, i, 8)), 27) * WPX_XX1 + WPX_XX4;
    if (i + 4 <= total) {
        h = wpx_rotl(h ^ wpx_xx_word(a, n, b, i, 4) * WPX_XX1, 23) * WPX_XX2 + WPX_XX3;
        i += 4;
    }
    for (; i < total; i++)
        h = wpx_rotl(h ^ (uint64_t)wpx_byte(a, n, b, i) * WPX_XX5, 11) * WPX_XX1;
    h = (h ^ h >> 33) * WPX_XX2;
    h = (h ^ h >> 29) * WPX_XX3;
    return h ^ h >> 32;
}

#endif
