/* Owns the scale of floats. Doubles hold every step exactly but the rounding itself, so all machines come to the same bits. */
#include "floats.h"

#include <string.h>

enum { BIAS = 128, DOUBLE_BIAS = 1023, DOUBLE_FRACTION = 52, FLOAT_FRACTION = 23, FLOAT_BIAS = 127 };

static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(DOUBLE_BIAS + exponent) << DOUBLE_FRACTION;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int shift_of(uint8_t exponent, uint32_t ranks)
{
    const int bits_of_ranks = ranks > 1 ? 32 - __builtin_clz(ranks - 1) : 0;
    return FLOATS_BITS - bits_of_ranks - (exponent - BIAS + 1);
}

uint8_t floats_exponent(const float *values, uint32_t n)
{
    uint32_t most = 0; /* as integers, magnitudes are in the same order */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    if (!most)
        return 0;
    const int exponent = (int)(most >> FLOAT_FRACTION) - FLOAT_BIAS; /* of one that is not normal: -127, the least */
    return exponent >= FLOAT_BIAS ? FLOATS_NOT_FINITE : (uint8_t)(exponent + BIAS);
}

void floats_to_integers(int32_t *to, const float *values, uint32_t n, uint8_t exponent, uint32_t ranks)
{
    if (!exponent || exponent == FLOATS_NOT_FINITE) {
        memset(to, 0, n * sizeof *to);
        return;
    }
    const double scale = power_of_two(shift_of(exponent, ranks));
    for (uint32_t i = 0; i < n; i++) {
        /* A double of this size has no bits behind the point: adding rounds, and the lowest bits are the integer. */
        const double rounded = (double)values[i] * scale + 0x1.8p52;
        int64_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        to[i] = (int32_t)(uint32_t)(uint64_t)bits;
    }
}

void floats_from_integers(float *to, const int32_t *sums, uint32_t n, uint8_t exponent, uint32_t ranks)
{
    if (exponent == FLOATS_NOT_FINITE) {
        const uint32_t not_a_number = 0x7fc00000;
        for (uint32_t i = 0; i < n; i++)
            memcpy(&to[i], &not_a_number, sizeof *to);
        return;
    }
    const double scale = exponent ? power_of_two(-shift_of(exponent, ranks)) : 0;
    for (uint32_t i = 0; i < n; i++)
        to[i] = (float)((double)sums[i] * scale);
}
