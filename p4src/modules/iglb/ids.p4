// Ids of iGLB's actions, tables and counters, as include/ids.p4 describes them.

#ifndef WEFT_IGLB_IDS_P4
#define WEFT_IGLB_IDS_P4

// iglb (0e)
#define ACTION_ID_FOLLOW_PLAN           0x01000e01
#define ACTION_ID_IGNORE_PLANS          0x01000e02
#define ACTION_ID_PIN_FLOW              0x01000e03
#define ACTION_ID_SKIP_PIN              0x01000e04
#define ACTION_ID_USE_PINNED_PORT       0x01000e05
#define ACTION_ID_EXPECT_PINS           0x01000e06
#define ACTION_ID_SKIP_SOURCE_PORT      0x01000e07
#define TABLE_ID_IGLB_PLAN              0x02000e01
#define TABLE_ID_IGLB_PIN               0x02000e02
#define TABLE_ID_IGLB_PORT              0x02000e03
#define TABLE_ID_IGLB_SOURCE            0x02000e04
#define SELECTOR_ID_IGLB_PORTS          0x11000e01
#define COUNTER_ID_IGLB                 0x1200000c
#define DIRECT_COUNTER_ID_IGLB_PINS     0x13000002

#endif
