#include "transport/calls/rare_methods.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/http/http_routes.h"

namespace fastqps::transport {

std::optional<RareCall> RareQueue::pop(int timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto there = [this] { return closed_ || !calls_.empty(); };
  if (timeout_ms < 0) {
    ready_.wait(lock, there);
  } else {
    ready_.wait_for(lock, std::chrono::milliseconds(timeout_ms), there);
  }
  if (closed_ || calls_.empty()) return std::nullopt;
  RareCall call = std::move(calls_.front());
  calls_.pop_front();
  return call;
}

void RareQueue::answer(RareAnswer answer) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    answers_.push_back(std::move(answer));
  }
  const u64 one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);  // full: the loop is awake anyway
}

void RareQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  calls_.clear();
  ready_.notify_all();
}

bool RareQueue::push(RareCall call) {
  std::lock_guard lock(mutex_);
  // Only messages are refused. Of the two others there is at most one for each call whose message was taken.
  if (closed_ || (call.event == RareEvent::kMessage && calls_.size() >= capacity_)) return false;
  calls_.push_back(std::move(call));
  ready_.notify_one();
  return true;
}

std::vector<RareAnswer> RareQueue::take_answers() {
  std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

bool RareMethods::add(MethodTable& methods, std::string_view path, MethodKind kind, MethodRole role, u16 id) {
  RareMethod& method = methods_.emplace_back(*this, id);
  return methods.add({std::string(path), kind, &method, role});
}

bool RareMethods::add(HttpRoutes& routes, HttpVerb verb, std::string_view pattern, ErrorWriter errors, MethodRole role,
                      u16 id) {
  RareMethod& method = methods_.emplace_back(*this, id);
  return routes.add({verb, std::string(pattern), &method, role, kOther, errors});
}

void RareMethods::send_answers() {
  for (const RareAnswer& answer : queue_.take_answers()) {
    transport_.set_reply(answer.call, answer.reply);
    if (answer.message) {
      const std::string& message = *answer.message;
      if (u8* at = transport_.begin_message(answer.call, message.size())) {
        std::copy(message.begin(), message.end(), at);
        transport_.commit_message(answer.call, message.size());
      }
    }
    if (answer.last) transport_.finish(answer.call, {.code = answer.code, .message = answer.status_message});
  }
}

void RareMethods::RareMethod::push(RareCall call) {
  const CallId id = call.call;
  if (owner_.queue_.push(std::move(call))) return;
  owner_.transport_.finish(id, {.code = StatusCode::kResourceExhausted, .message = "too many calls of this kind wait"});
}

Took RareMethods::RareMethod::on_message(CallId call, std::span<const u8> message, const CallInfo& info) {
  RareCall event{call, id_, RareEvent::kMessage, std::string(message.begin(), message.end()), info.half_closed};
  if (const HttpRequest* http = info.http) {
    auto& [query, parameters] = event.http.emplace();
    query = http->query;
    for (u32 i = 0; i < http->parameter_count; i++) parameters.emplace_back(http->parameters[i]);
  }
  push(std::move(event));
  return Took::kAll;
}

void RareMethods::RareMethod::on_half_close(CallId call, const CallInfo& info) {
  push({call, id_, RareEvent::kHalfClose, {}, info.half_closed});
}

Gone RareMethods::RareMethod::on_gone(CallId call, u64) {
  owner_.queue_.push({call, id_, RareEvent::kGone, {}, true});
  return Gone::kReleased;
}

}  // namespace fastqps::transport
