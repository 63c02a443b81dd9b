// iGLB: the controller plans the path of every flow of the jobs that it is told of, and pins it. docs/iglb.md explains it.
//
//   a RoCE packet with several ways to go on  -> FollowPlan   takes the port that the plan has for its flow
//
// Pins are by version of the plan, and each switch is told which version it follows. So the pins of the next plan are
// written while the last one is in force, and one write takes the switch from one to the other.
//
// What stands above in mechanisms.p4 is overridden by a pin, and what stands below overrides it: a way around a dead path,
// say. A pin to the switch's own dead port is passed over without such, if the target knows of ports that are down: each
// pinned port is the only member of a group that watches it, as the members of ECMP groups do.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_IGLB 1
#endif
#ifdef WITH_IGLB
#ifndef IGLB_PINS
#define IGLB_PINS 16384         // two plans' flows at one switch
#endif
#endif

#elif defined(WITH_IGLB)
#if HOOK == HOOK_CONTROLS

#include "iglb/ids.p4"
#include "iglb/follow.p4"

#elif HOOK == HOOK_INGRESS_INSTANCES
    FollowPlan() follow_plan_of_jobs;

#elif HOOK == HOOK_PATH_CHOICE
            follow_plan_of_jobs.apply(hdr, meta, std);

#endif
#endif
