"""Headers for the lab write-your-own-congestion-control: mistakes, other designs, and all at once.

`wrapped` puts an installed algorithm's text into a learner's header; `together` builds many headers
beside each other, so that the engine is compiled once for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from experiments import grade
from hostagent import own_algorithm
from hostagent.own_algorithm import Built, OwnAlgorithm

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "hostagent" / "include"
FOLDER = ROOT / "labs" / "write-your-own-congestion-control"

FRAME = """\
#ifndef OWN_CC_H
#define OWN_CC_H
RULE
struct own_cc_params {
    weft_u64 line_rate, min_rate, base_rtt_ns, time_scale;
};
struct own_cc {
    struct own_cc_params params;
    weft_u64 rate;
    STATE
};
enum { own_cc_HEARS = HEARS_OF };
enum { own_cc_WANTS = WANTS_OF };
static inline const char *own_cc_invalid(const struct own_cc_params *p)
{
    if (!p->line_rate || !p->min_rate || p->min_rate > p->line_rate)
        return "out of range";
    if (!p->time_scale || p->base_rtt_ns < p->time_scale)
        return "out of range";
    return 0;
}
static inline weft_u64 own_cc_rate_at(const struct own_cc *s, weft_u64 now)
{
    RATE_AT
}
static inline void own_cc_elapse(struct own_cc *s, weft_u64 now)
{
    ELAPSE
    s->rate = own_cc_rate_at(s, now);
}
static inline void own_cc_init(struct own_cc *s, const struct own_cc_params *params, weft_u64 now)
{
    s->params = *params;
    s->rate = params->line_rate;
    INIT
    own_cc_elapse(s, now);
}
static inline void own_cc_on_event(struct own_cc *s, const struct cc_event *event,
                                   const struct cc_telemetry *telemetry, weft_u64 now)
{
    ON_EVENT
    own_cc_elapse(s, now);
}
static inline weft_u64 own_cc_window_at(const struct own_cc *s, weft_u64 now)
{
    WINDOW_AT
}
static inline weft_u32 own_cc_path_at(const struct own_cc *s, const struct cc_choice *choice,
                                       weft_u64 now)
{
    (void)s, (void)choice, (void)now;
    return CC_NO_PATH;
}
#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(own_cc)
#endif
"""


def framed(**parts: str) -> str:
    """Return a header with these parts; without a part it does nothing there."""
    usual = {
        "RULE": '#include "cc_event.h"', "STATE": "weft_u64 more;", "HEARS_OF": "1 << CC_ACKED",
        "WANTS_OF": "CC_WINDOW | CC_RTT", "RATE_AT": "(void)now;\n    return s->rate;",
        "ELAPSE": "", "INIT": "(void)now;\n    s->more = 0;",
        "ON_EVENT": "(void)event, (void)telemetry;",
        "WINDOW_AT": "(void)s, (void)now;\n    return CC_NO_LIMIT;",
    }  # fmt: skip
    text = FRAME
    for name, part in {**usual, **parts}.items():
        text = text.replace(name, part)
    return text


def wrapped(rule: str, fields: Mapping[str, str], hears: str, wants: str) -> str:
    """Return the installed algorithm `rule` as a learner's header.

    `fields`: its parameters, in C.
    """
    text = (INCLUDE / f"{rule}.h").read_text()
    text = text.partition("#ifdef CC_ALGORITHM")[0]
    text = re.sub(rf"\b{rule}(?=\b|_)", "rule", text).replace(f"{rule.upper()}_", "RULE_")
    text = re.sub(rf"\b(?:WEFT_)?{rule.upper()}_H\b", "OWN_CC_RULE_H", text)
    text = text.replace("WEFT_RULE_H", "OWN_CC_RULE_H")
    given = "".join(f"    inner.{name} = {value};\n" for name, value in fields.items())
    return framed(
        RULE=text,
        STATE="struct rule inner;",
        HEARS_OF=hears,
        WANTS_OF=wants,
        INIT=f"struct rule_params inner = {{}};\n{given}    rule_init(&s->inner, &inner, now);",
        ON_EVENT="rule_on_event(&s->inner, event, telemetry, now);",
        ELAPSE="rule_elapse(&s->inner, now);",
        RATE_AT="return rule_rate_at(&s->inner, now);",
        WINDOW_AT="return rule_window_at(&s->inner, now);",
    )


LINE = {"line_rate": "params->line_rate", "min_rate": "params->min_rate"}

ENCC = wrapped(
    "encc",
    {
        **LINE, "rate_ai": "params->line_rate / 115", "base_rtt_ns": "params->base_rtt_ns",
        "eta_q16": "62259", "time_scale": "(weft_u32)params->time_scale", "by_root": "1",
        "queue_free": "8192",
    },
    "1 << CC_ACKED",
    "CC_WINDOW | CC_RTT | CC_TELEMETRY",
)  # fmt: skip
FAST_CNP = wrapped(
    "fast_cnp",
    {
        **LINE, "validity_unit_ns": "256 * params->time_scale",
        "rate_unit_q16": "((weft_u64)1 << 32) / params->time_scale",
    },
    "1 << CC_NOTIFIED",
    "0",
)  # fmt: skip
DCQCN = wrapped(
    "dcqcn",
    {
        "line_rate": "params->line_rate", "min_rate": "params->line_rate / 100",
        "rate_ai": "params->line_rate / 5000", "rate_hai": "params->line_rate / 500",
        "alpha_timer_ns": "1000 * params->time_scale",
        "increase_timer_ns": "300000 * params->time_scale",
        "cut_interval_ns": "4000 * params->time_scale", "fast_recovery": "1",
        "gain_q16": "65536 / 256",
    },
    "1 << CC_CNP | 1 << CC_ACKED | 1 << CC_TICK",
    "0",
)  # fmt: skip
FIXED = framed(INIT="(void)now;\n    s->more = 0;\n    s->rate = params->line_rate / 16;")

DELAY = framed(
    STATE="weft_u64 least, changed_at;",
    INIT="s->least = CC_NO_LIMIT;\n    s->changed_at = now;",
    ON_EVENT="""\
