#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meter.h"
#include "profile.h"
#include "switch.h"

static const uint64_t no_args[1]; /* so that `args` is never NULL */

static struct wp_entry *lookup_none(struct wp_table *table, const uint8_t *key)
{
    (void)key;
    return &((struct ws_table *)table)->miss.e;
}

static struct wp_entry *lookup_exact(struct wp_table *table, const uint8_t *key)
{
    struct ws_table *t = (struct ws_table *)table;
    struct ws_entry *entry = ws_space_exact(&t->space, key);
    return entry ? &entry->e : &t->miss.e;
}

static struct wp_entry *lookup_lpm(struct wp_table *table, const uint8_t *key)
{
    struct ws_table *t = (struct ws_table *)table;
    struct ws_entry *entry = ws_space_longest(&t->space, key);
    return entry ? &entry->e : &t->miss.e;
}

static struct wp_entry *lookup_exact_word(struct wp_table *table, const uint8_t *key)
{
    struct ws_table *t = (struct ws_table *)table;
    struct ws_entry *entry = ws_space_exact_word(&t->space, key);
    return entry ? &entry->e : &t->miss.e;
}

static struct wp_entry *lookup_lpm_word(struct wp_table *table, const uint8_t *key)
{
    struct ws_table *t = (struct ws_table *)table;
    struct ws_entry *entry = ws_space_longest_word(&t->space, key);
    return entry ? &entry->e : &t->miss.e;
}

static struct wp_entry *lookup_best(struct wp_table *table, const uint8_t *key)
{
    struct ws_table *t = (struct ws_table *)table;
    struct ws_entry *entry = ws_space_best(&t->space, key);
    return entry ? &entry->e : &t->miss.e;
}

static int table_init(struct ws_table *table, const struct wp_table_desc *desc, char *error, size_t error_size)
{
    table->desc = desc;
    table->miss.e.action = WP_NO_ACTION;
    table->miss.e.args = no_args;
    ws_space_init(&table->space, desc->key_bytes);
    if (desc->key_bytes > WS_KEY_BYTES_MAX) {
        snprintf(error, error_size, "table %s: a key of %u bytes is above the limit of %d", desc->name,
                 desc->key_bytes, WS_KEY_BYTES_MAX);
        return WS_ELOAD;
    }
    for (uint32_t k = 0; k < desc->n_keys; k++) {
        const struct wp_key_desc *key = &desc->keys[k];
        const uint32_t bytes = key->bitwidth ? (key->bitwidth + 7) / 8 : 1;
        if (key->offset + key->bytes > desc->key_bytes || key->bytes != bytes) {
            snprintf(error, error_size, "table %s: key %s lies outside the key", desc->name, key->name);
            return WS_ELOAD;
        }
        table->space.n_ranges += key->match == WP_RANGE;
    }
    if (table->space.n_ranges) {
        table->space.ranges = calloc(table->space.n_ranges, sizeof *table->space.ranges);
        if (!table->space.ranges)
            return WS_ENOMEM;
        struct ws_range *range = table->space.ranges;
        for (uint32_t k = 0; k < desc->n_keys; k++)
            if (desc->keys[k].match == WP_RANGE)
                *range++ = (struct ws_range){desc->keys[k].offset, desc->keys[k].bytes};
    }
    if (!desc->key_bytes)
        table->t.lookup = lookup_none;
    else if (desc->match == WP_EXACT)
        table->t.lookup = ws_space_words(&table->space) == 1 ? lookup_exact_word : lookup_exact;
    else if (desc->match == WP_LPM)
        table->t.lookup = ws_space_words(&table->space) == 1 ? lookup_lpm_word : lookup_lpm;
    else
        table->t.lookup = lookup_best;
    return WS_OK;
}

static size_t pointers_bytes(const struct wp_pipeline *pipeline)
{
    const size_t alignment = _Alignof(struct ws_table);
    return (pipeline->n_tables * sizeof(struct wp_table *) + alignment - 1) / alignment * alignment;
}

static size_t tables_bytes(const struct wp_pipeline *pipeline)
{
    return pointers_bytes(pipeline) + pipeline->n_tables * sizeof(struct ws_table);
}

