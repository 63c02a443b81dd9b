/* A hand-written pipeline that lets a packet ask for everything that the core can do.
 *
 * Every packet carries a 32-byte header; bytes 0-15 say what to do, the program writes what it saw into 16-31:
 *
 *   0 table (1 exact, 2 lpm, 3 ternary, 4 range, 5 selector, 6 keyless, 9 adds 4 bytes in egress)
 *   1 flags (see below)      2-3 egress_spec    4-7 key32    8-9 key16    10 key8    11 arg
 *   12 priority              13 multicast group 14 session   15 recirculations left
 *   16 hit   17 action   18-19 low 16 bits of the action's value   20 colour   21 instance_type
 *   22-23 enq_qdepth   24-25 deq_qdepth   26-29 deq_timedelta   30 egress_rid   31 ingress_port
 */
#include <string.h>

#include "pipeline_abi.h"

enum {
    HEADER = 32,
    CLONE_INGRESS = 1,
    RESUBMIT = 2, /* on the first pass */
    LEARN = 4,
    CLONE_EGRESS = 8, /* whatever the packet's instance type: a clone clones itself */
    TRUNCATE = 16,    /* in egress, to `arg` bytes */
    DROP_EGRESS = 32,
    METER = 64,
    LOG = 128,
    LIST_TAG = 1, /* field list: tag */
};

/* Another layout, for tests that change the program while packets are in flight. */
#ifndef TOY_METADATA
#define TOY_METADATA 8
#endif
#ifndef TOY_CELLS
#define TOY_CELLS 4
#endif

struct phv {
    struct wp_std std;
    uint8_t metadata[TOY_METADATA]; /* unused */
    uint32_t tag; /* user metadata */
    uint8_t valid;
    uint8_t extra_valid;
    uint8_t raw[HEADER];
};

enum { EXACT, LPM, TERNARY, RANGE, SELECT, KEYLESS, N_TABLES };
enum { FORWARD, WIDE, NOP, N_ACTIONS };

static struct phv *of(struct wp_phv *phv) { return (struct phv *)phv; }

static void parse(struct wp_ctx *ctx, struct wp_phv *phv)
{
    struct phv *p = of(phv);
    ctx->parsed_len = 0;
    ctx->parser_error = 0;
    if (ctx->data_len < HEADER) {
        ctx->parser_error = 1;
        return;
    }
    memcpy(p->raw, ctx->data, HEADER);
    p->valid = 1;
    ctx->parsed_len = HEADER;
}

static void run(struct wp_ctx *ctx, struct phv *p, struct wp_entry *entry)
{
    const struct wp_env *env = ctx->env;
    p->raw[16] = (uint8_t)entry->hit;
    if (entry->hit) {
        entry->counter.packets++;
        entry->counter.bytes += ctx->ingress_length;
        entry->last_hit = ctx->now;
    }
    if (entry->group)
        entry = env->select(env, entry->group, p->raw[4] << 24 | p->raw[5] << 16 | p->raw[6] << 8 | p->raw[7]);
    p->raw[17] = (uint8_t)entry->action;
    if (entry->action == FORWARD)
        p->std.egress_spec = (uint32_t)entry->args[0];
    if (entry->action == WIDE)
        p->std.egress_spec = (uint32_t)(entry->args[1] & 0x1ff);
    if (entry->action != WP_NO_ACTION && entry->action != NOP) {
        p->raw[18] = (uint8_t)(entry->args[0] >> 8);
        p->raw[19] = (uint8_t)entry->args[0];
    }
}

