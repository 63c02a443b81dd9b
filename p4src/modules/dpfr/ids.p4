// Ids of DPFR's actions, tables, registers and counter, as include/ids.p4 describes them.

#ifndef WEFT_DPFR_IDS_P4
#define WEFT_DPFR_IDS_P4

// dpfr (0b)
#define ACTION_ID_ENABLE_DPFR               0x01000b01
#define ACTION_ID_DISABLE_DPFR              0x01000b02
#define ACTION_ID_SET_DPFR_WAY              0x01000b03
#define ACTION_ID_SKIP_DPFR_WAY             0x01000b04
#define ACTION_ID_SET_DPFR_PORT             0x01000b05
#define ACTION_ID_SKIP_DPFR_PORT            0x01000b06
#define ACTION_ID_SET_DPFR_BEHIND           0x01000b07
#define ACTION_ID_SKIP_DPFR_BEHIND          0x01000b08
#define ACTION_ID_SET_DPFR_CANDIDATES       0x01000b09
#define ACTION_ID_SKIP_DPFR_CANDIDATES      0x01000b0a
#define ACTION_ID_SET_DPFR_CHOSEN           0x01000b0b
#define ACTION_ID_SKIP_DPFR_CHOSEN          0x01000b0c
#define ACTION_ID_SET_DPFR_DESTINATION      0x01000b0d
#define ACTION_ID_SKIP_DPFR_DESTINATION     0x01000b0e
#define ACTION_ID_USE_DPFR_HOP              0x01000b0f
#define ACTION_ID_SKIP_DPFR_HOP             0x01000b10
#define TABLE_ID_DPFR_MODE                  0x02000b01
#define TABLE_ID_DPFR_WAY                   0x02000b02
#define TABLE_ID_DPFR_PORT                  0x02000b03
#define TABLE_ID_DPFR_BEHIND                0x02000b04
#define TABLE_ID_DPFR_CANDIDATES            0x02000b05
#define TABLE_ID_DPFR_CHOSEN                0x02000b06
#define TABLE_ID_DPFR_DESTINATION           0x02000b07
#define TABLE_ID_DPFR_HOP                   0x02000b08
#define REGISTER_ID_DPFR_CLOCK              0x16000b01
#define REGISTER_ID_DPFR_DOWN               0x16000b02
#define REGISTER_ID_DPFR_MASKS              0x16000b03
#define REGISTER_ID_DPFR_HEARD              0x16000b04
#define REGISTER_ID_DPFR_FAR                0x16000b05
#define REGISTER_ID_DPFR_BACK               0x16000b06
#define REGISTER_ID_DPFR_FLAPS              0x16000b07
#define REGISTER_ID_DPFR_TELLING            0x16000b08
#define REGISTER_ID_DPFR_CLAIMS             0x16000b09
#define REGISTER_ID_DPFR_TOLD               0x16000b0a
#define REGISTER_ID_DPFR_COMPLAINTS         0x16000b0b
#define REGISTER_ID_DPFR_SENT               0x16000b0c
#define REGISTER_ID_DPFR_RECEIVED           0x16000b0d
#define REGISTER_ID_DPFR_COMPARED           0x16000b0e
#define REGISTER_ID_DPFR_LOSSES             0x16000b0f
#define REGISTER_ID_DPFR_DEGRADED           0x16000b10
#define REGISTER_ID_DPFR_MENDING            0x16000b11
#define REGISTER_ID_DPFR_LOSSY              0x16000b12
#define REGISTER_ID_DPFR_LOSSY_CLAIMS       0x16000b13
#define REGISTER_ID_DPFR_WARNING            0x16000b14
#define REGISTER_ID_DPFR_WARNED             0x16000b15
#define ACTION_ID_SET_DPFR_LINK             0x01000b20
#define ACTION_ID_SKIP_DPFR_LINK            0x01000b21
#define TABLE_ID_DPFR_LINK                  0x02000b20
#define REGISTER_ID_DPFR_DARK               0x16000b20
#define REGISTER_ID_DPFR_SENDERS            0x16000b21
#define REGISTER_ID_DPFR_SENDERS_TOLD       0x16000b22
#define COUNTER_ID_DPFR                     0x12000009

#endif
