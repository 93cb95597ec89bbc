#include "transport/calls/rare/rare_methods.h"

#include <algorithm>
#include <utility>

#include "transport/http/http_routes.h"

namespace fastqps::transport {

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
