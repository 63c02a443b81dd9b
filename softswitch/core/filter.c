#include "filter.h"

enum {
    CLASS = 0x07, LD = 0, LDX = 1, ST = 2, STX = 3, ALU = 4, JMP = 5, RET = 6, MISC = 7,
    SIZE = 0x18, W = 0x00, H = 0x08, B = 0x10,
    MODE = 0xe0, IMM = 0x00, ABS = 0x20, IND = 0x40, MEM = 0x60, LEN = 0x80, MSH = 0xa0,
    OP = 0xf0, ADD = 0x00, SUB = 0x10, MUL = 0x20, DIV = 0x30, OR = 0x40, AND = 0x50, LSH = 0x60, RSH = 0x70,
    NEG = 0x80, MOD = 0x90, XOR = 0xa0,
    JA = 0x00, JEQ = 0x10, JGT = 0x20, JGE = 0x30, JSET = 0x40,
    SOURCE = 0x08, X = 0x08,
    RVAL = 0x18, A = 0x10,
    TXA = 0x80,
    CELLS = 16,
};

static int valid_load(const struct ws_filter_insn *i)
{
    int mode = i->code & MODE, size = i->code & SIZE;
    if (i->code & ~(CLASS | SIZE | MODE))
        return 0;
    if ((i->code & CLASS) == LDX && mode == MSH)
        return size == B;
    if (mode == MEM)
        return size == W && i->k < CELLS;
    if (mode == IMM || mode == LEN)
        return size == W;
    return (i->code & CLASS) == LD && (mode == ABS || mode == IND) && (size == W || size == H || size == B);
}

static int valid_alu(const struct ws_filter_insn *i)
{
    int op = i->code & OP;
    if (i->code & ~(CLASS | OP | SOURCE) || op > XOR)
        return 0;
    return (op != DIV && op != MOD) || i->code & SOURCE || i->k != 0;
}

static int valid_jump(const struct ws_filter_insn *i, uint32_t after)
{
    if (i->code & ~(CLASS | OP | SOURCE) || (i->code & OP) > JSET)
        return 0;
    return (i->code & OP) == JA ? i->k < after : i->jt < after && i->jf < after;
}

int ws_filter_valid(const struct ws_filter_insn *code, uint32_t n)
{
    if (!n || n > WS_FILTER_MAX || (code[n - 1].code & CLASS) != RET)
        return 0;
    for (uint32_t at = 0; at < n; at++) {
        const struct ws_filter_insn *i = &code[at];
        int ok = 0;
        switch (i->code & CLASS) {
        case LD:
        case LDX:
            ok = valid_load(i);
            break;
        case ST:
        case STX:
            ok = !(i->code & ~CLASS) && i->k < CELLS;
            break;
        case ALU:
            ok = valid_alu(i);
            break;
        case JMP:
            ok = valid_jump(i, n - at - 1);
            break;
        case RET:
            ok = i->code == RET || i->code == (RET | A);
            break;
        case MISC:
            ok = i->code == MISC || i->code == (MISC | TXA);
            break;
        }
        if (!ok)
            return 0;
    }
    return 1;
}

/* `size` (enum W, H, B) bytes at `at` in network order; 0 when they are not all there. */
static int load(const uint8_t *data, uint32_t length, uint64_t at, int size, uint32_t *value)
{
    uint32_t bytes = size == W ? 4 : size == H ? 2 : 1;
    if (at + bytes > length)
        return 0;
    *value = 0;
    for (uint32_t i = 0; i < bytes; i++)
        *value = *value << 8 | data[at + i];
    return 1;
}

/* 0 when it divides by zero, which ends the filter. */
static int compute(int op, uint32_t *a, uint32_t b)
{
    switch (op) {
    case ADD: *a += b; break;
    case SUB: *a -= b; break;
    case MUL: *a *= b; break;
    case DIV:
    case MOD:
        if (!b)
            return 0;
        *a = op == DIV ? *a / b : *a % b;
        break;
    case OR: *a |= b; break;
    case AND: *a &= b; break;
    case XOR: *a ^= b; break;
    case LSH: *a = b < 32 ? *a << b : 0; break;
    case RSH: *a = b < 32 ? *a >> b : 0; break;
    case NEG: *a = 0u - *a; break;
    }
    return 1;
}

static int holds(int op, uint32_t a, uint32_t b)
{
    switch (op) {
    case JEQ: return a == b;
    case JGT: return a > b;
    case JGE: return a >= b;
    default: return (a & b) != 0;
    }
}

uint32_t ws_filter_run(const struct ws_filter_insn *code, const uint8_t *data, uint32_t length)
{
    uint32_t a = 0, x = 0, cells[CELLS] = {0};
    for (const struct ws_filter_insn *i = code;; i++) {
        uint32_t operand = i->code & SOURCE ? x : i->k, loaded = 0;
        uint32_t *target = (i->code & CLASS) == LD ? &a : &x;
        switch (i->code & CLASS) {
        case LD:
        case LDX:
            switch (i->code & MODE) {
            case IMM: loaded = i->k; break;
            case LEN: loaded = length; break;
            case MEM: loaded = cells[i->k]; break;
            case MSH:
                if (!load(data, length, i->k, B, &loaded))
                    return 0;
                loaded = (loaded & 0xf) * 4;
                break;
            default:
                if (!load(data, length, (uint64_t)i->k + ((i->code & MODE) == IND ? x : 0), i->code & SIZE, &loaded))
                    return 0;
            }
            *target = loaded;
            break;
        case ST: cells[i->k] = a; break;
        case STX: cells[i->k] = x; break;
        case ALU:
            if (!compute(i->code & OP, &a, operand))
                return 0;
            break;
        case JMP:
            if ((i->code & OP) == JA)
                i += i->k;
            else
                i += holds(i->code & OP, a, operand) ? i->jt : i->jf;
            break;
        case RET: return (i->code & RVAL) == A ? a : i->k;
        case MISC:
            if (i->code & TXA)
                a = x;
            else
                x = a;
            break;
        }
    }
}
