/* The seam between a compiled pipeline and the switch core.
 *
 * softswitch/codegen turns BMv2 JSON into one C file that includes this header and
 * exports exactly one symbol, `weft_pipeline`. The core dlopen()s the shared object, reads the
 * descriptors, creates tables and arrays from them and calls the functions. Neither side
 * knows anything else of the other. Bump WP_ABI_RELEASE with every change of layout.
 *
 * Ownership: the core owns every byte reachable from here; the pipeline only reads and
 * writes through the pointers that it is given and keeps nothing between calls. All calls
 * for one switch are serialised by the core's caller (one thread at a time).
 */
#ifndef WEFT_PIPELINE_ABI_H
#define WEFT_PIPELINE_ABI_H

#include <stdint.h>

#define WP_ABI_RELEASE 7u
/* With the release go the sizes of what both sides see: a switch that goes on running while its sources change must
 * not take a pipeline built with another layout, bumped or not. (One line each: cffi reads this file too.) */
#define WP_ABI_VERSION (WP_ABI_RELEASE | (uint32_t)(WP_ABI_PACKET + WP_ABI_STATE + WP_ABI_DESCRIPTORS) << 16)
#define WP_ABI_PACKET (sizeof(struct wp_std) + sizeof(struct wp_ctx) + sizeof(struct wp_env) + WP_ABI_TABLES)
#define WP_ABI_TABLES (sizeof(struct wp_table) + sizeof(struct wp_table_desc) + sizeof(struct wp_key_desc))
#define WP_ABI_STATE (sizeof(struct wp_entry) + sizeof(struct wp_register) + sizeof(struct wp_counter_array))
#define WP_ABI_DESCRIPTORS (sizeof(struct wp_pipeline) + sizeof(struct wp_action_desc) + WP_ABI_ARRAYS)
#define WP_ABI_ARRAYS (sizeof(struct wp_register_desc) + sizeof(struct wp_counter_desc) + WP_ABI_OTHERS)
#define WP_ABI_OTHERS (sizeof(struct wp_meter_desc) + sizeof(struct wp_learn_desc) + WP_ABI_REST)
#define WP_ABI_REST (sizeof(struct wp_profile_desc) + sizeof(struct wp_value_set) + sizeof(struct wp_value_set_desc))

/* --- per-packet state ----------------------------------------------------------------- */

/* v1model's standard_metadata as BMv2 fills it. Generated code maps the JSON's
 * `standard_metadata.X` (also by field_aliases) to these members and every other
 * field to members of its own. Values are kept within the field's P4 width. The struct is the first member of
 * the generated PHV, so the core reads and writes it without knowing the program. */
struct wp_std {
    uint32_t ingress_port;
    uint32_t egress_spec;
    uint32_t egress_port;
    uint32_t instance_type; /* enum wp_instance */
    uint32_t packet_length;
    uint32_t parser_error;   /* the JSON's error code */
    uint32_t checksum_error; /* 0 or 1 */
    uint32_t mcast_grp;
    uint32_t egress_rid;
    uint32_t priority;
    uint32_t qid;
    uint32_t enq_qdepth;
    uint32_t deq_qdepth;
    uint32_t clone_spec; /* v1model keeps it; nothing reads it */
    uint64_t enq_timestamp; /* ticks, truncated to the P4 width (32) */
    uint64_t deq_timedelta;
    uint64_t ingress_global_timestamp; /* ticks, 48 bits */
    uint64_t egress_global_timestamp;
};

enum wp_instance {
    WP_NORMAL = 0,
    WP_INGRESS_CLONE = 1,
    WP_EGRESS_CLONE = 2,
    WP_COALESCED = 3,
    WP_RECIRC = 4,
    WP_REPLICATION = 5,
    WP_RESUBMIT = 6,
};

/* Opaque to the core but for its first member. `phv_size` bytes, 16-byte aligned. */
struct wp_phv {
    struct wp_std std;
};

