// The states and counts of the servers that an edge's dispatcher sends steps to, for metrics and pages.
#pragma once
#include "core/layout/histogram.h"
#include "core/layout/shared_text.h"

namespace fastqps {

inline constexpr u32 kUpstreamRows = 64;  // of one dispatcher; further servers are used, but not shown

enum class UpstreamState : u32 {
  kNone = 0,    // the row is free
  kConnecting,  // or waiting to connect again
  kServing,
  kSuspended,  // it did not answer in time: nothing but copies is sent until it answers
  kDraining,   // it takes no more
  kMismatch,   // it serves another version, or speaks another protocol
  kRefused,    // it does not let this edge in: TLS, token
};
inline constexpr const char* kUpstreamStateNames[] = {"none",     "connecting", "serving", "suspended",
                                                      "draining", "mismatch",   "refused"};

// All words [d], by the dispatcher whose table it is.
struct alignas(64) UpstreamRow {
  SharedText<64> name;     // HOST:PORT, as it was resolved
  SharedText<256> reason;  // of a state in which nothing is sent, in words
  std::atomic<UpstreamState> state;
  std::atomic<u32> in_flight, window;       // items: unanswered, and how many may be
  std::atomic<u32> utilization_thousandth;  // of its capacity, as it says
  std::atomic<u32> waiting, running;        // items, as it says
  std::atomic<u64> rtt_ns;                  // of the newest echo
  std::atomic<u64> heard_ns;                // when its newest message came
  // since the row has its name
  std::atomic<u64> sent, answered;  // items
  std::atomic<u64> refused;         // items that it did not take
  std::atomic<u64> lost;            // items that it had when its connection ended
  std::atomic<u64> connects, bytes_out, bytes_in;
};

struct alignas(64) UpstreamTable {
  std::atomic<u64> resent;        // items, to another server or again to the same
  std::atomic<u64> unroutable;    // items that ended UNAVAILABLE because no server was left
  Histogram wire, queue, device;  // of a sample of items: not in the server; waiting there; on its device
  UpstreamRow row[kUpstreamRows];
};

}  // namespace fastqps
