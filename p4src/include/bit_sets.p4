// Sets as 64 bits, of ports to other switches mostly: how many are in one, and which is the n-th.

#ifndef WEFT_BIT_SETS_P4
#define WEFT_BIT_SETS_P4

// The n-th member of a set, n drawn evenly from `draw` (0 to 65535): what a dead one carried is spread over all that are
// left. Turning the set by a hash and taking the first would give its whole share to one neighbour.
//
// Counts of pairs, nibbles and bytes of bits, then of all bytes up to each one; the n-th bit is found by halves.
control PickWay(in bit<64> ways, in bit<16> draw, out bit<8> way) {
    apply {
        bit<64> pairs = ways - ((ways >> 1) & 0x5555555555555555);
        bit<64> nibbles = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333);
        bit<64> bytes = (nibbles + (nibbles >> 4)) & 0x0f0f0f0f0f0f0f0f;
        bit<64> upto = bytes * 0x0101010101010101;
        bit<32> scaled = (bit<32>)draw * (bit<32>)upto[63:56];
        bit<8> n = scaled[23:16];
        way = 0;
        if (n >= upto[31:24]) {
            way = 32;
        }
        bit<64> rest = upto >> (way + 8);
        if (n >= rest[7:0]) {
            way = way + 16;
        }
        rest = upto >> way;
        if (n >= rest[7:0]) {
            way = way + 8;
        }
        if (way != 0) {
            rest = upto >> (way - 8);
            n = n - rest[7:0];
        }
        rest = nibbles >> way;
        if (n >= 4w0 ++ rest[3:0]) {
            n = n - (4w0 ++ rest[3:0]);
            way = way + 4;
        }
        rest = pairs >> way;
        if (n >= 6w0 ++ rest[1:0]) {
            n = n - (6w0 ++ rest[1:0]);
            way = way + 2;
        }
        rest = ways >> way;
        if (n >= 7w0 ++ rest[0:0]) {
            way = way + 1;
        }
    }
}

#endif
