// Ids of fast CNP's actions, tables, registers and counter, as include/ids.p4 describes them.

#ifndef WEFT_FAST_CNP_IDS_P4
#define WEFT_FAST_CNP_IDS_P4

// fast CNP (08)
#define ACTION_ID_WATCH_QUEUE               0x01000801
#define ACTION_ID_SKIP_QUEUE                0x01000802
#define ACTION_ID_WATCH_FAR_QUEUE           0x01000803
#define ACTION_ID_NOTIFY_SOURCE             0x01000804
#define ACTION_ID_SEND_PLAIN_CNP            0x01000805
#define ACTION_ID_SKIP_SOURCE               0x01000806
#define ACTION_ID_SET_SOURCE_QP             0x01000807
#define ACTION_ID_SKIP_AMBIGUOUS_QP         0x01000808
#define ACTION_ID_SKIP_UNKNOWN_QP           0x01000809
#define ACTION_ID_CUT_TO_PART               0x0100080a
#define ACTION_ID_ENABLE_FAST_CNP           0x0100080b
#define ACTION_ID_DISABLE_FAST_CNP          0x0100080c
#define ACTION_ID_SKIP_CUT                  0x0100080d
#define ACTION_ID_ASK_QUEUE                 0x0100080e
#define ACTION_ID_SKIP_ASKING               0x0100080f
#define ACTION_ID_ASK_FAR_QUEUE             0x01000810
#define ACTION_ID_SKIP_FAR_QUEUE            0x01000811
#define TABLE_ID_FAST_CNP_QUEUE             0x02000801
#define TABLE_ID_FAST_CNP_FAR               0x02000802
#define TABLE_ID_FAST_CNP_SOURCE            0x02000803
#define TABLE_ID_STOCK_QUEUE_PAIRS          0x02000804
#define TABLE_ID_FAST_CNP_CUT               0x02000805
#define TABLE_ID_FAST_CNP_MODE              0x02000806
#define TABLE_ID_FAST_CNP_CLAIMS            0x02000807
#define TABLE_ID_FAST_CNP_FAR_CLAIMS        0x02000808
#define REGISTER_ID_WINDOW_BYTES            0x16000801
#define REGISTER_ID_WINDOW_BEGINS           0x16000802
#define REGISTER_ID_WINDOW_DEPTHS           0x16000803
#define REGISTER_ID_RATES                   0x16000804
#define REGISTER_ID_NEXT_CNPS               0x16000805
#define REGISTER_ID_SEQUENCES               0x16000806
#define REGISTER_ID_FLOWS_A                 0x16000807
#define REGISTER_ID_FLOWS_B                 0x16000808
#define REGISTER_ID_FAR_BYTES               0x16000809
#define REGISTER_ID_FAR_TIMES               0x1600080a
#define REGISTER_ID_BASES                   0x1600080b
#define REGISTER_ID_BASE_TIMES              0x1600080c
#define REGISTER_ID_LOWEST_DEPTHS           0x1600080d
#define REGISTER_ID_LOOPS                   0x1600080e
#define REGISTER_ID_LOOP_TIMES              0x1600080f
#define REGISTER_ID_BYTES_A                 0x16000810
#define REGISTER_ID_BYTES_B                 0x16000811
#define REGISTER_ID_SPANS                   0x16000812
#define COUNTER_ID_FAST_CNPS                0x12000007

// queue pair samples (09)
#define ACTION_ID_SAMPLE_HOST               0x01000901
#define ACTION_ID_SKIP_HOST                 0x01000902
#define ACTION_ID_ACCEPT_SENDER             0x01000903
#define ACTION_ID_SKIP_SENDER               0x01000904
#define TABLE_ID_QUEUE_PAIR_PORT            0x02000901
#define TABLE_ID_STOCK_NICS                 0x02000902
#define REGISTER_ID_SIGHTINGS               0x16000901

#endif
