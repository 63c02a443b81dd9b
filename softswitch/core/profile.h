/* Action profiles: owns members, groups and the choice of a member by hash. */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include "slots.h"
#include "weft_switch.h"

struct ws_member {
    struct wp_entry e; /* what env->select returns */
    uint64_t own[1];   /* action data that is as short: in the same line of the cache */
    uint64_t *args;    /* longer one */
    uint32_t users;    /* entries, and places in groups */
};

struct ws_group {
    uint32_t users; /* entries */
    uint32_t n;
    struct ws_member **members; /* in selection order, those whose port is up */
    uint32_t n_all;
    struct ws_member **all;
    uint32_t *watch; /* of n_all, NULL: no member watches a port */
    struct wp_entry nobody;     /* the answer of an empty group */
};

struct ws_profile {
    struct ws_slots members, groups;
};

int ws_profiles_create(const struct wp_pipeline *pipeline, struct ws_profile **profiles);
void ws_profiles_destroy(const struct wp_pipeline *pipeline, struct ws_profile *profiles);

/* The member or group (`target`) with `handle`; WS_EINVAL when `profile` is negative, WS_ENOENT. */
int ws_profile_find(ws_switch *sw, int32_t profile, uint32_t target, uint64_t handle, void **object);
/* An entry begins or ends using `object`; nothing for WS_ACTION. */
void ws_profile_retain(uint32_t target, void *object);
void ws_profile_release(uint32_t target, void *object);

/* env->select */
struct wp_entry *ws_profile_select(const struct wp_env *env, void *group, uint64_t hash);

/* The state of a port changed, or all may have: groups select among the members whose port is up. */
void ws_profiles_follow_ports(ws_switch *sw);

#endif
