/* Tables: owns the match-action tables of one switch, their entries, defaults, direct counters and meters. */
#ifndef WEFT_TABLE_H
#define WEFT_TABLE_H

#include "slots.h"
#include "tuple_space.h"
#include "weft_switch.h"

struct ws_table {
    _Alignas(2 * WS_LINE) struct wp_table t; /* first: generated code's view */
    struct ws_space space;
    _Alignas(WS_LINE) struct ws_entry miss; /* the default entry: its first line is next to the one above */
    const struct wp_table_desc *desc;
    struct ws_slots slots;
};

_Static_assert(offsetof(struct ws_table, miss) == WS_LINE, "what a lookup reads of a table is one line");

/* Creates the tables of `pipeline`; 0 or a WS_E* with `error` (of `error_size`) saying why. */
int ws_tables_create(const struct wp_pipeline *pipeline, struct wp_table ***tables, char *error,
                     size_t error_size);
void ws_tables_destroy(const struct wp_pipeline *pipeline, struct wp_table **tables);
/* Copies a member's new action into the entries that use it. */
void ws_tables_member_changed(ws_switch *sw, int32_t profile, const void *member);

/* The entry with `handle`, 0 the default entry; NULL when there is none. */
struct ws_entry *ws_table_entry(struct wp_table *table, uint64_t handle);
/* `to` takes over counter, last hit and, where both have one, meter of `from`. */
void ws_table_entry_keep(struct ws_entry *to, const struct ws_entry *from);

#endif