/* What the primitives of one pass asked for, and where the packet's bytes are. Lives in the packet
 * object; the core clears the requests between passes as BMv2's simple_switch does. */
struct wp_ctx {
    const struct wp_env *env;
    const uint8_t *data;     /* packet bytes as received (parse reads here) */
    uint32_t data_len;       /* bytes at `data` */
    uint32_t parsed_len;     /* set by parse: bytes consumed; the payload begins there */
    uint32_t packet_length;  /* BMv2's PACKET_LENGTH register: setValid and setInvalid of a header add and
                                subtract its bytes; egress reads it as standard_metadata.packet_length */
    uint32_t ingress_length; /* bytes as received or as recirculated: what counters and meters count */
    uint32_t parser_error;   /* set by parse */
    uint8_t checksum_error;  /* set by parse (verify_checksum runs at its end) */
    uint8_t exit_flag;       /* set by `exit`; the core clears it after each pipeline */
    uint8_t pad_[2];
    /* requests */
    uint32_t clone_session;    /* session id | WP_CLONE_REQUEST, 0 = none (the last call wins) */
    uint32_t clone_field_list; /* JSON field list id to preserve (0 = none) */
    uint32_t resubmit_field_list; /* field list id | WP_FLAG_REQUEST, 0 = no request */
    uint32_t recirc_field_list;   /* same */
    uint32_t learn_list;       /* JSON learn list id, 0 = none (the last call wins) */
    uint32_t truncate_to;      /* bytes, UINT32_MAX = none: as BMv2's Packet::truncate */
    uint64_t now;              /* ticks (target units), for meters and timestamps */
};
#define WP_CLONE_REQUEST 0x80000000u
#define WP_FLAG_REQUEST 0x80000000u

/* --- match-action tables -------------------------------------------------------------- */

enum wp_match { WP_EXACT = 0, WP_LPM = 1, WP_TERNARY = 2, WP_RANGE = 3, WP_VALID = 4, WP_OPTIONAL = 5 };
enum wp_table_type { WP_SIMPLE = 0, WP_INDIRECT = 1, WP_INDIRECT_WS = 2 };

struct wp_counter {
    uint64_t packets;
    uint64_t bytes;
};

/* What a lookup yields; never NULL: on a miss it is the table's default entry (hit = 0).
 * For indirect tables the core resolves members itself; for a group (`group` != NULL) generated
 * code computes the selector hash and calls env->select, which returns the member's entry. */
struct wp_entry {
    uint32_t action; /* index into weft_pipeline.actions, WP_NO_ACTION = run nothing */
    uint32_t hit;
    const uint64_t *args; /* action data: each parameter takes (bitwidth + 63) / 64 limbs,
                             least significant limb first, parameters in order */
    void *group;
    struct wp_counter counter; /* direct counter (generated code adds on a hit when with_counters) */
    uint64_t last_hit;         /* ticks; generated code stores ctx->now when support_timeout */
    void *meter;               /* direct meter state or NULL */
};
#define WP_NO_ACTION UINT32_MAX

/* One table at run time. `key` is the concatenation, in JSON key order, of each field as
 * (bitwidth + 7) / 8 bytes, big endian, zero padded (as BMv2 builds keys); static key masks are
 * already applied by generated code. */
struct wp_table {
    struct wp_entry *(*lookup)(struct wp_table *table, const uint8_t *key);
    /* the core's private state follows in its own struct that embeds this one first */
};

struct wp_register {
    uint64_t *cells; /* size * limbs, limbs = (bitwidth + 63) / 64, least significant first */
    uint32_t size;
    uint32_t limbs;
};

struct wp_counter_array {
    struct wp_counter *cells;
    uint32_t size;
};

/* A parser value set: `n` members, each `words` words of value and then `words` of mask. The key has the parts of the
 * select expression in order, each part (bits + 63) / 64 words, most significant word first. */
struct wp_value_set {
    uint32_t n;
    uint32_t words;
    const uint64_t *members;
};

