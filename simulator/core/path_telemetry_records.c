/* What packets collect on their way, as a collector on the receiving host has it: owns which flows are watched, and how much the lines
 * that their packets met have carried. Nothing is kept unless sim_record_hops was called.
 *
 * A line's use is summed at every packet, so that the counters of records, which wrap after 16.8 ms, do not bound the time between two
 * samples. It belongs to a port, not to a place on the path: packets of a flow may take turns over several paths.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "path_telemetry.h"

enum {
    LINES_FIRST = 8,
    LINES_MOST = 256,            /* ports of a flow whose use is known */
    SILENT_NS = PATH_WRAPS / 4,  /* without a packet by a port: its counters may have wrapped */
};

/* A port, between two samples of a flow. */
struct hop_line {
    ws_time heard;
    ws_time ns;          /* of the fabric, that `sent` is about; 0: nothing is known */
    uint64_t sent;       /* in PATH_SENT_BYTES */
    uint32_t hop;
    uint32_t last_at, last_sent; /* of the last record */
    uint32_t is_broken;  /* since the last sample it has been silent for too long */
};

struct watched {
    ws_time due;
    struct hop_line *lines;
    uint32_t n, capacity;
};

struct hop_records {
    struct watched *watched;
    uint32_t *place_of; /* by flow: into `watched`; NONE: it is not */
    uint32_t n, n_flows;
    ws_time every, ns;  /* ns: one of the fabric, in virtual time */
    struct rows rows;
};

static size_t bytes_of_watched(uint32_t n) { return (size_t)n * sizeof(struct watched); }
static size_t bytes_of_places(uint32_t n) { return (size_t)n * sizeof(uint32_t); }
static size_t bytes_of_lines(uint32_t n) { return (size_t)n * sizeof(struct hop_line); }

void hops_free(struct sim *s)
{
    struct hop_records *own = s->hops;
    if (!own)
        return;
    for (uint32_t i = 0; own->watched && i < own->n; i++)
        if (own->watched[i].lines)
            ws_memory_put(own->watched[i].lines, bytes_of_lines(own->watched[i].capacity));
    if (own->watched)
        ws_memory_put(own->watched, bytes_of_watched(own->n));
    if (own->place_of)
        ws_memory_put(own->place_of, bytes_of_places(own->n_flows));
    free(own->rows.data);
    ws_memory_put(own, sizeof *own);
    s->hops = NULL;
}

int sim_record_hops(sim *s, const uint32_t *flows, uint32_t n, ws_time every_ps, uint32_t time_scale)
{
    if (s->hops)
        return sim_fail(s, SIM_EINVAL, "records of hops are kept already");
    if (!n || every_ps <= 0 || !time_scale)
        return sim_fail(s, SIM_EINVAL, "records of hops: of one flow at least, a sample each 1 ps or more, and a time scale from 1 on");
    for (uint32_t i = 0; i < n; i++)
        if (flows[i] >= s->n_flows || !s->flows[flows[i]]->config.transport)
            return sim_fail(s, SIM_ENOENT, "flow %u: only cards collect, and it has no transport", flows[i]);
    struct hop_records *own = s->hops = ws_memory_get(sizeof *own);
    if (!own)
        return sim_fail(s, SIM_ENOMEM, "no memory for records of hops");
    own->every = every_ps;
    own->ns = (ws_time)1000 * time_scale;
    own->n = n;
    own->n_flows = s->n_flows;
    own->watched = ws_memory_get(bytes_of_watched(n));
    own->place_of = ws_memory_get(bytes_of_places(own->n_flows));
    if (!own->watched || !own->place_of) {
        hops_free(s);
        return sim_fail(s, SIM_ENOMEM, "no memory for records of hops");
    }
    for (uint32_t i = 0; i < own->n_flows; i++)
        own->place_of[i] = NONE;
    for (uint32_t i = 0; i < n; i++)
        own->place_of[flows[i]] = i;
    return SIM_OK;
}

/* The port's line; NULL: there are too many, or no memory. */
static struct hop_line *line_of(struct watched *of, uint32_t hop)
{
    for (uint32_t i = 0; i < of->n; i++)
        if (of->lines[i].hop == hop)
            return &of->lines[i];
    if (of->n == of->capacity) {
        const uint32_t more = of->capacity ? 2 * of->capacity : LINES_FIRST;
        struct hop_line *lines = of->capacity < LINES_MOST ? ws_memory_get(bytes_of_lines(more)) : NULL;
        if (!lines)
            return NULL;
        if (of->lines) {
            memcpy(lines, of->lines, bytes_of_lines(of->n));
            ws_memory_put(of->lines, bytes_of_lines(of->capacity));
        }
        of->lines = lines;
        of->capacity = more;
    }
    of->lines[of->n] = (struct hop_line){.hop = hop, .is_broken = 1};
    return &of->lines[of->n++];
}

