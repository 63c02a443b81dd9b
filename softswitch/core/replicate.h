/* Replication: owns multicast groups and clone sessions (not the copying: pipeline.c does that). */
#ifndef WEFT_REPLICATE_H
#define WEFT_REPLICATE_H

#include "weft_switch.h"

struct ws_multicast {
    uint32_t group;
    uint32_t n;
    uint32_t copies; /* replicas that are no backups */
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
/* Which of the replicas from *i on takes the place of *i: itself, or a backup if its port is down and the backup's is
   up. Moves *i behind the backups. */
const struct ws_replica *ws_replica_next(const ws_switch *sw, const struct ws_multicast *group, uint32_t *i);
const struct ws_session *ws_session_find(const struct ws_replication *replication, uint32_t session);
void ws_replication_free(struct ws_replication *replication);

#endif
