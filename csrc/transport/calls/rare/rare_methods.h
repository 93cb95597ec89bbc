// Methods whose calls are answered outside the loop: each event of a call goes into the rare queue, and the answers
// come back through it.
#pragma once
#include <deque>

#include "transport/calls/rare/rare_queue.h"
#include "transport/http/http_error.h"
#include "transport/rpc/methods.h"
#include "transport/rpc/service.h"

namespace fastqps::transport {

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
