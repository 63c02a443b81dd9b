/* What an interface has heard of switches by notifications in datagrams (docs/wire-formats.md). A card has one such table, and so has an
 * interface of the simulator without a card. Memory is taken when the first one comes, up to RNIC_NOTIFICATIONS rows.
 */
#ifndef RNIC_NOTIFICATIONS_H
#define RNIC_NOTIFICATIONS_H

#include "notification.h"
#include "rnic.h"

struct notifications;

enum notified {
    NOTIFIED_OTHER = 0,   /* the frame is something else */
    NOTIFIED_REFUSED = 1, /* not as one has to be, or of a type without a meaning: it is counted */
    NOTIFIED_TAKEN = 2,
};
/* Whether a frame goes to `ip` and the notifications' port, whatever is in it. */
int notifications_is_one(uint32_t ip, const uint8_t *frame, uint32_t length);
/* Takes a frame to `ip` as rnic_receive gets it. `own` is NULL until it is used. */
enum notified notifications_take(struct notifications **own, uint32_t ip, const uint8_t *frame, uint32_t length, uint32_t tail,
                                 rnic_time now, struct weft_notification *said);
/* One that came in a CNP, of a type with a meaning. */
void notifications_keep(struct notifications **own, uint32_t ip, const struct weft_notification *said, uint32_t body_bytes, rnic_time now);
/* One of congestion that was taken is for no queue pair here. */
void notifications_no_qp(struct notifications *own);
size_t notifications_rows(const struct notifications *own, struct rnic_notification *rows, size_t max);
void notifications_counts(const struct notifications *own, struct rnic_notification_counts *counts);
void notifications_free(struct notifications *own);

#endif
