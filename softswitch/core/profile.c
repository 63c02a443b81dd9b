#include "profile.h"

#include <stdlib.h>
#include <string.h>

#include "switch.h"
#include "table.h"

static const uint64_t no_args[1];

int ws_profiles_create(const struct wp_pipeline *pipeline, struct ws_profile **profiles)
{
    *profiles = calloc(pipeline->n_profiles + 1, sizeof **profiles);
    return *profiles ? WS_OK : WS_ENOMEM;
}

static void member_free(struct ws_member *member)
{
    free(member->args);
    ws_memory_put(member, sizeof *member);
}

static void group_free(struct ws_group *group)
{
    ws_memory_put(group->members, (group->n_all + 1) * sizeof *group->members);
    free(group->all);
    free(group->watch);
    ws_memory_put(group, sizeof *group);
}

void ws_profiles_destroy(const struct wp_pipeline *pipeline, struct ws_profile *profiles)
{
    for (uint32_t i = 0; profiles && i < pipeline->n_profiles; i++) {
        struct ws_profile *profile = &profiles[i];
        for (uint32_t slot = 0; slot < profile->groups.capacity; slot++)
            if (profile->groups.objects[slot])
                group_free(profile->groups.objects[slot]);
        for (uint32_t slot = 0; slot < profile->members.capacity; slot++)
            if (profile->members.objects[slot])
                member_free(profile->members.objects[slot]);
        ws_slots_free(&profile->groups);
        ws_slots_free(&profile->members);
    }
    free(profiles);
}

static struct ws_profile *profile_at(const ws_switch *sw, int64_t profile)
{
    if (!sw->program || profile < 0 || profile >= sw->program->pipeline->n_profiles)
        return NULL;
    return &sw->program->profiles[profile];
}

int ws_profile_find(ws_switch *sw, int32_t index, uint32_t target, uint64_t handle, void **object)
{
    const struct ws_profile *profile = profile_at(sw, index);
    if (!profile || (target != WS_MEMBER && target != WS_GROUP))
        return WS_EINVAL;
    *object = ws_slots_get(target == WS_MEMBER ? &profile->members : &profile->groups, handle);
    return *object ? WS_OK : WS_ENOENT;
}

void ws_profile_retain(uint32_t target, void *object)
{
    if (target == WS_MEMBER)
        ((struct ws_member *)object)->users++;
    else if (target == WS_GROUP)
        ((struct ws_group *)object)->users++;
}

void ws_profile_release(uint32_t target, void *object)
{
    if (target == WS_MEMBER)
        ((struct ws_member *)object)->users--;
    else if (target == WS_GROUP)
        ((struct ws_group *)object)->users--;
}

struct wp_entry *ws_profile_select(const struct wp_env *env, void *group, uint64_t hash)
{
    (void)env;
    struct ws_group *g = group;
    return g->n ? &g->members[hash % g->n]->e : &g->nobody;
}

/* --- members ----------------------------------------------------------------------------- */

static int fill(ws_switch *sw, struct ws_member *member, uint32_t action, const uint64_t *args, uint32_t limbs)
{
    if (action >= sw->program->pipeline->n_actions || limbs != sw->program->pipeline->actions[action].limbs)
        return WS_EINVAL;
    uint64_t *copy = NULL;
    if (limbs > 1) {
        copy = malloc(limbs * sizeof *copy);
        if (!copy)
            return WS_ENOMEM;
        memcpy(copy, args, limbs * sizeof *copy);
    }
    free(member->args);
    member->args = copy;
    member->own[0] = limbs == 1 ? args[0] : 0;
    member->e.action = action;
    member->e.args = copy ? copy : member->own;
    return WS_OK;
}

int ws_member_add(ws_switch *sw, uint32_t profile_index, uint32_t action, const uint64_t *args, uint32_t limbs,
                  uint64_t *handle)
{
    struct ws_profile *profile = profile_at(sw, profile_index);
    if (!profile)
        return WS_ENOENT;
    struct ws_member *member = ws_memory_get(sizeof *member);
    if (!member)
        return WS_ENOMEM;
    member->e.hit = 1;
    int status = fill(sw, member, action, args, limbs);
    if (status == WS_OK && !(*handle = ws_slots_put(&profile->members, member)))
        status = WS_ENOMEM;
    if (status != WS_OK)
        member_free(member);
    return status;
}

int ws_member_modify(ws_switch *sw, uint32_t profile_index, uint64_t handle, uint32_t action, const uint64_t *args,
                     uint32_t limbs)
{
    struct ws_profile *profile = profile_at(sw, profile_index);
    struct ws_member *member = profile ? ws_slots_get(&profile->members, handle) : NULL;
    if (!member)
        return WS_ENOENT;
    int status = fill(sw, member, action, args, limbs);
    if (status == WS_OK)
        ws_tables_member_changed(sw, (int32_t)profile_index, member);
    return status;
}

