// Calls that are answered outside the loop: reflection, model metadata. Each event of such a call goes into a bounded
// queue to other threads, and the answers come back through it.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/http/http_request.h"
#include "transport/rpc/method.h"
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

class RareMethods {
 public:
  // wake_fd: an eventfd that wakes the loop, not owned.
  RareMethods(Transport& transport, size_t capacity, int wake_fd) : transport_(transport), queue_(capacity, wake_fd) {}

  // Before the loop starts. role: kControl or kText. id: what the queue calls the method. False: as MethodTable::add().
  bool add(MethodTable& methods, std::string_view path, MethodKind kind, MethodRole role, u16 id);
  // The same of a route of plain HTTP. errors: writes the refusals of the transport.
  bool add(HttpRoutes& routes, HttpVerb verb, std::string_view pattern, ErrorWriter errors, MethodRole role, u16 id);
  // Sends what has been answered since the last time.
  void send_answers();
  RareQueue& queue() { return queue_; }

 private:
  class RareMethod final : public Method {
   public:
    RareMethod(RareMethods& owner, u16 id) : owner_(owner), id_(id) {}
    Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override;
    void on_half_close(CallId call, const CallInfo& info) override;
    Gone on_gone(CallId call, u64) override;

   private:
    void push(RareCall call);

    RareMethods& owner_;
    const u16 id_;
  };

  Transport& transport_;
  RareQueue queue_;
  std::deque<RareMethod> methods_;
};

}  // namespace fastqps::transport
