// Ids of load balancing's actions, tables, registers and counter, as include/ids.p4 describes them.

#ifndef WEFT_DLB_IDS_P4
#define WEFT_DLB_IDS_P4

// dlb (0d)
#define ACTION_ID_SET_BALANCE           0x01000d01
#define ACTION_ID_SKIP_BALANCE          0x01000d02
#define ACTION_ID_SET_DLB_GROUP         0x01000d03
#define ACTION_ID_SKIP_DLB_GROUP        0x01000d04
#define ACTION_ID_USE_DLB_HOP           0x01000d05
#define ACTION_ID_SKIP_DLB_HOP          0x01000d06
#define ACTION_ID_SET_DLB_PORT          0x01000d07
#define ACTION_ID_SKIP_DLB_PORT         0x01000d08
#define ACTION_ID_WEIGH_PORTS           0x01000d09
#define ACTION_ID_SKIP_DLB_MODE         0x01000d0a
#define ACTION_ID_REPORT_PATHS          0x01000d0b
#define ACTION_ID_SKIP_REPORTS          0x01000d0c
#define ACTION_ID_SET_GLB_PORT          0x01000d0d
#define ACTION_ID_SKIP_GLB_PORT         0x01000d0e
#define ACTION_ID_SET_GLB_NEIGHBOUR     0x01000d0f
#define ACTION_ID_SKIP_GLB_NEIGHBOUR    0x01000d10
#define ACTION_ID_SET_GLB_LEAF          0x01000d11
#define ACTION_ID_SKIP_GLB_LEAF         0x01000d12
#define ACTION_ID_TAKE_SHARE            0x01000d13
#define ACTION_ID_SKIP_SHARE            0x01000d14
#define ACTION_ID_SET_WEIGHTED_BALANCE  0x01000d15
#define TABLE_ID_DLB_CLASS              0x02000d01
#define TABLE_ID_DLB_GROUP              0x02000d02
#define TABLE_ID_DLB_HOP                0x02000d03
#define TABLE_ID_DLB_PORT               0x02000d04
#define TABLE_ID_DLB_MODE               0x02000d05
#define TABLE_ID_GLB_MODE               0x02000d06
#define TABLE_ID_GLB_PORT               0x02000d07
#define TABLE_ID_GLB_NEIGHBOUR          0x02000d08
#define TABLE_ID_GLB_LEAF               0x02000d09
#define TABLE_ID_DLB_SHARE              0x02000d0a
#define REGISTER_ID_DLB_TURNS           0x16000d01
#define REGISTER_ID_DLB_FLOWLETS        0x16000d02
#define REGISTER_ID_DLB_BUSY            0x16000d03
#define REGISTER_ID_DLB_BANDS           0x16000d04
#define REGISTER_ID_DLB_NEXT            0x16000d05
#define REGISTER_ID_GLB_HEARD           0x16000d06
#define REGISTER_ID_GLB_WHEN            0x16000d07
#define REGISTER_ID_GLB_WORSE           0x16000d08
#define REGISTER_ID_GLB_BEST            0x16000d09
#define REGISTER_ID_GLB_SAID            0x16000d0a
#define REGISTER_ID_GLB_TURN            0x16000d0b
#define REGISTER_ID_GLB_LEFT            0x16000d0c
#define REGISTER_ID_GLB_WAITS           0x16000d0d
#define REGISTER_ID_GLB_SILENT          0x16000d0e
#define COUNTER_ID_DLB                  0x1200000b

#endif
