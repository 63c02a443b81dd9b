/* Runs generated pipelines without a switch: one line in, one line out.
 *
 * In:  PORT HEX            (HEX "-" for an empty packet)
 * Out: parser_error checksum_error egress_spec mcast exit parsed_len packet_length clone_session
 *      resubmit recirc learn truncate HEADERS   (headers as written by the deparser, "-" if none)
 * Tables miss and run nothing, meters are green; log lines go to stderr. Packet, header vector and
 * output are allocated with their exact sizes, so that a sanitizer sees the first byte too many.
 * With any argument, lookups hit and miss at random and run random actions with random data.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline_abi.h"

static uint64_t next_random(const struct wp_env *env)
{
    static uint64_t state = 1;
    (void)env;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state ^ state >> 29;
}
static int at_random;
static uint64_t action_data[1024];

static struct wp_entry *any_entry(void)
{
    const struct wp_pipeline *w = &weft_pipeline;
    static struct wp_entry entry;
    entry = (struct wp_entry){.action = WP_NO_ACTION, .args = action_data};
    if (!at_random || w->n_actions == 0) return &entry;
    entry.action = (uint32_t)(next_random(NULL) % w->n_actions);
    entry.hit = next_random(NULL) >> 63;
    entry.group = next_random(NULL) >> 63 ? action_data : NULL;
    const struct wp_action_desc *action = &w->actions[entry.action];
    uint32_t at = 0;
    for (uint32_t i = 0; i < action->n_params; i++)
        for (uint32_t bits = action->param_bits[i]; bits > 0 && at < 1024; at++) {
            uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
            action_data[at] = next_random(NULL) & mask;
            bits -= bits < 64 ? bits : 64;
        }
    return &entry;
}
static struct wp_entry *lookup(struct wp_table *table, const uint8_t *key)
{
    (void)table, (void)key;
    return any_entry();
}
static struct wp_entry *select_any(const struct wp_env *env, void *group, uint64_t hash)
{
    (void)env, (void)group, (void)hash;
    return any_entry();
}
static uint32_t green(const struct wp_ctx *ctx, uint32_t meter, uint64_t index)
{
    (void)ctx, (void)meter, (void)index;
    return 0;
}
static uint32_t direct_green(const struct wp_ctx *ctx, uint32_t meter, struct wp_entry *entry)
{
    (void)ctx, (void)meter, (void)entry;
    return 0;
}
static void print_log(const struct wp_ctx *ctx, uint32_t kind, const char *format, uint32_t n,
                      const uint64_t *values)
{
    (void)ctx;
    fprintf(stderr, "%" PRIu32 " %s", kind, format);
    for (uint32_t i = 0; i < n; i++) fprintf(stderr, " %" PRIu64, values[i]);
    fputc('\n', stderr);
}

static void *take(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p) abort();
    return p;
}

static void run(const struct wp_env *env, uint32_t port, const uint8_t *data, uint32_t len)
{
    const struct wp_pipeline *w = &weft_pipeline;
    struct wp_phv *phv = take(w->phv_size);
    uint8_t *out = take(w->max_header_bytes);
    struct wp_ctx ctx = {.env = env, .data = data, .data_len = len,
                         .packet_length = len, .ingress_length = len, .truncate_to = UINT32_MAX};
    phv->std.ingress_port = port;
    phv->std.packet_length = len;
    w->parse(&ctx, phv);
    phv->std.parser_error = ctx.parser_error;
    phv->std.checksum_error = ctx.checksum_error;
    w->ingress(&ctx, phv);
    uint32_t exited = ctx.exit_flag;
    ctx.exit_flag = 0;
    phv->std.egress_port = phv->std.egress_spec;
    w->egress(&ctx, phv);
    uint32_t size = w->deparse(&ctx, phv, out);
    if (size > w->max_header_bytes || ctx.parsed_len > len) abort();
    printf("%u %u %u %u %u %u %u %u %u %u %u %u ", ctx.parser_error, ctx.checksum_error,
           phv->std.egress_spec, phv->std.mcast_grp, exited, ctx.parsed_len, ctx.packet_length,
           ctx.clone_session, ctx.resubmit_field_list, ctx.recirc_field_list, ctx.learn_list,
           ctx.truncate_to);
    if (size == 0) putchar('-');
    for (uint32_t i = 0; i < size; i++) printf("%02x", out[i]);
    putchar('\n');
    free(phv);
    free(out);
}

int main(int argc, char **argv)
{
    (void)argv;
    at_random = argc > 1;
    const struct wp_pipeline *w = &weft_pipeline;
    struct wp_table table = {.lookup = lookup};
    struct wp_table **tables = take(w->n_tables * sizeof *tables);
    for (uint32_t i = 0; i < w->n_tables; i++) tables[i] = &table;
    struct wp_register *registers = take(w->n_registers * sizeof *registers);
    for (uint32_t i = 0; i < w->n_registers; i++) {
        registers[i].limbs = (w->registers[i].bitwidth + 63) / 64;
        registers[i].size = w->registers[i].size;
        registers[i].cells = take(sizeof(uint64_t) * registers[i].limbs * registers[i].size);
    }
    struct wp_counter_array *counters = take(w->n_counters * sizeof *counters);
    for (uint32_t i = 0; i < w->n_counters; i++) {
        counters[i].size = w->counters[i].size;
        counters[i].cells = take(sizeof(struct wp_counter) * counters[i].size);
    }
    struct wp_value_set *sets = take(w->n_value_sets * sizeof *sets); /* empty */
    const struct wp_env env = {.value_sets = sets, .tables = tables, .registers = registers, .counters = counters,
                               .select = select_any, .meter = green,
                               .direct_meter = direct_green, .random = next_random,
                               .log = print_log, .drop_port = 511};
    static char hex[200000];
    unsigned port;
    while (scanf("%u %199999s", &port, hex) == 2) {
        uint32_t len = strcmp(hex, "-") == 0 ? 0 : (uint32_t)(strlen(hex) / 2);
        uint8_t *data = malloc(len ? len : 1);
        if (!data) abort();
        for (uint32_t i = 0; i < len; i++) {
            unsigned byte;
            if (sscanf(hex + 2 * i, "%2x", &byte) != 1) abort();
            data[i] = (uint8_t)byte;
        }
        run(&env, port, data, len);
        free(data);
    }
    free(sets);
    for (uint32_t i = 0; i < w->n_registers; i++) free(registers[i].cells);
    for (uint32_t i = 0; i < w->n_counters; i++) free(counters[i].cells);
    free(tables);
    free(registers);
    free(counters);
    return 0;
}
