/* Owns tasks: messages that are posted, answered and timed without leaving the loop. */
#include <string.h>

#include "loop.h"

enum { RECEIVES = 512 }; /* kept posted by who serves */

static struct member *member_of(struct rnicd *d, uint32_t qpn)
{
    struct member *member = &d->members[qpn & d->members_mask];
    return member->qpn == qpn ? member : NULL;
}

static void finish(struct rnicd *d, struct member *member, enum rnic_failure failure)
{
    if (member->state.done)
        return;
    member->state.done = 1;
    member->state.failure = failure;
    tell(d);
}

static int post(struct rnicd *d, struct member *member)
{
    const struct rnicd_task *task = &member->task;
    const struct rnic_work work = {
        .id = d->next_id,
        .operation = task->operation,
        .length = task->size,
        .local = task->buffer,
        .remote_address = task->remote_address,
        .rkey = task->rkey,
    };
    const rnic_time now = rnicd_now(d);
    const int status = rnic_post(d->card, member->qpn, &work, now);
    if (status)
        return status;
    if (task->posts && member->state.posted < task->count)
        task->posts[member->state.posted] = (uint64_t)now / 1000;
    member->state.posted++;
    if (task->left)
        --*task->left;
    d->next_id++;
    return RNIC_OK;
}

static int post_receive(struct rnicd *d, struct member *member)
{
    const struct rnicd_task *task = &member->task;
    const uint64_t size = task->receive_size ? task->receive_size : task->size;
    return rnic_post_receive(d->card, member->qpn, 0, task->receive, size);
}

static uint32_t depth_of(const struct rnicd_task *task) { return task->kind == RNICD_LATENCY ? 1 : task->depth; }

/* No more messages are to be begun. */
static int is_over(const struct member *member, uint64_t now)
{
    const struct rnicd_task *task = &member->task;
    return member->state.posted >= task->count || (task->left && !*task->left) ||
           (task->duration_ns && now - member->state.started_ns >= task->duration_ns && member->state.posted);
}

static void fill(struct rnicd *d, struct member *member, uint32_t depth)
{
    const uint64_t now = since_start(d);
    while (member->state.posted - member->state.completed < depth && !is_over(member, now)) {
        member->asked_ns = now;
        if (post(d, member)) {
            finish(d, member, RNIC_FLUSHED);
            return;
        }
    }
    if (member->state.posted == member->state.completed && is_over(member, now))
        finish(d, member, RNIC_NO_FAILURE);
}

int rnicd_task_set(rnicd *d, uint32_t qpn, const struct rnicd_task *task)
{
    struct member *member = &d->members[qpn & d->members_mask];
    struct rnic_qp_stats stats;
    if (rnic_qp_stats_get(d->card, qpn, rnicd_now(d), &stats) || (member->qpn && member->qpn != qpn))
        return RNIC_ENOENT;
    *member = (struct member){.qpn = qpn, .task = *task, .first_id = d->next_id};
    member->state.started_ns = member->state.ended_ns = since_start(d);
    const int receives = task->operation == RNIC_SEND && task->receive;
    for (int i = 0; receives && i < RECEIVES; i++) {
        const int status = post_receive(d, member);
        if (status) {
            member->qpn = 0;
            return status;
        }
    }
    if (task->kind == RNICD_LATENCY || (task->kind == RNICD_BANDWIDTH && !task->left))
        fill(d, member, depth_of(task));
    return RNIC_OK;
}

int rnicd_tasks_share(rnicd *d, const uint32_t *qpns, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct member *member = member_of(d, qpns[i]);
        if (!member || !member->task.left)
            return RNIC_ENOENT;
        if (member->task.depth > most)
            most = member->task.depth;
    }
    for (uint32_t depth = 1; depth <= most; depth++)
        for (uint32_t i = 0; i < n; i++) {
            struct member *member = member_of(d, qpns[i]);
            if (depth <= member->task.depth)
                fill(d, member, depth);
        }
    return RNIC_OK;
}

int rnicd_task_get(rnicd *d, uint32_t qpn, struct rnicd_task_state *state)
{
    const struct member *member = member_of(d, qpn);
    if (!member)
        return RNIC_ENOENT;
    *state = member->state;
    return RNIC_OK;
}

void rnicd_task_end(rnicd *d, uint32_t qpn)
{
    struct member *member = member_of(d, qpn);
    if (member)
        memset(member, 0, sizeof *member);
}

static void completed(struct rnicd *d, struct member *member)
{
    const uint64_t now = since_start(d);
    struct rnicd_task_state *state = &member->state;
    if (member->task.times && state->completed < member->task.count) {
        const uint64_t took = now - member->asked_ns;
        /* A round trip of messages is two of them. */
        const uint64_t each = member->task.operation == RNIC_READ ? took : took / 2;
        member->task.times[state->completed] = member->task.kind == RNICD_LATENCY ? each : now;
    }
    state->completed++;
    state->ended_ns = now;
    fill(d, member, depth_of(&member->task));
}

void tasks_event(struct rnicd *d, const struct rnic_event *event)
{
    struct member *member = member_of(d, event->qpn);
    const uint32_t kind = member->task.kind;
    switch ((enum rnic_event_kind)event->kind) {
    case RNIC_COMPLETED:
        if (event->id < member->first_id)
            break;
        if (kind == RNICD_BANDWIDTH || (kind == RNICD_LATENCY && member->task.operation == RNIC_READ))
            completed(d, member);
        break;
    case RNIC_PLACED:
        if (kind == RNICD_ANSWER)
            post(d, member);
        else if (kind == RNICD_LATENCY && member->task.operation != RNIC_READ)
            completed(d, member);
        break;
    case RNIC_RECEIVED:
        post_receive(d, member);
        break;
    case RNIC_FAILED:
    case RNIC_MIGRATED:
        break;
    case RNIC_QP_FAILED:
        finish(d, member, (enum rnic_failure)event->status);
        break;
    }
}
