/* Floats as integers that N workers can add up without overflow, by an exponent of a power of two for each chunk.
 *
 * An exponent e, biased by 128 (0: all values are zero), says that every magnitude is below 2^(e - 127). FLOATS_NOT_FINITE: some
 * value is no number, infinite, or 2^127 or more; then the whole chunk is NaN on all ranks.
 */
#ifndef WEFT_COLLECTIVE_FLOATS_H
#define WEFT_COLLECTIVE_FLOATS_H

#include <stdint.h>

enum {
    FLOATS_NOT_FINITE = 255,
    FLOATS_BITS = 30, /* of a sum, without its sign: one less than int32 has, so that rounding can't overflow */
};

uint8_t floats_exponent(const float *values, uint32_t n);
/* Rounded to nearest, ties to even. Values must fit the exponent. */
void floats_to_integers(int32_t *to, const float *values, uint32_t n, uint8_t exponent, uint32_t ranks);
void floats_from_integers(float *to, const int32_t *sums, uint32_t n, uint8_t exponent, uint32_t ranks);

#endif