static void ingress(struct wp_ctx *ctx, struct wp_phv *phv)
{
    struct phv *p = of(phv);
    const struct wp_env *env = ctx->env;
    const uint8_t *raw = p->raw;
    if (!p->valid) {
        p->std.egress_spec = 511;
        return;
    }
    p->std.egress_spec = (uint32_t)(raw[2] << 8 | raw[3]);
    p->std.priority = raw[12];
    p->std.mcast_grp = raw[13];
    p->raw[31] = (uint8_t)p->std.ingress_port;
    struct wp_counter *counter = &env->counters[0].cells[raw[10] & 3];
    counter->packets++;
    counter->bytes += ctx->ingress_length;
    env->registers[0].cells[p->std.ingress_port & 7]++;

    uint8_t key[8];
    switch (raw[0]) {
    case 1:
        memcpy(key, raw + 4, 4);
        key[4] = raw[10];
        struct wp_entry *entry = env->tables[EXACT]->lookup(env->tables[EXACT], key);
        if ((raw[1] & METER) && entry->hit)
            p->raw[20] = (uint8_t)env->direct_meter(ctx, 1, entry);
        run(ctx, p, entry);
        break;
    case 2:
        key[0] = raw[10];
        memcpy(key + 1, raw + 4, 4);
        run(ctx, p, env->tables[LPM]->lookup(env->tables[LPM], key));
        break;
    case 3:
        memcpy(key, raw + 4, 6);
        run(ctx, p, env->tables[TERNARY]->lookup(env->tables[TERNARY], key));
        break;
    case 4:
        memcpy(key, raw + 8, 3);
        run(ctx, p, env->tables[RANGE]->lookup(env->tables[RANGE], key));
        break;
    case 5:
        run(ctx, p, env->tables[SELECT]->lookup(env->tables[SELECT], raw + 10));
        break;
    case 6:
        run(ctx, p, env->tables[KEYLESS]->lookup(env->tables[KEYLESS], key));
        break;
    case 7:
        p->std.egress_spec = (uint32_t)(env->random(env) & 0xff);
        break;
    }
    if (raw[0] != 1 && (raw[1] & METER))
        p->raw[20] = (uint8_t)env->meter(ctx, 0, raw[11]);
    if (raw[1] & CLONE_INGRESS) {
        p->tag = 0x77;
        ctx->clone_session = raw[14] | WP_CLONE_REQUEST;
        ctx->clone_field_list = LIST_TAG;
    }
    if ((raw[1] & RESUBMIT) && p->std.instance_type != WP_RESUBMIT) {
        p->tag = 0x55;
        ctx->resubmit_field_list = LIST_TAG | WP_FLAG_REQUEST;
    }
    if (raw[1] & LEARN)
        ctx->learn_list = 7;
    if (raw[1] & LOG) {
        uint64_t values[2] = {raw[10], p->std.ingress_port};
        env->log(ctx, 0, "key {} on port {}", 2, values);
        env->log(ctx, 1, "assertion", 0, values);
    }
    ctx->exit_flag = 1;
}

static void egress(struct wp_ctx *ctx, struct wp_phv *phv)
{
    struct phv *p = of(phv);
    if (!p->valid || ctx->exit_flag)
        return;
    uint8_t *raw = p->raw;
    raw[21] = (uint8_t)p->std.instance_type;
    raw[22] = (uint8_t)(p->std.enq_qdepth >> 8);
    raw[23] = (uint8_t)p->std.enq_qdepth;
    raw[24] = (uint8_t)(p->std.deq_qdepth >> 8);
    raw[25] = (uint8_t)p->std.deq_qdepth;
    for (int i = 0; i < 4; i++)
        raw[26 + i] = (uint8_t)(p->std.deq_timedelta >> (24 - 8 * i));
    raw[30] = (uint8_t)p->std.egress_rid;
    if (p->tag)
        raw[18] = (uint8_t)p->tag;
    uint64_t *wide = ctx->env->registers[1].cells + 2 * (p->std.egress_port & 1);
    wide[0] += UINT64_C(1) << 63;
    if (!wide[0])
        wide[1]++;
    if (raw[0] == 9) {
        p->extra_valid = 1;
        ctx->packet_length += 4;
    }
    if (raw[1] & CLONE_EGRESS) {
        p->tag = 0x66;
        ctx->clone_session = raw[14] | WP_CLONE_REQUEST;
        ctx->clone_field_list = LIST_TAG;
    }
    if (raw[15]) {
        raw[15]--;
        p->tag = 0x44;
        ctx->recirc_field_list = LIST_TAG | WP_FLAG_REQUEST;
    }
    if (raw[1] & TRUNCATE && ctx->truncate_to > raw[11])
        ctx->truncate_to = raw[11];
    if (raw[1] & DROP_EGRESS)
        p->std.egress_spec = 511;
}

static uint32_t deparse(struct wp_ctx *ctx, struct wp_phv *phv, uint8_t *out)
{
    struct phv *p = of(phv);
    uint32_t n = 0;
    (void)ctx;
    if (p->valid) {
        memcpy(out, p->raw, HEADER);
        n = HEADER;
    }
    if (p->extra_valid) {
        memcpy(out + n, "\xde\xad\xbe\xef", 4);
        n += 4;
    }
    return n;
}