/* Adds what the line has carried since the flow's last packet by it. One that was overtaken says nothing new. */
static void line_take(const struct sim *s, struct hop_line *line, const struct path_hop *hop)
{
    const struct hop_records *own = s->hops;
    const uint32_t ns = path_since(hop->at, line->last_at), sent = path_since(hop->sent, line->last_sent);
    const int is_silent = !line->heard || s->now - line->heard > SILENT_NS * own->ns;
    if (!is_silent && ns >= PATH_WRAPS / 2)
        return;
    if (is_silent) {
        line->ns = 0;
        line->sent = 0;
        line->is_broken = 1;
    } else {
        line->ns += ns;
        line->sent += sent;
    }
    line->heard = s->now;
    line->last_at = hop->at;
    line->last_sent = hop->sent;
}

static void put_row(struct sim *s, const struct flow *flow, const struct flight *flight, struct hop_line *line,
                    const struct path_hop *hop, uint32_t place, uint32_t places, ws_time latency)
{
    struct hop_records *own = s->hops;
    struct sim_hop_sample *row = sample_row(s, &own->rows, sizeof *row);
    if (!row)
        return;
    *row = (struct sim_hop_sample){.at = s->now, .sent = -1, .flow = flow->number, .place = place, .places = places, .hop = hop->hop,
                                   .latency = latency, .queue_bytes = (uint64_t)hop->queue * PATH_QUEUE_BYTES};
    if (flight->tail)
        row->sent = (ws_time)(flight->tail_seed & ~WS_TAIL_ICRC);
    if (!line)
        return;
    if (!line->is_broken) {
        row->used_ps = line->ns * own->ns;
        row->used_bytes = line->sent * PATH_SENT_BYTES;
    }
    line->ns = 0;
    line->sent = 0;
    line->is_broken = 0;
}

/* Since the packet's first bit left its card. */
static ws_time first_latency(const struct hop_records *own, const struct flight *flight, uint32_t at)
{
    const ws_time wraps = PATH_WRAPS * own->ns, since = (ws_time)at * own->ns - (ws_time)(flight->tail_seed & ~WS_TAIL_ICRC) % wraps;
    if (!flight->tail)
        return -1;
    return since < 0 ? since + wraps : since;
}

static uint32_t records_of(const uint8_t *shim)
{
    struct weft_telemetry said;
    weft_telemetry_read(shim, &said);
    return said.kind == WEFT_TELEMETRY_COLLECTS && said.format == PATH_TELEMETRY_HOPS ? (uint32_t)said.words * 4 / PATH_HOP_BYTES : 0;
}

void hops_arrived(struct sim *s, const struct flow *flow, const struct flight *flight)
{
    struct hop_records *own = s->hops;
    const uint32_t number = flow->number < own->n_flows ? own->place_of[flow->number] : NONE;
    const uint8_t *shim = flight_bytes(flight) + ETHERNET + IPV4 + UDP;
    const uint32_t all = number == NONE ? 0 : records_of(shim), places = all < SIM_HOPS ? all : SIM_HOPS;
    if (!places)
        return;
    struct watched *of = &own->watched[number];
    const int is_due = s->now >= of->due;
    uint32_t before = 0;
    for (uint32_t place = 0; place < places; place++) {
        struct cc_telemetry record = {.bytes = PATH_HOP_BYTES, .format = PATH_TELEMETRY_HOPS};
        struct path_hop hop;
        memcpy(record.data, shim + TELEMETRY_SHIM_BYTES + (places - 1 - place) * PATH_HOP_BYTES, PATH_HOP_BYTES);
        path_hop_read(&record, 0, &hop);
        struct hop_line *line = line_of(of, hop.hop);
        if (line)
            line_take(s, line, &hop);
        if (is_due) {
            const ws_time since = place ? path_since(hop.at, before) * own->ns : all == places ? first_latency(own, flight, hop.at) : -1;
            put_row(s, flow, flight, line, &hop, place, places, since);
        }
        before = hop.at;
    }
    if (is_due)
        of->due = s->now + own->every;
}

size_t sim_take_hop_samples(sim *s, struct sim_hop_sample *rows, size_t max)
{
    return s->hops ? sample_take(&s->hops->rows, rows, max, sizeof *rows) : 0;
}