/* What the traced variant of a pipeline reports. Objects are numbered as in the descriptors; parser states,
 * conditionals and fields in the JSON's order (softswitch/codegen/gen_trace.py). */
enum wp_trace_kind {
    WP_TRACE_STATE = 1,          /* the parser enters state `object` */
    WP_TRACE_CONDITION = 2,      /* conditional `object` is `value` */
    WP_TRACE_TABLE = 3,          /* table `object` looked `key` up and found `entry`; `run` holds the action: it is
                                    `entry`, or the member that was selected */
    WP_TRACE_ACTION = 4,         /* action `object` is done */
    WP_TRACE_REGISTER_READ = 5,  /* cell `index` of register `object` is `value` (its low 64 bits) */
    WP_TRACE_REGISTER_WRITE = 6, /* has become `value` */
    WP_TRACE_COUNT = 7,          /* counter `object` counted in cell `index` */
    WP_TRACE_METER = 8,          /* meter `object` said colour `value` for cell `index` */
};
struct wp_trace_step {
    uint32_t kind; /* enum wp_trace_kind */
    uint32_t object;
    uint64_t index;
    uint64_t value;
    const uint8_t *key;
    const struct wp_entry *entry;
    const struct wp_entry *run;
};

/* What generated code may use and call, one per switch instance. Arrays are indexed like
 * the descriptor arrays of `struct wp_pipeline`. */
struct wp_env {
    struct wp_table **tables;
    struct wp_register *registers;
    struct wp_counter_array *counters;
    const struct wp_value_set *value_sets;
    void *core; /* the switch */
    uint32_t drop_port; /* what mark_to_drop writes to egress_spec; 511 unless configured */
    /* Selects a member of a group (`entry->group`) by hash as BMv2 (hash modulo size, members in BMv2's order).
     * An empty group yields an entry with WP_NO_ACTION. */
    struct wp_entry *(*select)(const struct wp_env *env, void *group, uint64_t hash);
    /* Executes cell `index` of meter array `meter` / a direct meter: 0 green, 1 yellow, 2 red. */
    uint32_t (*meter)(const struct wp_ctx *ctx, uint32_t meter, uint64_t index);
    uint32_t (*direct_meter)(const struct wp_ctx *ctx, uint32_t meter, struct wp_entry *entry);
    /* 64 pseudo-random bits, seeded per switch: the same seed gives the same run. */
    uint64_t (*random)(const struct wp_env *env);
    /* log_msg: format with {} and n values. assert/assume failure: kind 1, the core counts and logs it; a pass that does
     * not end, of a packet that the pipeline has dropped: kind 3, counted, and logged once in a while. */
    void (*log)(const struct wp_ctx *ctx, uint32_t kind, const char *format, uint32_t n,
                const uint64_t *values);
    /* Only the traced variant calls it. */
    void (*trace)(const struct wp_ctx *ctx, const struct wp_phv *phv, const struct wp_trace_step *step);
};

/* --- descriptors ---------------------------------------------------------------------- */

struct wp_key_desc {
    const char *name;
    uint32_t match; /* enum wp_match */
    uint32_t bitwidth;
    uint32_t offset; /* in the key, bytes */
    uint32_t bytes;
};

struct wp_table_desc {
    const char *name;
    uint32_t match; /* enum wp_match of the whole table, as the JSON's match_type */
    uint32_t type;  /* enum wp_table_type */
    uint32_t max_size;
    uint32_t n_keys;
    const struct wp_key_desc *keys;
    uint32_t key_bytes;
    uint32_t with_counters;
    uint32_t support_timeout;
    int32_t profile;      /* index of the action profile, -1 = none */
    int32_t direct_meter; /* index into meters, -1 = none */
    uint32_t json_id;
    uint32_t inlined; /* 1: its only action is part of the code, and no packet looks it up */
};

struct wp_action_desc {
    const char *name;
    uint32_t n_params;
    const uint32_t *param_bits;
    uint32_t limbs; /* of all parameters */
    uint32_t json_id;
};

