#include "alone.h"

void alone_event(struct cc_slot *slot, const struct cc_event *event, const struct cc_telemetry *telemetry, uint64_t now)
{
    cc_on_event(slot, event, telemetry, now);
}

uint64_t alone_elapse(struct cc_slot *slot, uint64_t now) { return cc_elapse(slot, now); }

uint64_t alone_rate(const struct cc_slot *slot, uint64_t now) { return cc_rate_at(slot, now); }

uint64_t alone_window(const struct cc_slot *slot, uint64_t now) { return cc_window_at(slot, now); }

uint32_t alone_path(const struct cc_slot *slot, const struct cc_choice *choice, uint64_t now)
{
    return cc_path_at(slot, choice, now);
}

const char *alone_invalid(const struct cc_params *params)
{
    const char *which;

    return cc_invalid(params, &which);
}
