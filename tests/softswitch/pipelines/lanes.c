/* A hand-written pipeline for real frames: the destination address says where and how a frame goes.
 *
 *   bytes 0-5:  0x02   egress clone's session   multicast group   -   priority   egress port
 */
#include <string.h>

#include "pipeline_abi.h"

enum { HEADER = 14 };

struct phv {
    struct wp_std std;
    uint8_t valid;
    uint8_t raw[HEADER];
};

static struct phv *of(struct wp_phv *phv) { return (struct phv *)phv; }

static void parse(struct wp_ctx *ctx, struct wp_phv *phv)
{
    struct phv *p = of(phv);
    ctx->parsed_len = 0;
    ctx->parser_error = ctx->data_len < HEADER;
    if (ctx->parser_error)
        return;
    memcpy(p->raw, ctx->data, HEADER);
    p->valid = 1;
    ctx->parsed_len = HEADER;
}

static void ingress(struct wp_ctx *ctx, struct wp_phv *phv)
{
    struct phv *p = of(phv);
    p->std.egress_spec = p->valid ? p->raw[5] : 511;
    p->std.priority = p->raw[4];
    p->std.mcast_grp = p->raw[2];
    ctx->exit_flag = 1;
}

static void egress(struct wp_ctx *ctx, struct wp_phv *phv)
{
    struct phv *p = of(phv);
    if (p->valid && p->raw[1] && p->std.instance_type != WP_EGRESS_CLONE)
        ctx->clone_session = p->raw[1] | WP_CLONE_REQUEST;
}

static uint32_t deparse(struct wp_ctx *ctx, struct wp_phv *phv, uint8_t *out)
{
    (void)ctx;
    if (!of(phv)->valid)
        return 0;
    memcpy(out, of(phv)->raw, HEADER);
    return HEADER;
}

static void reset_metadata(struct wp_phv *phv) { memset(&of(phv)->std, 0, sizeof of(phv)->std); }

static void copy_field_list(uint32_t id, struct wp_phv *dst, const struct wp_phv *src)
{
    (void)id;
    (void)dst;
    (void)src;
}

static void learn(uint32_t index, const struct wp_phv *phv, uint8_t *out)
{
    (void)index;
    (void)phv;
    (void)out;
}

__attribute__((visibility("default"))) const struct wp_pipeline weft_pipeline = {
    .abi_version = WP_ABI_VERSION,
    .phv_size = sizeof(struct phv),
    .max_header_bytes = HEADER,
    .parse = parse,
    .ingress = ingress,
    .egress = egress,
    .deparse = deparse,
    .reset_metadata = reset_metadata,
    .copy_field_list = copy_field_list,
    .learn = learn,
};