struct wp_profile_desc {
    const char *name;
    uint32_t max_size;
    uint32_t with_selector;
};

struct wp_register_desc {
    const char *name;
    uint32_t size;
    uint32_t bitwidth;
};

struct wp_counter_desc {
    const char *name;
    uint32_t size; /* 0 for direct counters, which live in the entries */
    int32_t direct_table;
};

struct wp_meter_desc {
    const char *name;
    uint32_t size; /* 0 for direct meters */
    uint32_t bytes; /* 1: counts bytes, 0: packets */
    uint32_t rates;
    int32_t direct_table;
};

struct wp_learn_desc {
    const char *name;
    uint32_t json_id;
    uint32_t n_fields;
    const uint32_t *field_bits;
    uint32_t bytes; /* sum over fields of (bits + 7) / 8 */
};

struct wp_value_set_desc {
    const char *name;
    uint32_t max_size;
    uint32_t n_parts; /* 0: no state selects by it */
    const uint32_t *part_bits;
    uint32_t words;
};

struct wp_pipeline {
    uint32_t abi_version;
    uint32_t phv_size;
    uint32_t max_header_bytes; /* upper bound of what deparse writes */
    uint32_t n_tables, n_actions, n_profiles, n_registers, n_counters, n_meters, n_learns, n_value_sets;
    uint32_t reads_payload; /* 1: a calculation covers the payload */
    const struct wp_table_desc *tables;
    const struct wp_action_desc *actions;
    const struct wp_profile_desc *profiles;
    const struct wp_register_desc *registers;
    const struct wp_counter_desc *counters;
    const struct wp_meter_desc *meters;
    const struct wp_learn_desc *learns;
    const struct wp_value_set_desc *value_sets;

    /* `phv` is all zero when parse is called, but for std (set by the core) and, after resubmit and
     * recirculate, the fields of the preserved list: parse leaves metadata alone. Sets parsed_len,
     * parser_error and checksum_error of ctx; never reads beyond data_len. */
    void (*parse)(struct wp_ctx *ctx, struct wp_phv *phv);
    void (*ingress)(struct wp_ctx *ctx, struct wp_phv *phv);
    void (*egress)(struct wp_ctx *ctx, struct wp_phv *phv);
    /* Updates checksums, then writes the valid headers in deparser order; returns bytes written
     * (<= max_header_bytes). Payload is data + parsed_len .. data_len (checksums with payload read it). */
    uint32_t (*deparse)(struct wp_ctx *ctx, struct wp_phv *phv, uint8_t *out);
    /* Sets all metadata (std and user) to zero, headers untouched: BMv2's reset_metadata. */
    void (*reset_metadata)(struct wp_phv *phv);
    /* Copies the fields of JSON field list `id` (0 or unknown: nothing). */
    void (*copy_field_list)(uint32_t id, struct wp_phv *dst, const struct wp_phv *src);
    /* Writes the fields of learns[index] as (bits + 7) / 8 bytes each, big endian. */
    void (*learn)(uint32_t index, const struct wp_phv *phv, uint8_t *out);

    /* Fingerprint of PHV and descriptors: equal in the normal and the traced variant of a program; NULL: there is no
     * traced one. */
    const char *layout;
};

extern const struct wp_pipeline weft_pipeline;

/* Where a field lies in the PHV: an integer of `size` bytes in the machine's order, or `bits` / 64 limbs,
 * least significant first. varbit: `bits` is 0, up to `size` bytes at `offset`, their number of bits is the uint32_t
 * at `length_offset`. */
struct wp_trace_field {
    uint32_t offset;
    uint32_t size;
    uint32_t bits;
    uint32_t length_offset;
};
/* The traced variant exports this too. */
struct wp_trace {
    uint32_t n_fields;
    const struct wp_trace_field *fields;
};
extern const struct wp_trace weft_trace;

#endif