int ws_tables_create(const struct wp_pipeline *pipeline, struct wp_table ***tables, char *error,
                     size_t error_size)
{
    /* Side by side, behind the pointers to them: packets touch nearly all of them. */
    const size_t pointers = pointers_bytes(pipeline), bytes = tables_bytes(pipeline);
    uint8_t *block = ws_memory_get(bytes);
    *tables = (struct wp_table **)block;
    if (!block)
        return WS_ENOMEM;
    struct ws_table *table = (struct ws_table *)(block + pointers);
    int status = WS_OK;
    for (uint32_t i = 0; i < pipeline->n_tables; i++) {
        (*tables)[i] = &table[i].t;
        ws_space_init(&table[i].space, 0);
    }
    for (uint32_t i = 0; status == WS_OK && i < pipeline->n_tables; i++)
        status = table_init(&table[i], &pipeline->tables[i], error, error_size);
    if (status != WS_OK) {
        ws_tables_destroy(pipeline, *tables);
        *tables = NULL;
    }
    return status;
}

static size_t entry_bytes(const struct ws_table *table)
{
    return sizeof(struct ws_entry) + ws_space_words(&table->space) * sizeof(uint64_t) + 2 * table->desc->key_bytes;
}

static void entry_free(const struct ws_table *table, struct ws_entry *entry)
{
    free(entry->args);
    free(entry->e.meter);
    ws_memory_put(entry, entry_bytes(table));
}

static void clear(struct ws_table *table)
{
    for (uint32_t slot = 0; slot < table->slots.capacity; slot++) {
        struct ws_entry *entry = table->slots.objects[slot];
        if (!entry)
            continue;
        ws_profile_release(entry->target, entry->object);
        ws_slots_drop(&table->slots, entry->handle);
        entry_free(table, entry);
    }
    ws_space_free(&table->space);
}

void ws_tables_destroy(const struct wp_pipeline *pipeline, struct wp_table **tables)
{
    for (uint32_t i = 0; i < pipeline->n_tables; i++) {
        struct ws_table *table = (struct ws_table *)tables[i];
        clear(table);
        ws_slots_free(&table->slots);
        ws_profile_release(table->miss.target, table->miss.object);
        free(table->miss.args);
        free(table->space.ranges);
    }
    ws_memory_put(tables, tables_bytes(pipeline));
}

static struct ws_table *table_at(const ws_switch *sw, uint32_t table)
{
    if (!sw->program || table >= sw->program->pipeline->n_tables)
        return NULL;
    return (struct ws_table *)sw->program->env.tables[table];
}

/* --- actions of entries ------------------------------------------------------------------ */

struct resolved {
    uint64_t *args;
    void *object;
};

/* Checks `spec` and gets what it needs, without touching an entry. */
static int resolve(ws_switch *sw, const struct ws_table *table, const struct ws_spec *spec, struct resolved *out)
{
    *out = (struct resolved){0};
    if (spec->target != WS_ACTION)
        return ws_profile_find(sw, table->desc->profile, spec->target, spec->ref, &out->object);
    if (spec->action >= sw->program->pipeline->n_actions || spec->limbs != sw->program->pipeline->actions[spec->action].limbs)
        return WS_EINVAL;
    if (!spec->limbs)
        return WS_OK;
    out->args = malloc(spec->limbs * sizeof *out->args);
    if (!out->args)
        return WS_ENOMEM;
    memcpy(out->args, spec->args, spec->limbs * sizeof *out->args);
    return WS_OK;
}

static void show_member(struct ws_entry *entry, const struct ws_member *member)
{
    entry->e.action = member->e.action;
    entry->e.args = member->e.args;
}

static void apply(struct ws_entry *entry, const struct ws_spec *spec, const struct resolved *what)
{
    ws_profile_retain(spec->target, what->object);
    ws_profile_release(entry->target, entry->object);
    free(entry->args);
    entry->target = spec->target;
    entry->object = what->object;
    entry->args = what->args;
    const uint64_t *args = what->args ? what->args : no_args;
    if (what->args && spec->limbs <= WS_OWN_LIMBS) {
        memcpy(entry->own, what->args, spec->limbs * sizeof *entry->own);
        free(what->args);
        entry->args = NULL;
        args = entry->own;
    }
    entry->e.group = NULL;
    switch (spec->target) {
    case WS_MEMBER:
        show_member(entry, what->object);
        break;
    case WS_GROUP:
        entry->e.action = WP_NO_ACTION;
        entry->e.args = no_args;
        entry->e.group = what->object;
        break;
    default:
        entry->e.action = spec->action;
        entry->e.args = args;
    }
}

void ws_tables_member_changed(ws_switch *sw, int32_t profile, const void *member)
{
    for (uint32_t i = 0; i < sw->program->pipeline->n_tables; i++) {
        struct ws_table *table = table_at(sw, i);
        if (table->desc->profile != profile)
            continue;
        if (table->miss.object == member)
            show_member(&table->miss, member);
        for (uint32_t slot = 0; slot < table->slots.capacity; slot++) {
            struct ws_entry *entry = table->slots.objects[slot];
            if (entry && entry->object == member)
                show_member(entry, member);
        }
    }
}

