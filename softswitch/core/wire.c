#include "wire.h"

#include <string.h>

enum {
    ETHERNET_HEADER = 14,
    ETHERNET_FRAME_MIN = 60, /* what a shorter frame is padded to, without FCS */
    FCS = 4,
    TYPE_IPV4 = 0x0800,
    TYPE_VLAN = 0x8100,
    TYPE_SERVICE_VLAN = 0x88a8,
    IPV4_HEADER = 20,
    FRAGMENT_OFFSET = 0x1fff,
    TCP = 6,
    UDP = 17,
    SCTP = 132,
};

/* --- random numbers -------------------------------------------------------------------------- */

static uint64_t mix(uint64_t z) /* splitmix64's finaliser */
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t draw(struct ws_wire *wire, enum ws_draw kind)
{
    return mix(wire->random[kind] += 0x9e3779b97f4a7c15u);
}

/* True with a probability of `share` of WS_ALWAYS. */
static int happens(struct ws_wire *wire, enum ws_draw kind, uint64_t share)
{
    return draw(wire, kind) >> 32 < share;
}

static uint64_t scaled(uint64_t random, uint64_t n) /* 0..n-1 */
{
    return (uint64_t)((unsigned __int128)random * n >> 64);
}

static uint64_t product(uint64_t a, uint64_t b) /* of fractions of 2^64 */
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* The probability, in units of 2^-64, that all bits of a frame arrive as they were sent. */
static uint64_t intact(uint64_t bit_error, uint32_t length)
{
    uint64_t bits = 8 * (uint64_t)((length < ETHERNET_FRAME_MIN ? ETHERNET_FRAME_MIN : length) + FCS);
    uint64_t all = UINT64_MAX, power = -bit_error;
    for (; bits; bits >>= 1) {
        if (bits & 1)
            all = product(all, power);
        power = product(power, power);
    }
    return all;
}

/* --- what happens ---------------------------------------------------------------------------- */

static uint32_t read16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }
static uint32_t read32(const uint8_t *at) { return read16(at) << 16 | read16(at + 2); }

static int of_flow(const struct ws_port_impair *flow, const uint8_t *frame, uint32_t length)
{
    uint32_t type = 12;
    while (type + 4 <= length && (read16(frame + type) == TYPE_VLAN || read16(frame + type) == TYPE_SERVICE_VLAN))
        type += 4;
    uint32_t ip = type + 2;
    if (ip + IPV4_HEADER > length || read16(frame + type) != TYPE_IPV4)
        return 0;
    const uint8_t *header = frame + ip;
    uint32_t protocol = header[9];
    if (((read32(header + 12) ^ flow->flow_src) & flow->flow_src_mask) ||
        ((read32(header + 16) ^ flow->flow_dst) & flow->flow_dst_mask) ||
        (flow->flow_protocol && flow->flow_protocol != protocol))
        return 0;
    if (!flow->flow_sport && !flow->flow_dport)
        return 1;
    uint32_t ports = ip + (header[0] & 15u) * 4;
    if ((protocol != TCP && protocol != UDP && protocol != SCTP) || read16(header + 6) & FRAGMENT_OFFSET ||
        ports + 4 > length)
        return 0;
    return (!flow->flow_sport || flow->flow_sport == read16(frame + ports)) &&
           (!flow->flow_dport || flow->flow_dport == read16(frame + ports + 2));
}

static int is_lost(struct ws_wire *wire, const uint8_t *frame, uint32_t length, uint32_t tail)
{
    const struct ws_port_impair *impair = &wire->impair;
    if (impair->flow_loss && of_flow(impair, frame, length) && happens(wire, WS_DRAW_FLOW, impair->flow_loss)) {
        wire->stats.lost_flow++;
        return 1;
    }
    uint64_t loss = impair->loss;
    if (impair->burst_enter) {
        wire->bad ^= happens(wire, WS_DRAW_STATE, wire->bad ? impair->burst_leave : impair->burst_enter);
        if (wire->bad)
            loss = impair->burst_loss;
    }
    if ((impair->loss || impair->burst_enter) && happens(wire, WS_DRAW_LOSS, loss)) {
        wire->stats.lost++;
        return 1;
    }
    if (impair->bit_error && draw(wire, WS_DRAW_FCS) >= intact(impair->bit_error, length + tail)) {
        wire->stats.lost_fcs++;
        return 1;
    }
    return 0;
}

