/* The congestion-control algorithms: the one list. An algorithm is a header and a line here; its place is its bit in every set
 * of algorithms, so new ones come last.
 *
 * Without an include guard: to do something for each algorithm, define CC_ALGORITHM(name) and include this once more.
 * A header `name.h` is pure (no kernel calls, floating point, 128-bit or signed arithmetic; time in ns that never goes back),
 * says CC_ALGORITHM(name) behind its own guard if that is defined, and provides:
 *
 *     struct name_params { line_rate, min_rate; ... }  integers alone, rates in bits/s; rates stay within those two
 *     struct name { struct name_params params; weft_u64 rate; ... }  the state; `rate`: as of the last event or name_elapse
 *     enum { name_HEARS = 1 << CC_... | ... }          the kinds of events that it takes (cc_event.h)
 *     enum { name_WANTS = CC_... | ... }               what the card is to do for it: CC_WINDOW, CC_RTT, CC_TELEMETRY, CC_GRANTS,
 *                                                      CC_PATH, CC_PLANES; 0: nothing
 *     void name_init(struct name *, const struct name_params *, weft_u64 now)
 *     void name_on_event(struct name *, const struct cc_event *, const struct cc_telemetry *, weft_u64 now)
 *                                                      telemetry: NULL unless an acknowledgement brought some
 *     void name_elapse(struct name *, weft_u64 now)    applies what time alone has done
 *     weft_u64 name_rate_at(const struct name *, weft_u64 now)  the same on a copy: bits/s
 *     weft_u64 name_window_at(const struct name *, weft_u64 now)  bytes of payload that may be on the way, but one packet always may;
 *                                                      CC_NO_LIMIT: any number. Asked with CC_WINDOW alone. Time alone only widens it
 *     weft_u32 name_path_at(const struct name *, const struct cc_choice *, weft_u64 now)  CC_NO_PATH: it is left to others.
 *                                                      Of a slot that is one interface's: CC_SHUT, or CC_NO_PATH
 *     const char *name_invalid(const struct name_params *)  why parameters are refused, a literal; NULL: they are not
 */
#include "dcqcn.h"
#include "fast_cnp.h"
#include "dual_plane.h"
#include "encc.h"
#include "powertcp.h"
#include "swift.h"
#include "bolt.h"
