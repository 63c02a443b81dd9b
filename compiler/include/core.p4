// The core library of P4_16 (language specification, appendix "P4 core library").
// Declarations only: what they mean is built into the compiler and the target.

#ifndef _CORE_P4_
#define _CORE_P4_

// Parser errors. Their order is their number on the target.
error {
    NoError,                // nothing went wrong
    PacketTooShort,         // extract, lookahead or advance past the end of the packet
    NoMatch,                // no case of a select matched
    StackOutOfBounds,       // next or last beyond a header stack
    HeaderTooShort,         // more bits than the varbit field can hold
    ParserTimeout,          // the target's limit on parsing was reached
    ParserInvalidArgument   // a parser operation was given a value it can't handle
}

// How a table key is compared. Architectures add their own.
match_kind {
    exact,
    ternary,
    lpm
}

// The bits of a packet, read from the front by a parser.
extern packet_in {
    // Fill a header of fixed size and move on.
    void extract<T>(out T hdr);
    // Fill a header that has one varbit field, which takes the given number of bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // Read without moving on.
    T lookahead<T>();
    // Skip bits.
    void advance(in bit<32> sizeInBits);
    // Length of the whole packet in bytes; some targets have none.
    bit<32> length();
}

// The bits of a packet, written from the front by a deparser.
extern packet_out {
    // Append a header if it is valid, or every valid header of a stack, union or struct.
    void emit<T>(in T hdr);
}

// Go to the parser's reject state with the error unless the condition holds.
extern void verify(in bool check, in error toSignal);

// An action that changes nothing; the default action of tables that declare none.
@noWarn("unused")
action NoAction() {
}

// Checked while compiling.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