int ws_member_delete(ws_switch *sw, uint32_t profile_index, uint64_t handle)
{
    struct ws_profile *profile = profile_at(sw, profile_index);
    struct ws_member *member = profile ? ws_slots_get(&profile->members, handle) : NULL;
    if (!member)
        return WS_ENOENT;
    if (member->users)
        return WS_EBUSY;
    ws_slots_drop(&profile->members, handle);
    member_free(member);
    return WS_OK;
}

/* --- groups ------------------------------------------------------------------------------ */

static int is_up(const ws_switch *sw, uint32_t port)
{
    return port == WS_NO_PORT || ws_port_is_up(sw, port);
}

static void select_members(const ws_switch *sw, struct ws_group *group)
{
    group->n = 0;
    for (uint32_t i = 0; i < group->n_all; i++)
        if (!group->watch || is_up(sw, group->watch[i]))
            group->members[group->n++] = group->all[i];
}

static void release_members(struct ws_group *group)
{
    for (uint32_t i = 0; i < group->n_all; i++)
        group->all[i]->users--;
}

static int set_members(const ws_switch *sw, struct ws_profile *profile, struct ws_group *group,
                       const uint64_t *members, const uint32_t *watch, uint32_t n)
{
    struct ws_member **all = calloc(n + 1, sizeof *all), **list = ws_memory_get((n + 1) * sizeof *list);
    uint32_t *ports = watch ? calloc(n + 1, sizeof *ports) : NULL;
    int status = all && list && (ports || !watch) ? WS_OK : WS_ENOMEM;
    for (uint32_t i = 0; status == WS_OK && i < n; i++) {
        all[i] = ws_slots_get(&profile->members, members[i]);
        if (!all[i])
            status = WS_ENOENT;
    }
    if (status != WS_OK) {
        free(all);
        ws_memory_put(list, (n + 1) * sizeof *list);
        free(ports);
        return status;
    }
    for (uint32_t i = 0; i < n; i++)
        all[i]->users++;
    release_members(group);
    if (watch)
        memcpy(ports, watch, n * sizeof *ports);
    free(group->all);
    ws_memory_put(group->members, (group->n_all + 1) * sizeof *group->members);
    free(group->watch);
    group->all = all;
    group->members = list;
    group->watch = ports;
    group->n_all = n;
    select_members(sw, group);
    return WS_OK;
}

void ws_profiles_follow_ports(ws_switch *sw)
{
    for (uint32_t i = 0; sw->program && i < sw->program->pipeline->n_profiles; i++) {
        const struct ws_slots *groups = &sw->program->profiles[i].groups;
        for (uint32_t slot = 0; slot < groups->capacity; slot++) {
            struct ws_group *group = groups->objects[slot];
            if (group && group->watch)
                select_members(sw, group);
        }
    }
}

int ws_group_add(ws_switch *sw, uint32_t profile_index, const uint64_t *members, const uint32_t *watch, uint32_t n,
                 uint64_t *handle)
{
    struct ws_profile *profile = profile_at(sw, profile_index);
    if (!profile)
        return WS_ENOENT;
    struct ws_group *group = ws_memory_get(sizeof *group);
    if (!group)
        return WS_ENOMEM;
    group->nobody.action = WP_NO_ACTION;
    group->nobody.args = no_args;
    int status = set_members(sw, profile, group, members, watch, n);
    if (status == WS_OK && !(*handle = ws_slots_put(&profile->groups, group))) {
        release_members(group);
        status = WS_ENOMEM;
    }
    if (status != WS_OK)
        group_free(group);
    return status;
}

int ws_group_set(ws_switch *sw, uint32_t profile_index, uint64_t handle, const uint64_t *members,
                 const uint32_t *watch, uint32_t n)
{
    struct ws_profile *profile = profile_at(sw, profile_index);
    struct ws_group *group = profile ? ws_slots_get(&profile->groups, handle) : NULL;
    return group ? set_members(sw, profile, group, members, watch, n) : WS_ENOENT;
}

int ws_group_delete(ws_switch *sw, uint32_t profile_index, uint64_t handle)
{
    struct ws_profile *profile = profile_at(sw, profile_index);
    struct ws_group *group = profile ? ws_slots_get(&profile->groups, handle) : NULL;
    if (!group)
        return WS_ENOENT;
    if (group->users)
        return WS_EBUSY;
    release_members(group);
    ws_slots_drop(&profile->groups, handle);
    group_free(group);
    return WS_OK;
}
