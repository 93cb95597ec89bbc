// Calls that are answered outside the loop: reflection, model metadata. A bounded queue to other threads and one back.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/http/http_request.h"
#include "transport/rpc/service.h"

namespace fastqps::transport {

enum class RareEvent : u8 { kMessage, kHalfClose, kGone };  // kGone: stop working on it; answers do nothing any more

struct RareCall {
  CallId call;
  u16 method;
  RareEvent event;
  std::string message;  // kMessage
  bool half_closed;     // the client has said all; of a stream more messages and kHalfClose may still follow
  struct Http {
    std::string query;
    std::vector<std::string> parameters;
  };
  std::optional<Http> http = {};  // of a plain call's message
};
struct RareAnswer {
  CallId call;
  std::optional<std::string> message;  // sent first, if there
  bool last;                           // then the call ends with the status
  StatusCode code;
  std::string status_message;
  HttpReply reply = {};  // of a plain call
};

class RareQueue {
 public:
  // wake_fd: an eventfd that wakes the loop, not owned.
  RareQueue(size_t capacity, int wake_fd) : capacity_(capacity), wake_fd_(wake_fd) {}

  // Any thread. Waits at most timeout_ms (< 0: for ever); nothing after close().
  std::optional<RareCall> pop(int timeout_ms);
  // Any thread.
  void answer(RareAnswer answer);
  // Any thread: pop() returns at once from now on.
  void close();

  // Loop only. False: full.
  bool push(RareCall call);
  // Loop only: what has been answered since the last time.
  std::vector<RareAnswer> take_answers();

 private:
  const size_t capacity_;
  const int wake_fd_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<RareCall> calls_;
  std::vector<RareAnswer> answers_;
  bool closed_ = false;
};

}  // namespace fastqps::transport
