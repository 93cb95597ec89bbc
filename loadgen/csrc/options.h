// What an engine is made with, and what a run is.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "types.h"

namespace loadgen {

enum class CallKind { kUnary, kServerStream };

struct Options {
  std::string host;  // name or address (IPv4, IPv6)
  u16 port = 0;
  std::string path;                                          // /package.Service/Method
  std::vector<std::pair<std::string, std::string>> headers;  // further ones, after the usual ones of gRPC; lower case
  bool tls = false;
  std::string tls_ca, tls_cert, tls_key;  // PEM texts; no tls_ca: whatever certificate the server shows will do
  std::vector<std::string> payloads;      // serialized messages without frames; empty bytes are a valid one
  u32 connections = 1;                    // in all; thread t has those with index % threads == t
  u32 streams = 100;                      // most calls open at a time per connection
  u32 threads = 1;                        // arrival i goes to thread i % threads
  CallKind call = CallKind::kUnary;
  i64 deadline_grace_ns = 100 * kMillisecond;  // beyond its deadline, until a call is given up
  i64 grace_ns = 5 * kSecond;                  // for calls that are open after the last arrival, or after stop()
  std::vector<std::string> expected;           // empty, or the right answer to each payload
  u32 samples_max = 0, sample_every = 97;      // keeps one in so many OK answers, at most kSampleBytesMax of them
  bool record_calls = false;                   // keeps the times of each measured call of an open loop: 24 bytes a call
  u64 answer_bytes_max = 16 << 20;
  i64 interval_ns = kSecond;
  i32 first_stream_id = 1;  // tests start near the end of the stream ids

  // What would break the engine, or an empty string. The command line checks the rest.
  std::string error() const {
    if (payloads.empty()) return "at least one payload is needed";
    if (threads < 1 || connections < threads) return "connections must be at least threads";
    if (!expected.empty() && expected.size() != payloads.size()) return "expected must have one entry per payload";
    if (interval_ns < kMillisecond) return "interval_ns must be at least 1,000,000";
    if (sample_every < 1) return "sample_every must be at least 1";
    return {};
  }
};

// One run. Instants count from its start. The spans' memory outlives it.
struct Load {
  bool closed = false;
  std::span<const i64> times;          // open loop
  std::span<const u32> payload_index;  // closed loop: used again and again
  i64 deadline = 0;                    // of each call; 0: none
  i64 measure_from = 0, measure_until = kNever;
  u32 in_flight = 0;  // closed loop, from here on
  i64 duration = 0;

  std::string error(const Options& options) const {
    if (std::any_of(payload_index.begin(), payload_index.end(), [&](u32 i) { return i >= options.payloads.size(); }))
      return "payload_index has a number that is no payload's";
    if (!closed) {
      if (payload_index.size() != times.size()) return "payload_index must be as long as times_ns";
      return std::is_sorted(times.begin(), times.end()) ? "" : "times_ns is not sorted";
    }
    if (payload_index.empty()) return "payload_index is empty";
    if (in_flight < options.connections) return "in_flight must be at least connections";
    return {};
  }
};

}  // namespace loadgen