static void reset_metadata(struct wp_phv *phv)
{
    struct phv *p = of(phv);
    memset(&p->std, 0, sizeof p->std);
    p->tag = 0;
}

static void copy_field_list(uint32_t id, struct wp_phv *dst, const struct wp_phv *src)
{
    if (id == LIST_TAG)
        of(dst)->tag = ((const struct phv *)src)->tag;
}

static void learn(uint32_t index, const struct wp_phv *phv, uint8_t *out)
{
    (void)index;
    memcpy(out, ((const struct phv *)phv)->raw + 4, 4);
    out[4] = ((const struct phv *)phv)->raw[10];
}

static const struct wp_key_desc exact_keys[] = {{"k32", WP_EXACT, 32, 0, 4}, {"k8", WP_EXACT, 8, 4, 1}};
static const struct wp_key_desc lpm_keys[] = {{"k8", WP_EXACT, 8, 0, 1}, {"k32", WP_LPM, 32, 1, 4}};
static const struct wp_key_desc ternary_keys[] = {{"k32", WP_TERNARY, 32, 0, 4}, {"k16", WP_TERNARY, 16, 4, 2}};
static const struct wp_key_desc range_keys[] = {{"k16", WP_RANGE, 16, 0, 2}, {"k8", WP_OPTIONAL, 8, 2, 1}};
static const struct wp_key_desc select_keys[] = {{"k8", WP_EXACT, 8, 0, 1}};

static const struct wp_table_desc tables[N_TABLES] = {
    [EXACT] = {"exact", WP_EXACT, WP_SIMPLE, 64, 2, exact_keys, 5, 1, 1, -1, 1, 10},
    [LPM] = {"lpm", WP_LPM, WP_SIMPLE, 4096, 2, lpm_keys, 5, 1, 0, -1, -1, 11},
    [TERNARY] = {"ternary", WP_TERNARY, WP_SIMPLE, 4096, 2, ternary_keys, 6, 1, 0, -1, -1, 12},
    [RANGE] = {"range", WP_RANGE, WP_SIMPLE, 4096, 2, range_keys, 3, 1, 0, -1, -1, 13},
    [SELECT] = {"select", WP_EXACT, WP_INDIRECT_WS, 16, 1, select_keys, 1, 1, 0, 0, -1, 14},
    [KEYLESS] = {"keyless", WP_EXACT, WP_SIMPLE, 1, 0, select_keys, 0, 0, 0, -1, -1, 15},
};

static const uint32_t forward_bits[] = {9};
static const uint32_t wide_bits[] = {64, 72};
static const struct wp_action_desc actions[N_ACTIONS] = {
    [FORWARD] = {"forward", 1, forward_bits, 1, 20},
    [WIDE] = {"wide", 2, wide_bits, 3, 21},
    [NOP] = {"nop", 0, forward_bits, 0, 22},
};
static const struct wp_profile_desc profiles[] = {{"profile", 16, 1}};
static const struct wp_register_desc registers[] = {{"seen", 8, 32}, {"wide", 2, 100}};
static const struct wp_counter_desc counters[] = {{"cells", TOY_CELLS, -1}};
static const struct wp_meter_desc meters[] = {{"packets", 2, 0, 2, -1}, {"direct", 0, 1, 2, EXACT}};
static const uint32_t learn_bits[] = {32, 8};
static const struct wp_learn_desc learns[] = {{"digest_t", 7, 2, learn_bits, 5}};

__attribute__((visibility("default"))) const struct wp_pipeline weft_pipeline = {
    .abi_version = WP_ABI_VERSION,
    .phv_size = sizeof(struct phv),
    .max_header_bytes = HEADER + 4,
    .n_tables = N_TABLES,
    .n_actions = N_ACTIONS,
    .n_profiles = 1,
    .n_registers = 2,
    .n_counters = 1,
    .n_meters = 2,
    .n_learns = 1,
    .tables = tables,
    .actions = actions,
    .profiles = profiles,
    .registers = registers,
    .counters = counters,
    .meters = meters,
    .learns = learns,
    .parse = parse,
    .ingress = ingress,
    .egress = egress,
    .deparse = deparse,
    .reset_metadata = reset_metadata,
    .copy_field_list = copy_field_list,
    .learn = learn,
};
