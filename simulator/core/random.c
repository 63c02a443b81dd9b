/* Numbers that are the same on every machine. */
#include "engine.h"

uint64_t sim_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* -ln(u) = (64 - log2 x) ln 2 with u = x / 2^64: the logarithm bit by bit, by squaring. */
ws_time sim_exponential(ws_time mean_ps, uint64_t random)
{
    enum { FRACTION = 40 };
    static const uint64_t LN2 = 0xb17217f7d1cf79acu; /* in units of 2^-64 */
    uint64_t x = random + 1;
    if (x == 0) /* u = 1 */
        return 0;
    int zeros = __builtin_clzll(x);
    uint64_t mantissa = x << zeros, fraction = 0; /* mantissa: 1 .. 2 in units of 2^-63 */
    for (int bit = 0; bit < FRACTION; bit++) {
        unsigned __int128 square = (unsigned __int128)mantissa * mantissa >> 63;
        fraction <<= 1;
        if (square >> 64) {
            fraction |= 1;
            square >>= 1;
        }
        mantissa = (uint64_t)square;
    }
    uint64_t log2 = ((uint64_t)(63 - zeros) << FRACTION) + fraction;
    uint64_t bits = ((uint64_t)64 << FRACTION) - log2;
    uint64_t natural = (uint64_t)((unsigned __int128)bits * LN2 >> 64);
    return (ws_time)((unsigned __int128)(uint64_t)mean_ps * natural >> FRACTION);
}
