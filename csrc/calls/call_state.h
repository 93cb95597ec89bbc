// What all HTTP/2 connections of a loop share: their calls, their memory, and the answers that wait.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "calls/call.h"
#include "grpc/inflate.h"
#include "calls/request.h"
#include "http2/callbacks.h"
#include "grpc/tokens.h"
#include "net/allocator.h"

namespace fastqps::front {

// Headers that answers carry, by HeaderId.
using AnswerHeaders = std::vector<std::pair<std::string, std::string>>;

struct Http2State {
  Http2State(const Limits& limits, int wake_fd)
      : calls(limits.calls),
        sessions(limits, allocator),
        inflate_worker(wake_fd, limits.message_bytes),
        inflate_buffer(std::make_unique<u8[]>(kInflatedInLoopBytes)) {}

  Allocator allocator;
  CallPool calls;
  SessionFactory sessions;
  Inflater inflater;
  InflateWorker inflate_worker;
  std::unique_ptr<u8[]> inflate_buffer;
  std::deque<Inflated> inflated;   // to be delivered
  std::vector<Received> received;  // in the current read
  u64 unread_bytes = 0;            // of all answers that nghttp2 has not taken
  AnswerHeaders headers{1};
  std::shared_ptr<const Tokens> tokens;  // nullptr: calls need none
};

}  // namespace fastqps::front
