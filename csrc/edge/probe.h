// Asks one server, once, whether it would take an edge's items, and what it says of itself.
#pragma once
#include <string>

#include "edge/upstreams.h"

namespace fastqps::edge {

struct ProbeAnswer {
  UpstreamState state = UpstreamState::kConnecting;  // kServing: it would take them
  std::string reason;                                // of any other state
  // of kServing
  std::string server;  // its version of fastqps
  u32 max_input_tokens = 0, max_output_tokens = 0, max_inflight = 0;
  StepLoad load;
  u64 rtt_ns = 0;
};

// Blocks until the server has answered a hello and an echo, has refused, or timeout_ns have passed.
ProbeAnswer probe(const Target& target, const Terms& terms, upstream::CallSettings settings, u64 timeout_ns);

}  // namespace fastqps::edge
