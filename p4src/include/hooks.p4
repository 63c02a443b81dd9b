// Numbers of the places where mechanisms add to the program. mechanisms.p4 says what each is for.

#ifndef WEFT_HOOKS_P4
#define WEFT_HOOKS_P4

#define HOOK_PROFILE            1
#define HOOK_TYPES              2
#define HOOK_HEADERS            3
#define HOOK_METADATA           4
#define HOOK_METADATA_START     5
#define HOOK_UDP_PORTS          6
#define HOOK_PARSER_STATES      7
#define HOOK_DEPARSER           8
#define HOOK_CONTROLS           9
#define HOOK_INGRESS_INSTANCES  10
#define HOOK_INGRESS_BEGIN      11
#define HOOK_INGRESS_ADMITTED   12
#define HOOK_PATH_CHOICE        13
#define HOOK_INGRESS_FORWARDED  14
#define HOOK_EGRESS_INSTANCES   15
#define HOOK_EGRESS             16
#define HOOK_NOTIFICATION_BODIES    17
#define HOOK_BODY_DEPARSER          18
#define HOOK_NOTIFICATION_TAKEN     19
#define HOOK_EGRESS_END             20

#endif
