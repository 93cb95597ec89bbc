#include "transport/standard/health.h"

#include <algorithm>

namespace fastqps::transport {

void Health::add_methods(MethodTable& methods) {
  methods.add({"/grpc.health.v1.Health/Check", MethodKind::kUnary, &check_, MethodRole::kProbe});
  methods.add({"/grpc.health.v1.Health/Watch", MethodKind::kServerStream, &watch_, MethodRole::kProbe});
  methods.add({"/grpc.health.v1.Health/List", MethodKind::kUnary, &list_, MethodRole::kProbe});
}

// HealthCheckRequest { string service = 1 }. False: the call has ended, because the message is not one.
bool Health::read_request(CallId call, std::span<const u8> message, std::string_view& service) {
  WireReader in({reinterpret_cast<const char*>(message.data()), message.size()});
  while (!in.done()) {
    u32 tag;
    if (in.tag(&tag) && (tag == length_tag(1) ? in.bytes(&service) : in.skip(tag, kWireDepthMax))) continue;
    transport_.finish(call, {.code = StatusCode::kInvalidArgument, .message = "not a HealthCheckRequest"});
    return false;
  }
  return true;
}

void Health::check(CallId call, const CallInfo&, std::span<const u8> message) {
  std::string_view service;
  if (!read_request(call, message, service)) return;
  const Serving serving = state_of(service);
  if (serving == Serving::kServiceUnknown)
    return transport_.finish(call, {.code = StatusCode::kNotFound, .message = "unknown service"});
  send_state(call, serving);
  transport_.finish(call);
}

void Health::watch(CallId call, const CallInfo& info, std::span<const u8> message) {
  constexpr size_t kNameBytes = 256;
  std::string_view service;
  if (!read_request(call, message, service)) return;
  if (service.size() > kNameBytes)
    return transport_.finish(call, {.code = StatusCode::kInvalidArgument, .message = "service: over 256 bytes"});
  const auto own = std::count_if(watchers_.begin(), watchers_.end(),
                                 [&](const Watcher& watcher) { return watcher.connection == info.connection; });
  if (!take_standing(transport_, call, "health watches", u32(own), u32(watchers_.size()), limit_)) return;
  const Serving serving = state_of(service);
  watchers_.push_back({call, info.connection, std::string(service), serving});
  send_state(call, serving);
  if (down_) end_watch(call);
}

// HealthListResponse { map<string, HealthCheckResponse> statuses = 1 }
void Health::list(CallId call, const CallInfo&, std::span<const u8>) {
  constexpr size_t kNameBytes = 100, kHeads = 6;
  u8* const begin = transport_.begin_message(call, entries_.size() * (kHeads + kNameBytes + kStateBytes));
  if (!begin) return;
  WireWriter out(begin);
  for (const Entry& entry : entries_) {
    const std::string_view name = std::string_view(entry.service).substr(0, kNameBytes);
    out.head(1, delimited_size(name.size()) + delimited_size(kStateBytes));
    out.head(1, name.size());
    out.raw(name.data(), name.size());
    out.head(2, kStateBytes);
    write_state(out, state_of(entry.service));
  }
  transport_.commit_message(call, size_t(out.end() - begin));
  transport_.finish(call);
}

void Health::probe(CallId call, const CallInfo&, std::span<const u8>) {
  const bool serves = state_of("") == Serving::kServing;
  transport_.finish(
      call, serves ? Status{} : Status{.code = StatusCode::kUnavailable, .message = "the server is not serving"});
}

// HealthCheckResponse { ServingStatus status = 1 }, which is written also where it is 0.
void Health::write_state(WireWriter& out, Serving serving) {
  const u8 bytes[kStateBytes] = {u8(varint_tag(1)), u8(serving)};
  out.raw(bytes, sizeof bytes);
}

void Health::send_state(CallId call, Serving serving) {
  u8* at = transport_.begin_message(call, kStateBytes);
  if (!at) return;
  WireWriter out(at);
  write_state(out, serving);
  transport_.commit_message(call, kStateBytes);
}

Serving Health::state_of(std::string_view service) const {
  for (const Entry& entry : entries_)
    if (entry.service == service) return down_ ? Serving::kNotServing : entry.serving;
  return Serving::kServiceUnknown;
}

void Health::set(std::string_view service, Serving serving) {
  const auto known =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.service == service; });
  if (known != entries_.end()) {
    known->serving = serving;
  } else if (entries_.size() < kServices) {
    entries_.push_back({std::string(service), serving});
  }
  notify();
}

void Health::set_all(const MethodTable& methods, Serving serving) {
  set("", serving);
  for (const MethodRow& row : methods.all()) set(service_of(row), serving);
}

void Health::shut_down() {
  down_ = true;
  notify();
}

// A watcher whose client does not read gets the latest state when it does, not each one in between.
void Health::notify() {
  for (size_t i = 0; i < watchers_.size(); i++) {
    const Serving serving = state_of(watchers_[i].service);
    if (serving == watchers_[i].reported || !transport_.writable(watchers_[i].call)) continue;
    watchers_[i].reported = serving;
    send_state(watchers_[i].call, serving);
  }
}

void Health::end_watch(CallId call) {
  forget(call);
  transport_.finish(call, {.code = StatusCode::kUnavailable, .message = "the server is closing this connection"});
}

void Health::forget(CallId call) {
  std::erase_if(watchers_, [&](const Watcher& watcher) { return watcher.call == call; });
}

}  // namespace fastqps::transport
