// The v1model architecture, as BMv2's simple_switch implements it.
// Behaviour: behavioral-model docs/simple_switch.md. Since V1MODEL_VERSION 20200408 the index of
// arrays has a type of its own; programs choose by defining the macro before the include.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
#define _WEFT_INDEXED <I>
#define _WEFT_REGISTER_PARAMS <T, I>
#define _WEFT_INDEX I
typedef bit<9> PortId_t;
#define _WEFT_PORT PortId_t
#else
#define _WEFT_INDEXED
#define _WEFT_REGISTER_PARAMS <T>
#define _WEFT_INDEX bit<32>
#define _WEFT_PORT bit<9>
#endif

// ---------------------------------------------------------------- metadata

match_kind {
    range,      // low .. high
    optional,   // one value, or anything
    selector    // no match: an input of the action selector's hash
}

// @alias names the field of the target that stands behind ours.
@metadata
@name("standard_metadata")
struct standard_metadata_t {
    _WEFT_PORT ingress_port;
    _WEFT_PORT egress_spec;             // where ingress wants the packet to go
    _WEFT_PORT egress_port;             // where it goes, read in egress
    bit<32>    instance_type;           // 0 normal, 1 clone I2E, 2 clone E2E, 4 recirc, 5 replica, 6 resubmit
    bit<32>    packet_length;           // bytes
    @alias("queueing_metadata.enq_timestamp")
    bit<32>    enq_timestamp;           // microseconds
    @alias("queueing_metadata.enq_qdepth")
    bit<19>    enq_qdepth;              // packets
    @alias("queueing_metadata.deq_timedelta")
    bit<32>    deq_timedelta;           // microseconds spent in the queue
    @alias("queueing_metadata.deq_qdepth")
    bit<19>    deq_qdepth;              // packets
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48>    ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48>    egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp")
    bit<16>    mcast_grp;
    @alias("intrinsic_metadata.egress_rid")
    bit<16>    egress_rid;
    bit<1>     checksum_error;          // 1 after a failed verify_checksum
    error      parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3>     priority;
}

// ---------------------------------------------------------------- stateful objects

enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

// An array of counters. An index past the end counts nothing.
extern counter _WEFT_INDEXED {
    counter(bit<32> size, CounterType type);
    void count(in _WEFT_INDEX index);
}

// A counter for each entry of the table that names it in `counters`.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

// An array of two-rate three-colour meters; the result is one of V1MODEL_METER_COLOR_*.
extern meter _WEFT_INDEXED {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in _WEFT_INDEX index, out T result);
}

// A meter for each entry of the table that names it in `meters`.
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

// An array of cells that survive the packet.
extern register _WEFT_REGISTER_PARAMS {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in _WEFT_INDEX index);
    void write(in _WEFT_INDEX index, in T value);
}

// Values of the table property `implementation`: entries share members, or choose among a
// group's members by a hash of the keys of kind `selector`.
extern action_profile {
    action_profile(bit<32> size);
}

enum HashAlgorithm {
    crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// ---------------------------------------------------------------- functions

// Uniform in lo .. hi, both included.
extern void random<T>(out T result, in T lo, in T hi);

// Send values to the control plane; the receiver is ignored by the target.
extern void digest<T>(in bit<32> receiver, in T data);

@deprecated("give it the standard metadata: mark_to_drop(standard_metadata)")
extern void mark_to_drop();

// Sets egress_spec to the drop port and mcast_grp to 0; later assignments may undo it.
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

// base + hash(data) mod max; a max of 0 gives base.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

@deprecated("use verify_checksum and update_checksum")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

// In the VerifyChecksum control: sets checksum_error unless the condition is false.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum,
                                               HashAlgorithm algo);

// In the ComputeChecksum control: writes the checksum unless the condition is false.
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum,
                                  HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum,
                                               HashAlgorithm algo);

enum CloneType { I2E, E2E }

// Copies and second rounds. The *_preserving_field_list forms keep the metadata fields that carry
// @field_list(index); the others keep none.
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate_preserving_field_list(bit<8> index);

@deprecated("use resubmit_preserving_field_list")
extern void resubmit<T>(in T data);
@deprecated("use recirculate_preserving_field_list")
extern void recirculate<T>(in T data);
@deprecated("use clone_preserving_field_list")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

// Cut the packet that leaves to so many bytes.
extern void truncate(in bit<32> length);

// Stop the target where the condition is false. `assume` states what tools may take for granted.
extern void assert(in bool check);
extern void assume(in bool check);

// A line in the target's log; {} stands for the members of data in turn.
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// ---------------------------------------------------------------- the pipeline
// H: a struct of headers, stacks and unions. M: a struct.

parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta,
                    inout standard_metadata_t standard_metadata);

control VerifyChecksum<H, M>(inout H hdr, inout M meta);

@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);

@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);

control ComputeChecksum<H, M>(inout H hdr, inout M meta);

@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p, VerifyChecksum<H, M> vr, Ingress<H, M> ig, Egress<H, M> eg,
                       ComputeChecksum<H, M> ck, Deparser<H> dep);

#undef _WEFT_INDEXED
#undef _WEFT_REGISTER_PARAMS
#undef _WEFT_INDEX
#undef _WEFT_PORT

#endif