/* --- keys --------------------------------------------------------------------------------- */

/* Bits above the field's width are 0. */
static int fits(const struct wp_key_desc *key, const uint8_t *value)
{
    uint32_t spare = key->bytes * 8 - key->bitwidth;
    return value[key->offset] >> (8 - spare) == 0;
}

static int prefix_length(const struct wp_key_desc *key, const uint8_t *mask)
{
    int length = 0, ended = 0;
    for (uint32_t bit = key->bytes * 8 - key->bitwidth; bit < key->bytes * 8; bit++) {
        int set = mask[key->offset + bit / 8] >> (7 - bit % 8) & 1;
        if (set && ended)
            return -1;
        length += set;
        ended |= !set;
    }
    return length;
}

/* Checks a key and fills `full` (the mask that is hashed under) and `rank` of an LPM table. */
static int check_key(const struct wp_table_desc *desc, const uint8_t *value, const uint8_t *mask, uint8_t *full,
                     int32_t *rank)
{
    memset(full, 0, desc->key_bytes);
    for (uint32_t k = 0; k < desc->n_keys; k++) {
        const struct wp_key_desc *key = &desc->keys[k];
        if (!fits(key, value))
            return WS_EINVAL;
        if (key->match == WP_EXACT || key->match == WP_VALID) {
            memset(full + key->offset, 0xff, key->bytes);
            continue;
        }
        if (!mask || !fits(key, mask))
            return WS_EINVAL;
        if (key->match == WP_RANGE) {
            if (memcmp(value + key->offset, mask + key->offset, key->bytes) > 0)
                return WS_EINVAL;
            continue;
        }
        for (uint32_t b = key->offset; b < key->offset + key->bytes; b++) {
            if (value[b] & ~mask[b])
                return WS_EINVAL;
            full[b] = mask[b];
        }
        if (key->match == WP_LPM) {
            int length = prefix_length(key, mask);
            if (length < 0)
                return WS_EINVAL;
            if (desc->match == WP_LPM)
                *rank = length;
        }
    }
    return WS_OK;
}

/* --- the control plane's calls ------------------------------------------------------------- */

static struct ws_entry *entry_new(const struct ws_table *table, const uint8_t *key, const uint8_t *mask)
{
    uint32_t bytes = table->desc->key_bytes;
    size_t words = ws_space_words(&table->space) * sizeof(uint64_t);
    struct ws_entry *entry = ws_memory_get(entry_bytes(table));
    if (!entry)
        return NULL;
    entry->words = (uint64_t *)(entry + 1);
    entry->low = (uint8_t *)entry->words + words;
    entry->high = entry->low + bytes;
    memcpy(entry->low, key, bytes);
    if (mask)
        memcpy(entry->high, mask, bytes);
    entry->e.hit = 1;
    entry->e.args = no_args;
    return entry;
}

int ws_table_insert(ws_switch *sw, uint32_t table_index, const uint8_t *key, const uint8_t *mask,
                    int32_t priority, const struct ws_spec *spec, uint64_t *handle)
{
    struct ws_table *table = table_at(sw, table_index);
    if (!table)
        return WS_ENOENT;
    const struct wp_table_desc *desc = table->desc;
    if (!desc->key_bytes)
        return WS_EINVAL;
    int32_t rank = 0;
    uint8_t full[WS_KEY_BYTES_MAX];
    int status = check_key(desc, key, mask, full, &rank);
    if (status != WS_OK)
        return status;
    if (desc->match == WP_EXACT || desc->match == WP_LPM)
        priority = 0;
    else
        rank = priority;
    uint64_t mask_words[WS_KEY_WORDS_MAX], words[WS_KEY_WORDS_MAX];
    ws_key_load(mask_words, full, desc->key_bytes);
    ws_key_load(words, key, desc->key_bytes);
    for (uint32_t w = 0; w < ws_space_words(&table->space); w++)
        words[w] &= mask_words[w];
    if (ws_space_find(&table->space, mask_words, words, priority, key, mask))
        return WS_EEXIST;
    if (table->slots.used >= desc->max_size)
        return WS_EFULL;

    struct resolved what;
    status = resolve(sw, table, spec, &what);
    if (status != WS_OK)
        return status;
    struct ws_entry *entry = entry_new(table, key, mask);
    if (entry && desc->direct_meter >= 0)
        entry->e.meter = ws_meter_new();
    if (!entry || (desc->direct_meter >= 0 && !entry->e.meter))
        goto no_memory;
    memcpy(entry->words, words, ws_space_words(&table->space) * sizeof *words);
    entry->priority = priority;
    entry->handle = ws_slots_put(&table->slots, entry);
    if (!entry->handle)
        goto no_memory;
    entry->slot = ws_slot_of(entry->handle);
    if (!ws_space_add(&table->space, mask_words, rank, entry)) {
        ws_slots_drop(&table->slots, entry->handle);
        goto no_memory;
    }
    apply(entry, spec, &what);
    entry->e.last_hit = ws_ticks(sw);
    *handle = entry->handle;
    return WS_OK;

no_memory:
    free(what.args);
    if (entry)
        entry_free(table, entry);
    return WS_ENOMEM;
}