const struct own_cc_params *p = &s->params;
    weft_u64 part = p->line_rate / 100, over;

    (void)telemetry;
    if (event->kind != CC_ACKED || !event->rtt_ns)
        return;
    if (event->rtt_ns < s->least)
        s->least = event->rtt_ns;
    if (now < s->changed_at + event->rtt_ns)
        return;
    s->changed_at = now;
    if (event->rtt_ns > s->least + 2000 * p->time_scale) {
        over = s->rate * 4 / 5 / (event->rtt_ns / 100 + 1) * ((event->rtt_ns - s->least) / 100);
        s->rate -= over < s->rate / 2 ? over : s->rate / 2;
    } else {
        s->rate += part;
    }
    if (s->rate < p->min_rate)
        s->rate = p->min_rate;
    if (s->rate > p->line_rate)
        s->rate = p->line_rate;
""",
    WINDOW_AT="""\
(void)now;
    return s->rate / 1000 * (s->params.base_rtt_ns / 1000) / 8000 * 3 / 2;""",
)
"""By round trips alone: another part of the line each round trip, less where one is long."""


def together(texts: Mapping[str, str]) -> Built:
    """Headers by name, each of them called own_cc in its text, built beside each other.

    They are not checked as a learner's is: that takes half a second each.
    """
    own = []
    for name, text in texts.items():
        mine = re.sub(r"\brule(?=\b|_)", f"{name}_rule", text.replace("own_cc", name))
        mine = mine.replace("OWN_CC", name.upper()).replace("RULE_", f"{name.upper()}_RULE_")
        own.append(OwnAlgorithm(name, Path(f"{name}.h"), mine))
    return own_algorithm.built(*own)


REFERENCE = grade.reference(FOLDER)
CHANGE = "    rate = s->rate * OWN_CC_ETA / (s->used ? s->used : 1) + p->line_rate / OWN_CC_PART;\n"
ADDED = " + p->line_rate / OWN_CC_PART"
SINCE = "path_since(hop->at, last->at)"
SENT = "path_since(hop->sent, last->sent)"
NOTHING = "        return 0; /* what was sent in between is counted when time has passed */\n"
FORGET = "            s->hops[i].hop = 0;\n    s->heard_at"
TRIP = "trip = s->params.base_rtt_ns / s->params.time_scale"
HIGH = "    if (rate > p->line_rate)\n        rate = p->line_rate;\n    s->rate"
QUEUE = "since > trip ? since : trip, hop->rate)"
ONCE = "    if (sent_at < s->changed_at + p->base_rtt_ns)\n        return;\n"
HOPS = "i < PATH_HOPS_MOST; i++) {\n        struct path_hop hop;"
WINDOW = (
    "    return (rate / OWN_CC_SECOND_NS * ns + "
    "rate % OWN_CC_SECOND_NS * ns / OWN_CC_SECOND_NS) / 8;\n"
)
ELAPSE = "elapse(struct own_cc *s, weft_u64 now) { (void)s, (void)now; }"
FADES = """elapse(struct own_cc *s, weft_u64 now)
{
    if (now > s->changed_at + s->params.base_rtt_ns / 8 && s->rate > 2 * s->params.min_rate)
        s->rate -= s->rate / 64;
}"""
DOWN = "    rate = s->used > OWN_CC_ETA ? s->rate * OWN_CC_ETA / s->used : s->rate;\n"
STEPS = """\
    rate = p->line_rate / OWN_CC_PART;
    if (s->used <= OWN_CC_ETA)
        rate = s->rate + rate;
    else
        rate = s->rate > rate ? s->rate - rate : p->min_rate;
