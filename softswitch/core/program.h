/* Programs: owns a compiled pipeline with all its state, from its loading to the end of its last packet.
 *
 * A switch runs one program. After ws_adopt, packets of the one before may still wait in queues: they leave
 * under it, since their headers and metadata have its layout, and then it is freed. Packets that enter (or enter
 * again) always meet the current program.
 */
#ifndef WEFT_PROGRAM_H
#define WEFT_PROGRAM_H

#include "meter.h"
#include "packet.h"
#include "profile.h"
#include "weft_switch.h"

/* A traced variant: lives with its program. */
struct ws_variant {
    void *library;
    const struct wp_pipeline *pipeline;
    const struct wp_trace *layout;
    uint32_t *shadow;       /* the PHV as the record before left it */
    uint32_t shadow_branch; /* whose, 0 = none */
};
struct ws_program {
    struct ws_program *next; /* of the switch's retired ones */
    uint32_t number;         /* 1, 2, ... in the order in which the switch ran them */
    const struct wp_pipeline *pipeline;
    void *library;
    struct wp_env env;
    struct ws_profile *profiles;
    struct ws_meter_array *meters;
    struct ws_pool pool;
    uint8_t *headers; /* scratch for the deparser, max_header_bytes */
    struct ws_variant variant; /* all NULL: none was asked for */
};

/* Loads the shared object, with all its tables and arrays empty. NULL with sw->error and `*status` set. */
struct ws_program *ws_program_load(ws_switch *sw, const char *so_path, int *status);
/* Opens a compiled pipeline, checks what can be checked; the library, or NULL with sw->error set. */
void *ws_program_open(ws_switch *sw, const char *so_path, const struct wp_pipeline **pipeline);
/* With its packets, wherever they are. */
void ws_program_free(struct ws_program *program);
/* Frees the retired programs whose last packet is gone. */
void ws_programs_collect(ws_switch *sw);
/* A packet of an older program that is about to enter ingress, as one of the current program: its bytes and standard
 * metadata. Consumes `packet`; NULL when memory is out. */
struct ws_packet *ws_program_adopt_packet(ws_switch *sw, struct ws_packet *packet);

#endif
