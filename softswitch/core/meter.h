/* Meters: owns two-rate three-colour meters (RFC 2698, colour-blind), indirect and direct.
 *
 * As BMv2's: tokens are counted in whole units from time 0 in microseconds, the peak bucket is asked
 * first, red takes no tokens, yellow takes from the peak bucket only.
 */
#ifndef WEFT_METER_H
#define WEFT_METER_H

#include "weft_switch.h"

struct ws_bucket {
    uint64_t rate; /* tokens per second */
    uint64_t burst;
    uint64_t tokens;
    uint64_t issued; /* tokens since time 0 at the last look */
};

struct ws_meter {
    struct ws_bucket peak, committed;
    uint8_t configured;
};

struct ws_meter_array {
    struct ws_meter *cells;
    uint32_t size;
    uint32_t bytes; /* counts bytes, else packets */
};

int ws_meters_create(const struct wp_pipeline *pipeline, struct ws_meter_array **meters);
void ws_meters_destroy(const struct wp_pipeline *pipeline, struct ws_meter_array *meters);
/* As ws_register_keep (arrays.h). */
void ws_meter_keep(struct ws_meter_array *to, const struct ws_meter_array *from);
/* An unconfigured (always green) meter, to be free()d. */
struct ws_meter *ws_meter_new(void);
int ws_meter_configure(struct ws_meter *meter, const struct ws_meter_config *config);

/* env->meter and env->direct_meter */
uint32_t ws_meter_execute(const struct wp_ctx *ctx, uint32_t meter, uint64_t index);
uint32_t ws_meter_execute_direct(const struct wp_ctx *ctx, uint32_t meter, struct wp_entry *entry);

#endif
