/* Replication: owns multicast groups and clone sessions (not the copying: pipeline.c does that). */
#ifndef WEFT_REPLICATE_H
#define WEFT_REPLICATE_H

#include "weft_switch.h"

struct ws_multicast {
    uint32_t group;
    uint32_t n;
    struct ws_replica *replicas; /* in the order given */
};

struct ws_clone_session {
    uint32_t session;
    struct ws_session config;
};

struct ws_replication {
    struct ws_multicast *groups; /* by id */
    uint32_t n_groups;
    struct ws_clone_session *sessions; /* by id */
    uint32_t n_sessions;
};

/* NULL when not set. */
const struct ws_multicast *ws_multicast_find(const struct ws_replication *replication, uint32_t group);
const struct ws_session *ws_session_find(const struct ws_replication *replication, uint32_t session);
void ws_replication_free(struct ws_replication *replication);

#endif
