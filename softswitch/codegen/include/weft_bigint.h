/* Exact signed integers of a fixed number of 64-bit limbs, two's complement, the least significant
 * limb first. Generated code picks the number of limbs so that no result can overflow;
 * WPX_BIG(n) defines the type wpx_b<n> and its operations. The slow path: simple loops. */
#ifndef WEFT_BIGINT_H
#define WEFT_BIGINT_H

#include "weft_bits.h"

static inline uint64_t wpx_limbs_sign(const uint64_t *a, unsigned n)
{
    return (uint64_t)((int64_t)a[n - 1] >> 63);
}

static inline void wpx_limbs_add(uint64_t *r, const uint64_t *a, const uint64_t *b, unsigned n)
{
    wpx_u128 carry = 0;
    for (unsigned i = 0; i < n; i++) {
        carry += (wpx_u128)a[i] + b[i];
        r[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

static inline void wpx_limbs_sub(uint64_t *r, const uint64_t *a, const uint64_t *b, unsigned n)
{
    uint64_t borrow = 0;
    for (unsigned i = 0; i < n; i++) {
        wpx_u128 d = (wpx_u128)a[i] - b[i] - borrow;
        r[i] = (uint64_t)d;
        borrow = (uint64_t)(d >> 64) & 1;
    }
}

/* The low n limbs of the product, which are also those of the signed product. */
static inline void wpx_limbs_mul(uint64_t *r, const uint64_t *a, const uint64_t *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++) r[i] = 0;
    for (unsigned i = 0; i < n; i++) {
        wpx_u128 carry = 0;
        for (unsigned j = 0; i + j < n; j++) {
            carry += (wpx_u128)a[i] * b[j] + r[i + j];
            r[i + j] = (uint64_t)carry;
            carry >>= 64;
        }
    }
}

static inline void wpx_limbs_shl(uint64_t *r, const uint64_t *a, uint64_t amount, unsigned n)
{
    uint64_t limbs = amount / 64;
    unsigned bits = (unsigned)(amount % 64);
    for (unsigned i = n; i-- > 0;) {
        uint64_t low = 0, high = 0;
        if (i >= limbs) high = a[i - limbs];
        if (i > limbs) low = a[i - limbs - 1];
        r[i] = bits == 0 ? high : high << bits | low >> (64 - bits);
    }
}

static inline void wpx_limbs_shr(uint64_t *r, const uint64_t *a, uint64_t amount, unsigned n)
{
    uint64_t sign = wpx_limbs_sign(a, n), limbs = amount / 64;
    unsigned bits = (unsigned)(amount % 64);
    for (unsigned i = 0; i < n; i++) {
        uint64_t low = i + limbs < n ? a[i + limbs] : sign;
        uint64_t high = i + limbs + 1 < n ? a[i + limbs + 1] : sign;
        r[i] = bits == 0 ? low : low >> bits | high << (64 - bits);
    }
}

static inline int wpx_limbs_cmp(const uint64_t *a, const uint64_t *b, unsigned n)
{
    if (a[n - 1] != b[n - 1]) return (int64_t)a[n - 1] < (int64_t)b[n - 1] ? -1 : 1;
    for (unsigned i = n - 1; i-- > 0;)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Keeps the low `width` bits; above them 0, or the sign bit's copies when `extend`. */
static inline void wpx_limbs_low(uint64_t *r, const uint64_t *a, unsigned width, int extend, unsigned n)
{
    uint64_t fill = 0;
    if (extend && width > 0 && width <= n * 64 && (a[(width - 1) / 64] >> ((width - 1) % 64) & 1))
        fill = UINT64_MAX;
    for (unsigned i = 0; i < n; i++) {
        if ((i + 1) * 64 <= width) {
            r[i] = a[i];
        } else if (i * 64 >= width) {
            r[i] = fill;
        } else {
            uint64_t mask = (UINT64_C(1) << (width % 64)) - 1;
            r[i] = (a[i] & mask) | (fill & ~mask);
        }
    }
}

static inline void wpx_limbs_convert(uint64_t *r, unsigned n, const uint64_t *a, unsigned m)
{
    uint64_t sign = wpx_limbs_sign(a, m);
    for (unsigned i = 0; i < n; i++) r[i] = i < m ? a[i] : sign;
}

/* Quotient and remainder cut towards zero, bit by bit; division by zero gives 0. */
static inline void wpx_limbs_divmod(uint64_t *q, uint64_t *r, const uint64_t *a, const uint64_t *b,
                                    uint64_t *divisor, unsigned n)
{
    uint64_t sign_a = wpx_limbs_sign(a, n), sign_b = wpx_limbs_sign(b, n), any = 0;
    for (unsigned i = 0; i < n; i++) {
        q[i] = r[i] = 0;
        any |= b[i];
    }
    if (any == 0) return;
    for (unsigned i = 0; i < n; i++) divisor[i] = 0;
    if (sign_b) wpx_limbs_sub(divisor, divisor, b, n);
    else memcpy(divisor, b, n * sizeof *b);
    if (sign_a) wpx_limbs_sub(q, q, a, n);
    else memcpy(q, a, n * sizeof *a);
    for (unsigned bit = n * 64; bit-- > 0;) { /* q gives up dividend bits and takes quotient bits */
        uint64_t top = q[n - 1] >> 63;
        wpx_limbs_shl(q, q, 1, n);
        wpx_limbs_shl(r, r, 1, n);
        r[0] |= top;
        if (wpx_limbs_cmp(r, divisor, n) >= 0) {
            wpx_limbs_sub(r, r, divisor, n);
            q[0] |= 1;
        }
    }
    for (unsigned i = 0; i < n; i++) divisor[i] = 0;
    if (sign_a != sign_b) wpx_limbs_sub(q, divisor, q, n);
    if (sign_a) wpx_limbs_sub(r, divisor, r, n);
}

#define WPX_BIG_BINARY(N, op, body)                                            \
    static inline wpx_b##N wpx_##op##_b##N(wpx_b##N a, wpx_b##N b)             \
    {                                                                          \
        wpx_b##N r;                                                            \
        body;                                                                  \
        return r;                                                              \
    }
#define WPX_BIG(N)                                                             \
    typedef struct {                                                           \
        uint64_t l[N];                                                         \
    } wpx_b##N;                                                                \
    WPX_BIG_BINARY(N, add, wpx_limbs_add(r.l, a.l, b.l, N))                    \
    WPX_BIG_BINARY(N, sub, wpx_limbs_sub(r.l, a.l, b.l, N))                    \
    WPX_BIG_BINARY(N, mul, wpx_limbs_mul(r.l, a.l, b.l, N))                    \
    WPX_BIG_BINARY(N, and, for (unsigned i = 0; i < N; i++) r.l[i] = a.l[i] & b.l[i]) \
    WPX_BIG_BINARY(N, or, for (unsigned i = 0; i < N; i++) r.l[i] = a.l[i] | b.l[i])  \
    WPX_BIG_BINARY(N, xor, for (unsigned i = 0; i < N; i++) r.l[i] = a.l[i] ^ b.l[i]) \
    WPX_BIG_BINARY(N, div, wpx_b##N m; wpx_b##N d; wpx_limbs_divmod(r.l, m.l, a.l, b.l, d.l, N)) \
    WPX_BIG_BINARY(N, mod, wpx_b##N q; wpx_b##N d; wpx_limbs_divmod(q.l, r.l, a.l, b.l, d.l, N)) \
    static inline int wpx_cmp_b##N(wpx_b##N a, wpx_b##N b) { return wpx_limbs_cmp(a.l, b.l, N); } \
    static inline int wpx_nonzero_b##N(wpx_b##N a)                             \
    {                                                                          \
        uint64_t any = 0;                                                      \
        for (unsigned i = 0; i < N; i++) any |= a.l[i];                        \
        return any != 0;                                                       \
    }                                                                          \
    static inline wpx_b##N wpx_shl_b##N(wpx_b##N a, uint64_t amount)           \
    {                                                                          \
        wpx_b##N r;                                                            \
        wpx_limbs_shl(r.l, a.l, amount, N);                                    \
        return r;                                                              \
    }                                                                          \
    static inline wpx_b##N wpx_shr_b##N(wpx_b##N a, uint64_t amount)           \
    {                                                                          \
        wpx_b##N r;                                                            \
        wpx_limbs_shr(r.l, a.l, amount, N);                                    \
        return r;                                                              \
    }                                                                          \
    static inline wpx_b##N wpx_low_b##N(wpx_b##N a, unsigned width, int extend)\
    {                                                                          \
        wpx_b##N r;                                                            \
        wpx_limbs_low(r.l, a.l, width, extend, N);                             \
        return r;                                                              \
    }                                                                          \
    static inline wpx_b##N wpx_clamp_b##N(wpx_b##N v, wpx_b##N low, wpx_b##N high) \
    {                                                                          \
        return wpx_cmp_b##N(v, low) < 0 ? low : wpx_cmp_b##N(v, high) > 0 ? high : v; \
    }                                                                          \
    static inline uint64_t wpx_amount_b##N(wpx_b##N v)                         \
    {                                                                          \
        if (wpx_limbs_sign(v.l, N)) return 0;                                  \
        for (unsigned i = 1; i < N; i++)                                       \
            if (v.l[i]) return UINT32_MAX;                                     \
        return v.l[0] > UINT32_MAX ? UINT32_MAX : v.l[0];                      \
    }                                                                          \
    static inline wpx_b##N wpx_b##N##_convert(const uint64_t *l, unsigned m)   \
    {                                                                          \
        wpx_b##N r;                                                            \
        wpx_limbs_convert(r.l, N, l, m);                                       \
        return r;                                                              \
    }                                                                          \
    static inline wpx_b##N wpx_b##N##_limbs(const uint64_t *l, unsigned m)     \
    { /* of a field: unsigned */                                               \
        wpx_b##N r;                                                            \
        for (unsigned i = 0; i < N; i++) r.l[i] = i < m ? l[i] : 0;            \
        return r;                                                              \
    }                                                                          \
    static inline wpx_b##N wpx_b##N##_u64(uint64_t v)                          \
    {                                                                          \
        return wpx_b##N##_limbs(&v, 1);                                        \
    }                                                                          \
    static inline wpx_b##N wpx_b##N##_i64(int64_t v)                           \
    {                                                                          \
        uint64_t u = (uint64_t)v;                                              \
        return wpx_b##N##_convert(&u, 1);                                      \
    }                                                                          \
    static inline wpx_b##N wpx_b##N##_u128(wpx_u128 v)                         \
    {                                                                          \
        uint64_t l[2] = {(uint64_t)v, (uint64_t)(v >> 64)};                    \
        return wpx_b##N##_limbs(l, 2);                                         \
    }                                                                          \
    static inline wpx_b##N wpx_b##N##_i128(wpx_i128 v)                         \
    {                                                                          \
        uint64_t l[2] = {(uint64_t)v, (uint64_t)(v >> 64)};                    \
        return wpx_b##N##_convert(l, 2);                                       \
    }                                                                          \
    static inline wpx_b##N wpx_b##N##_bytes(const uint8_t *p, uint32_t bytes)  \
    { /* of a varbit field: unsigned, network order */                         \
        wpx_b##N r = {{0}};                                                    \
        for (uint32_t i = 0; i < bytes && i < 8 * N; i++)                      \
            r.l[i / 8] |= (uint64_t)p[bytes - 1 - i] << (i % 8 * 8);           \
        return r;                                                              \
    }                                                                          \
    static inline void wpx_put_b##N(uint64_t *l, wpx_b##N v, unsigned m)       \
    {                                                                          \
        for (unsigned i = 0; i < m; i++) l[i] = i < N ? v.l[i] : 0;            \
    }

#endif
