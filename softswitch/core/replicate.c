#include "replicate.h"

#include <stdlib.h>
#include <string.h>

#include "switch.h"

/* Where `id` is or belongs among `n` records of `size` bytes that begin with their uint32_t id. */
static uint32_t lower_bound(const void *records, uint32_t n, size_t size, uint32_t id)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, at;
        memcpy(&at, (const char *)records + middle * size, sizeof at);
        if (at < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct ws_multicast *ws_multicast_find(const struct ws_replication *replication, uint32_t group)
{
    uint32_t i = lower_bound(replication->groups, replication->n_groups, sizeof *replication->groups, group);
    return i < replication->n_groups && replication->groups[i].group == group ? &replication->groups[i] : NULL;
}

const struct ws_replica *ws_replica_next(const ws_switch *sw, const struct ws_multicast *group, uint32_t *i)
{
    const struct ws_replica *first = &group->replicas[*i], *end = group->replicas + group->n, *next = first + 1;
    while (next < end && next->backup)
        next++;
    *i = (uint32_t)(next - group->replicas);
    for (const struct ws_replica *r = first; next - first > 1 && r < next; r++) {
        if (ws_port_is_up(sw, r->port))
            return r;
    }
    return first;
}

const struct ws_session *ws_session_find(const struct ws_replication *replication, uint32_t session)
{
    uint32_t i =
        lower_bound(replication->sessions, replication->n_sessions, sizeof *replication->sessions, session);
    return i < replication->n_sessions && replication->sessions[i].session == session
               ? &replication->sessions[i].config
               : NULL;
}

void ws_replication_free(struct ws_replication *replication)
{
    for (uint32_t i = 0; i < replication->n_groups; i++)
        free(replication->groups[i].replicas);
    free(replication->groups);
    free(replication->sessions);
    *replication = (struct ws_replication){0};
}

int ws_multicast_set(ws_switch *sw, uint32_t group, const struct ws_replica *replicas, uint32_t n)
{
    struct ws_replication *r = &sw->replication;
    uint32_t i = lower_bound(r->groups, r->n_groups, sizeof *r->groups, group);
    int exists = i < r->n_groups && r->groups[i].group == group;
    if (!n) {
        if (!exists)
            return WS_ENOENT;
        free(r->groups[i].replicas);
        memmove(r->groups + i, r->groups + i + 1, (r->n_groups - i - 1) * sizeof *r->groups);
        r->n_groups--;
        return WS_OK;
    }
    if (replicas[0].backup)
        return WS_EINVAL;
    struct ws_replica *copy = malloc(n * sizeof *copy);
    if (!copy)
        return WS_ENOMEM;
    memcpy(copy, replicas, n * sizeof *copy);
    if (exists) {
        free(r->groups[i].replicas);
    } else {
        struct ws_multicast *groups = realloc(r->groups, (r->n_groups + 1) * sizeof *groups);
        if (!groups) {
            free(copy);
            return WS_ENOMEM;
        }
        r->groups = groups;
        memmove(groups + i + 1, groups + i, (r->n_groups - i) * sizeof *groups);
        r->n_groups++;
    }
    uint32_t copies = 0;
    for (uint32_t k = 0; k < n; k++)
        copies += !copy[k].backup;
    r->groups[i] = (struct ws_multicast){group, n, copies, copy};
    return WS_OK;
}

int ws_clone_session_set(ws_switch *sw, uint32_t session, const struct ws_session *value)
{
    struct ws_replication *r = &sw->replication;
    uint32_t i = lower_bound(r->sessions, r->n_sessions, sizeof *r->sessions, session);
    int exists = i < r->n_sessions && r->sessions[i].session == session;
    if (!value) {
        if (!exists)
            return WS_ENOENT;
        memmove(r->sessions + i, r->sessions + i + 1, (r->n_sessions - i - 1) * sizeof *r->sessions);
        r->n_sessions--;
        return WS_OK;
    }
    if (!exists) {
        struct ws_clone_session *sessions = realloc(r->sessions, (r->n_sessions + 1) * sizeof *sessions);
        if (!sessions)
            return WS_ENOMEM;
        r->sessions = sessions;
        memmove(sessions + i + 1, sessions + i, (r->n_sessions - i) * sizeof *sessions);
        r->n_sessions++;
    }
    r->sessions[i] = (struct ws_clone_session){session, *value};
    return WS_OK;
}