"""

ALONE: dict[str, tuple[list[tuple[str, str]], str, str]] = {
    "clock_wraps": ([(SINCE, "hop->at - last->at")], "wraps", "clocks wrap"),
    "bytes_wrap": ([(SENT, "hop->sent - last->sent")], "wraps", "counters of bytes wrap"),
    "no_time_is_no_load": (
        [(NOTHING, "        return *ns = since ? 0 : trip, 0;\n")],
        "again", "acknowledgements of one nanosecond",
    ),
    "late_is_long_ago": (
        [("(!since || since > PATH_WRAPS / 2)", "!since")],
        "again", "an acknowledgement overtakes another",
    ),
    "any_hop_is_the_same": (
        [("last->hop == hop->hop", "last->hop")], "another-path", "whatever it had sent before",
    ),
    "remembers_for_ever": (
        [(FORGET, "            s->hops[i].hop += 0;\n    s->heard_at")], "idle", "after 20 ms",
    ),
    "records_in_our_time": (
        [(TRIP, "trip = s->params.base_rtt_ns")], "slow-motion", "in slow motion",
    ),
    "silence_in_our_time": (
        [("(now - s->heard_at) / s->params.time_scale", "now - s->heard_at")],
        "slow-motion", "in slow motion",
    ),
    "window_in_their_time": (
        [("ns = s->params.base_rtt_ns;", "ns = s->params.base_rtt_ns / s->params.time_scale;")],
        "slow-motion", "in slow motion",
    ),
    "above_the_line": ([(HIGH, "    s->rate")], "bounds", "others take 0 of the line"),
    "takes_any_parameters": (
        [("!p->min_rate || p->min_rate", "p->min_rate")], "parameters", "min_rate 0",
    ),
    "fades_when_asked": ([(ELAPSE, FADES)], "looked-at", "the window, bytes"),
    "only_goes_down": ([(CHANGE, DOWN)], "back", "others took 0.9"),
}  # fmt: skip
"""Mistakes by name: what changes in the reference, which item is lost, and words of its reason."""

IN_RUNS: dict[str, tuple[list[tuple[str, str]], dict[str, str]]] = {
    "adds_nothing": ([(ADDED, "")], {"incast": "Jain", "join": "Jain"}),
    "adds_little": ([("OWN_CC_PART 256", "OWN_CC_PART 8192")], {"join": "Jain"}),
    "last_switch_alone": (
        [(HOPS, HOPS.replace("PATH_HOPS_MOST", "1"))], {"two-links": "the fullest queue"},
    ),
    "queues_are_nothing": (
        [(QUEUE, "since + trip, hop->rate) * 0")], {"incast": "the fullest queue"},
    ),
    "every_acknowledgement": (
        [(ONCE, "    (void)sent_at;\n")], {"join": "all together", "lossy": "all together"},
    ),
    "no_window": (
        [(WINDOW, "    return rate && ns ? CC_NO_LIMIT : 0;\n")], {"incast": "the fullest queue"},
    ),
    "never_up": ([(CHANGE, DOWN)], {"leave": "the one that is left"}),
    "equal_steps": ([(CHANGE, STEPS)], {"incast": "the fullest queue"}),
    "half_of_the_line": ([("OWN_CC_ETA 62259u", "OWN_CC_ETA 32768u")], {"incast": "all together"}),
    "halves": (
        [(CHANGE, CHANGE.replace("s->rate * OWN_CC_ETA / (s->used ? s->used : 1)",
                                 "(s->used > OWN_CC_ETA ? s->rate / 2 : s->rate)"))],
        {"mice": "the two long ones"},
    ),
}  # fmt: skip
"""The same of networks: what is lost there, and what of it."""

DESIGNS: dict[str, tuple[str, dict[str, str]]] = {
    "dcqcn_s_rule": (DCQCN, {
        "incast": "the fullest queue", "leave": "the one that is left",
        "two-links": "the fullest queue",
    }),
    "fixed": (FIXED, {"join": "all together", "leave": "messages that are done"}),
    "delay": (DELAY, {"incast": "Jain"}),
}  # fmt: skip
"""Other rules that are no answer, and what they lose."""

ANSWERS = {"encc_s_rule": ENCC, "fast_cnp_s_rule": FAST_CNP}
"""Other rules that get all marks."""
