// The shared state of all calls of a loop, for every protocol: their memory, and waiting messages and answers.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/calls/call.h"
#include "transport/calls/request.h"
#include "transport/framing/inflate.h"
#include "transport/net/allocator.h"
#include "transport/net/limits.h"
#include "transport/rpc/caller.h"
#include "transport/rpc/tokens.h"

namespace fastqps::transport {

// Headers that answers carry, by HeaderId.
using AnswerHeaders = std::vector<std::pair<std::string, std::string>>;

// Of a call whose headers say who calls.
struct CallerRow {
  CallNames* names = nullptr;  // nullptr: they name neither tenant nor group
  u32 token = 0;               // Caller::token
};

struct CallState {
  CallState(const Limits& limits, int wake_fd)
      : pool(limits.calls),
        inflate_worker(wake_fd, limits.settings.max_message_bytes),
        inflate_buffer(std::make_unique<u8[]>(kInflatedInLoopBytes)) {}

  Allocator allocator;
  CallPool pool;
  Inflater inflater;
  InflateWorker inflate_worker;
  std::unique_ptr<u8[]> inflate_buffer;
  std::deque<Inflated> inflated;   // to be delivered
  std::vector<Received> received;  // in the current read
  u64 answer_memory = 0;           // of all messages that the protocols have not taken, begun ones included
  AnswerHeaders headers{1};
  std::vector<CallerRow> callers;                // by Call::index, as far as a call has needed one
  std::string tenant_header = "fastqps-tenant";  // in lower case; empty: calls name no tenants
  std::shared_ptr<const Tokens> tokens;          // nullptr: calls need none
};

}  // namespace fastqps::transport
