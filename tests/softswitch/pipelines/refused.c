/* No pipeline: its second table is refused when the first has been made. */
#include "pipeline_abi.h"

static const struct wp_key_desc keys[] = {{.name = "k", .bitwidth = 8192, .bytes = 1024}};
static const struct wp_table_desc tables[] = {
    {.name = "small"},
    {.name = "big", .n_keys = 1, .keys = keys, .key_bytes = 1024},
};
const struct wp_pipeline weft_pipeline = {
    .abi_version = WP_ABI_VERSION, .phv_size = 512, .n_tables = 2, .tables = tables};