static void corrupt(struct ws_wire *wire, uint8_t *frame, uint32_t length)
{
    if (!happens(wire, WS_DRAW_CORRUPT, wire->impair.corrupt) || length <= ETHERNET_HEADER)
        return;
    uint64_t bit = scaled(draw(wire, WS_DRAW_CORRUPT), 8 * (uint64_t)(length - ETHERNET_HEADER));
    frame[ETHERNET_HEADER + bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
    wire->stats.corrupted++;
}

static ws_time delayed(struct ws_wire *wire, ws_time at, ws_time slot)
{
    const struct ws_port_impair *impair = &wire->impair;
    if (impair->reorder && happens(wire, WS_DRAW_REORDER, impair->reorder)) {
        wire->stats.reordered++;
        return at + impair->reorder_ps;
    }
    if (impair->jitter_ps) {
        at += (ws_time)scaled(draw(wire, WS_DRAW_JITTER), (uint64_t)impair->jitter_ps + 1);
        if (at < wire->last + slot)
            at = wire->last + slot;
    }
    if (at > wire->last)
        wire->last = at;
    return at;
}

struct ws_fate ws_wire_pass(struct ws_wire *wire, uint8_t *frame, uint32_t length, uint32_t tail, ws_time at,
                            ws_time slot)
{
    struct ws_fate fate = {.copies = 1};
    wire->stats.frames++;
    if (is_lost(wire, frame, length, tail)) {
        fate.lost = 1;
        return fate;
    }
    if (wire->impair.corrupt)
        corrupt(wire, frame, length);
    fate.at[0] = delayed(wire, at, slot);
    if (wire->impair.duplicate && happens(wire, WS_DRAW_DUPLICATE, wire->impair.duplicate)) {
        fate.copies = 2;
        fate.at[1] = fate.at[0] + slot;
        if (wire->last == fate.at[0])
            wire->last = fate.at[1];
        wire->stats.duplicated++;
    }
    return fate;
}

/* --- settings -------------------------------------------------------------------------------- */

int ws_impair_valid(const struct ws_port_impair *impair)
{
    const uint64_t shares[] = {impair->loss,    impair->burst_enter, impair->burst_leave, impair->burst_loss,
                               impair->corrupt, impair->duplicate,   impair->reorder,     impair->flow_loss};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        if (shares[i] > WS_ALWAYS)
            return 0;
    return impair->reorder_ps >= 0 && impair->reorder_ps <= WS_DELAY_MAX && impair->jitter_ps >= 0 &&
           impair->jitter_ps <= WS_DELAY_MAX && impair->flow_protocol <= UINT8_MAX &&
           impair->flow_sport <= UINT16_MAX && impair->flow_dport <= UINT16_MAX;
}

int ws_impair_active(const struct ws_port_impair *impair)
{
    return impair->loss || impair->burst_enter || impair->bit_error || impair->corrupt || impair->duplicate ||
           impair->reorder || impair->jitter_ps || impair->flow_loss;
}

void ws_wire_set(struct ws_wire *wire, const struct ws_port_impair *impair, uint64_t switch_seed, uint32_t port,
                 enum ws_direction direction)
{
    if (!wire->seeded || wire->impair.seed != impair->seed) {
        uint64_t seed = mix(mix(switch_seed) ^ mix(impair->seed + 1) ^ ((uint64_t)port << 1 | direction));
        for (int kind = 0; kind < WS_DRAWS; kind++)
            wire->random[kind] = mix(seed + (uint64_t)kind);
        wire->seeded = 1;
    }
    if (!impair->burst_enter)
        wire->bad = 0;
    wire->impair = *impair;
}
