/* One slot with its algorithms, and nothing around it: for who tries a header by itself. */
#ifndef ALONE_H
#define ALONE_H

#include "cc.h"

void alone_event(struct cc_slot *slot, const struct cc_event *event, const struct cc_telemetry *telemetry, uint64_t now);
uint64_t alone_elapse(struct cc_slot *slot, uint64_t now);
uint64_t alone_rate(const struct cc_slot *slot, uint64_t now);
uint64_t alone_window(const struct cc_slot *slot, uint64_t now);
uint32_t alone_path(const struct cc_slot *slot, const struct cc_choice *choice, uint64_t now);
const char *alone_invalid(const struct cc_params *params);

#endif