struct ws_entry *ws_table_entry(struct wp_table *table, uint64_t handle)
{
    struct ws_table *t = (struct ws_table *)table;
    return handle ? ws_slots_get(&t->slots, handle) : &t->miss;
}

static struct ws_entry *entry_at(const ws_switch *sw, uint32_t table_index, uint64_t handle)
{
    struct ws_table *table = table_at(sw, table_index);
    return table ? ws_table_entry(&table->t, handle) : NULL;
}

void ws_table_entry_keep(struct ws_entry *to, const struct ws_entry *from)
{
    to->e.counter = from->e.counter;
    to->e.last_hit = from->e.last_hit;
    if (to->e.meter && from->e.meter)
        *(struct ws_meter *)to->e.meter = *(const struct ws_meter *)from->e.meter;
}

int ws_table_modify(ws_switch *sw, uint32_t table, uint64_t handle, const struct ws_spec *spec)
{
    struct ws_entry *entry = handle ? entry_at(sw, table, handle) : NULL;
    if (!entry)
        return WS_ENOENT;
    struct resolved what;
    int status = resolve(sw, table_at(sw, table), spec, &what);
    if (status == WS_OK)
        apply(entry, spec, &what);
    return status;
}

int ws_table_delete(ws_switch *sw, uint32_t table_index, uint64_t handle)
{
    struct ws_entry *entry = handle ? entry_at(sw, table_index, handle) : NULL;
    if (!entry)
        return WS_ENOENT;
    struct ws_table *table = table_at(sw, table_index);
    ws_space_remove(&table->space, entry);
    ws_slots_drop(&table->slots, handle);
    ws_profile_release(entry->target, entry->object);
    entry_free(table, entry);
    return WS_OK;
}

int ws_table_clear(ws_switch *sw, uint32_t table_index)
{
    struct ws_table *table = table_at(sw, table_index);
    if (!table)
        return WS_ENOENT;
    clear(table);
    return WS_OK;
}

int ws_table_set_default(ws_switch *sw, uint32_t table_index, const struct ws_spec *spec)
{
    struct ws_table *table = table_at(sw, table_index);
    if (!table)
        return WS_ENOENT;
    static const struct ws_spec nothing = {.target = WS_ACTION, .action = WP_NO_ACTION};
    struct resolved what = {0};
    int status = spec ? resolve(sw, table, spec, &what) : WS_OK;
    if (status == WS_OK)
        apply(&table->miss, spec ? spec : &nothing, &what);
    return status;
}

uint32_t ws_table_count(const ws_switch *sw, uint32_t table_index)
{
    const struct ws_table *table = table_at(sw, table_index);
    return table ? table->slots.used : 0;
}

int ws_table_counter(ws_switch *sw, uint32_t table, uint64_t handle, struct wp_counter *out)
{
    const struct ws_entry *entry = entry_at(sw, table, handle);
    if (!entry)
        return WS_ENOENT;
    *out = entry->e.counter;
    return WS_OK;
}

int ws_table_counter_set(ws_switch *sw, uint32_t table, uint64_t handle, const struct wp_counter *value)
{
    struct ws_entry *entry = entry_at(sw, table, handle);
    if (!entry)
        return WS_ENOENT;
    entry->e.counter = *value;
    return WS_OK;
}

int ws_table_last_hit(const ws_switch *sw, uint32_t table, uint64_t handle, ws_time *last_hit)
{
    const struct ws_entry *entry = entry_at(sw, table, handle);
    if (!entry)
        return WS_ENOENT;
    *last_hit = (ws_time)entry->e.last_hit * sw->config.tick_ps;
    return WS_OK;
}

int ws_direct_meter_set(ws_switch *sw, uint32_t table, uint64_t handle, const struct ws_meter_config *config)
{
    struct ws_entry *entry = handle ? entry_at(sw, table, handle) : NULL;
    if (!entry)
        return WS_ENOENT;
    if (!entry->e.meter)
        return WS_EINVAL;
    return ws_meter_configure(entry->e.meter, config);
}
