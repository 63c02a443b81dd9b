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
#define TABLE_ID_DLB_CLASS              0x02000d01
#define TABLE_ID_DLB_GROUP              0x02000d02
#define TABLE_ID_DLB_HOP                0x02000d03
#define TABLE_ID_DLB_PORT               0x02000d04
#define TABLE_ID_DLB_MODE               0x02000d05
#define REGISTER_ID_DLB_TURNS           0x16000d01
#define REGISTER_ID_DLB_FLOWLETS        0x16000d02
#define REGISTER_ID_DLB_BUSY            0x16000d03
#define REGISTER_ID_DLB_BANDS           0x16000d04
#define REGISTER_ID_DLB_NEXT            0x16000d05
#define COUNTER_ID_DLB                  0x1200000b

#endif
