/* Bits and bytes for generated pipelines: loads and stores in network order, shifts that are
 * defined for every amount, arithmetic on 64 and 128 bits with the meaning of unbounded integers. */
#ifndef WEFT_BITS_H
#define WEFT_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 wpx_u128;
__extension__ typedef __int128 wpx_i128;

/* A parser that moves between states without end is stopped after so many backward steps. */
#define WPX_PARSE_STEPS 16384u
/* Likewise backward jumps of one action. */
#define WPX_ACTION_JUMPS 65536u

/* --- network order ---------------------------------------------------------------------- */

static inline uint64_t wpx_ld8(const uint8_t *p) { return p[0]; }

static inline uint64_t wpx_ld16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return __builtin_bswap16(v);
}

static inline uint64_t wpx_ld32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

static inline uint64_t wpx_ld64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}

static inline uint64_t wpx_ld24(const uint8_t *p) { return wpx_ld16(p) << 8 | p[2]; }
static inline uint64_t wpx_ld40(const uint8_t *p) { return wpx_ld32(p) << 8 | p[4]; }
static inline uint64_t wpx_ld48(const uint8_t *p) { return wpx_ld32(p) << 16 | wpx_ld16(p + 4); }
static inline uint64_t wpx_ld56(const uint8_t *p) { return wpx_ld32(p) << 24 | wpx_ld24(p + 4); }

static inline void wpx_st8(uint8_t *p, uint64_t v) { p[0] = (uint8_t)v; }

static inline void wpx_st16(uint8_t *p, uint64_t v)
{
    uint16_t b = __builtin_bswap16((uint16_t)v);
    memcpy(p, &b, 2);
}

static inline void wpx_st32(uint8_t *p, uint64_t v)
{
    uint32_t b = __builtin_bswap32((uint32_t)v);
    memcpy(p, &b, 4);
}

static inline void wpx_st64(uint8_t *p, uint64_t v)
{
    uint64_t b = __builtin_bswap64(v);
    memcpy(p, &b, 8);
}

static inline void wpx_st24(uint8_t *p, uint64_t v)
{
    wpx_st16(p, v >> 8);
    wpx_st8(p + 2, v);
}

static inline void wpx_st40(uint8_t *p, uint64_t v)
{
    wpx_st32(p, v >> 8);
    wpx_st8(p + 4, v);
}

static inline void wpx_st48(uint8_t *p, uint64_t v)
{
    wpx_st32(p, v >> 16);
    wpx_st16(p + 4, v);
}

static inline void wpx_st56(uint8_t *p, uint64_t v)
{
    wpx_st32(p, v >> 24);
    wpx_st24(p + 4, v);
}

/* `width` (1..64) bits from bit `bit` of a packet of `len` bytes; bits beyond its end read as 0. */
static inline uint64_t wpx_peek(const uint8_t *p, uint64_t len, uint64_t bit, uint32_t width)
{
    uint64_t v = 0;
    for (uint32_t i = 0; i < width; i++) {
        uint64_t at = bit + i;
        uint64_t one = at / 8 < len ? (uint64_t)(p[at / 8] >> (7 - at % 8)) & 1 : 0;
        v = v << 1 | one;
    }
    return v;
}

/* Appends the low `width` (1..64) bits of `v` at bit *bit of `out`, whose bits from there are 0. */
static inline void wpx_append(uint8_t *out, uint32_t *bit, uint64_t v, uint32_t width)
{
    uint32_t at = *bit;
    *bit = at + width;
    while (width > 0) {
        uint32_t room = 8 - at % 8;
        uint32_t take = width < room ? width : room;
        uint32_t part = (uint32_t)(v >> (width - take)) & ((1u << take) - 1);
        out[at / 8] = (uint8_t)(out[at / 8] | part << (room - take));
        at += take;
        width -= take;
    }
}

/* Appends `bytes` whole bytes. */
static inline void wpx_append_bytes(uint8_t *out, uint32_t *bit, const uint8_t *from, uint32_t bytes)
{
    if (*bit % 8 == 0) {
        memcpy(out + *bit / 8, from, bytes);
        *bit += bytes * 8;
        return;
    }
    for (uint32_t i = 0; i < bytes; i++) wpx_append(out, bit, from[i], 8);
}

