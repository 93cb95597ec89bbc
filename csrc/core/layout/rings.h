// The rings of a segment: of hints between front doors and dispatchers (ring.h), of busy intervals, and of traces.
// In brackets: who writes a word (layout.h).
#pragma once
#include "core/layout/limits.h"

namespace fastqps {

// The newest intervals in which a dispatcher's device ran a step. The supervisor computes their union over dispatchers.
struct alignas(64) BusyRing {
  std::atomic<u64> count;  // [d] entries written so far
  struct Entry {
    std::atomic<u64> start_ns, end_ns;
  };
  alignas(64) Entry entry[kBusyEntries];  // [d] entry i at i % kBusyEntries, before the count says so
};

// A traced call that has ended, or an item of a call with many. The supervisor turns records into spans.
inline constexpr u32 kTraceEntries = 128;  // read five times a second; records without room are dropped and counted
inline constexpr u16 kTraceUnknown = 0xffff;
enum class TraceKind : u8 { kCall = 0, kItem = 1 };
inline constexpr u8 kTraceSpans = 1, kTraceLine = 2;  // what becomes of a record: spans, a line of the access log
struct TraceRecord {
  u8 trace_id[16];
  u8 parent_id[8];  // of the client's span, or of the call that this is an item of; all 0: of none
  u8 span_id[8];
  u64 at_ns[kStages + 1];  // stage k from at_ns[k] to at_ns[k + 1]; 0: it was not reached
  u32 items;               // of a call
  u32 input_tokens, output_tokens;
  u32 batch_items;        // how many shared its batch; 0: not known
  u16 model, dispatcher;  // kTraceUnknown: none
  TraceKind kind;
  u8 method;  // Rpc
  u8 code;    // gRPC's
  u8 uses;    // kTraceSpans, kTraceLine; 0: an edge only passes the client's span on
  u16 state_bytes;
  char state[kTraceStateBytes];  // the client's tracestate
};

// The records of one front door, on their way to the supervisor.
struct alignas(64) TraceRing {
  std::atomic<u64> tail;              // [D]
  std::atomic<u64> dropped_spans;     // [D] all incarnations
  std::atomic<u64> dropped_lines;     // [D] the same of the access log
  alignas(64) std::atomic<u64> head;  // [S]
  TraceRecord record[kTraceEntries];  // [D] record i at i % kTraceEntries, before the tail says so
};

// Rings have positions of 64 bits that never wrap, and 2 × slots entries.
struct alignas(64) RingLine {
  std::atomic<u64> tail;              // producer
  alignas(64) std::atomic<u64> head;  // consumer; of a request ring by compare-and-swap
  alignas(64) std::atomic<u64> entry[1];
};

}  // namespace fastqps
