/* A queue pair's own work as its requester sees it (requests.c, requester.c). */
#ifndef RNIC_WORK_H
#define RNIC_WORK_H

#include "card.h"

static inline struct work *work_at(const struct qp *qp, uint64_t index) { return &qp->works[index & qp->works_mask]; }
static inline uint64_t end_of(const struct work *work) { return work->first_psn + work->packets; }
static inline int is_read(const struct work *work) { return work->posted.operation == RNIC_READ; }
static inline int selective(const struct qp *qp) { return qp->config.repeat == RNIC_SELECTIVE; }

static inline int has_arrived(const struct qp *qp, uint64_t psn)
{
    const uint64_t bit = psn % WINDOW_SELECTIVE_MOST;
    return qp->arrived && qp->arrived[bit / 64] >> bit % 64 & 1;
}

#endif