/* Copies `bytes` bytes that begin at bit `bit` of `from` (a varbit field that is not aligned). */
static inline void wpx_extract_bytes(uint8_t *out, const uint8_t *from, uint32_t bit, uint32_t bytes)
{
    from += bit / 8;
    bit %= 8;
    if (bit == 0) {
        memcpy(out, from, bytes);
        return;
    }
    for (uint32_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(from[i] << bit | from[i + 1] >> (8 - bit));
}

/* --- wide fields: limbs, the least significant first -------------------------------------- */

static inline wpx_u128 wpx_ld128(const uint64_t *l) { return (wpx_u128)l[1] << 64 | l[0]; }

static inline void wpx_put128(uint64_t *l, wpx_u128 v)
{
    l[0] = (uint64_t)v;
    l[1] = (uint64_t)(v >> 64);
}

static inline wpx_u128 wpx_make128(uint64_t high, uint64_t low) { return (wpx_u128)high << 64 | low; }

/* --- sign extension, saturation, shifts ---------------------------------------------------- */

static inline int64_t wpx_sext64(uint64_t v, unsigned width)
{
    return (int64_t)(v << (64 - width)) >> (64 - width);
}

static inline wpx_i128 wpx_sext128(wpx_u128 v, unsigned width)
{
    return (wpx_i128)(v << (128 - width)) >> (128 - width);
}

#define WPX_CLAMP(name, type)                                         \
    static inline type wpx_clamp_##name(type v, type low, type high)  \
    {                                                                 \
        return v < low ? low : v > high ? high : v;                   \
    }
WPX_CLAMP(u64, uint64_t)
WPX_CLAMP(i64, int64_t)
WPX_CLAMP(u128, wpx_u128)
WPX_CLAMP(i128, wpx_i128)
#undef WPX_CLAMP

/* Shift amounts saturate; a negative one (BMv2 refuses it) counts as 0. */
static inline uint64_t wpx_amount_i64(int64_t v) { return v < 0 ? 0 : (uint64_t)v; }
static inline uint64_t wpx_amount_u128(wpx_u128 v) { return v > UINT32_MAX ? UINT32_MAX : (uint64_t)v; }
static inline uint64_t wpx_amount_i128(wpx_i128 v) { return v < 0 ? 0 : wpx_amount_u128((wpx_u128)v); }

static inline uint64_t wpx_shl_u64(uint64_t v, uint64_t n) { return n < 64 ? v << n : 0; }
static inline uint64_t wpx_shr_u64(uint64_t v, uint64_t n) { return n < 64 ? v >> n : 0; }
static inline int64_t wpx_shl_i64(int64_t v, uint64_t n) { return (int64_t)wpx_shl_u64((uint64_t)v, n); }
static inline int64_t wpx_shr_i64(int64_t v, uint64_t n) { return v >> (n < 64 ? n : 63); }
static inline wpx_u128 wpx_shl_u128(wpx_u128 v, uint64_t n) { return n < 128 ? v << n : 0; }
static inline wpx_u128 wpx_shr_u128(wpx_u128 v, uint64_t n) { return n < 128 ? v >> n : 0; }
static inline wpx_i128 wpx_shl_i128(wpx_i128 v, uint64_t n) { return (wpx_i128)wpx_shl_u128((wpx_u128)v, n); }
static inline wpx_i128 wpx_shr_i128(wpx_i128 v, uint64_t n) { return v >> (n < 128 ? n : 127); }

/* Division by zero (BMv2 aborts) gives 0; quotients are cut towards zero. */
#define WPX_DIVISION(name, type)                                                             \
    static inline type wpx_div_##name(type a, type b) { return b == 0 ? 0 : a / b; }          \
    static inline type wpx_mod_##name(type a, type b) { return b == 0 ? 0 : a % b; }
WPX_DIVISION(u64, uint64_t)
WPX_DIVISION(u128, wpx_u128)
WPX_DIVISION(i128, wpx_i128)
#undef WPX_DIVISION

/* An index into a stack of `size` headers; the element behind the last one takes what is outside. */
static inline uint32_t wpx_at(uint64_t index, uint32_t size)
{
    return index < size ? (uint32_t)index : size;
}

#endif
