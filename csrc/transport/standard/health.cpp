#include "transport/standard/health.h"

#include <algorithm>

namespace fastqps::transport {

namespace {

constexpr u32 kStatusField = 1 << 3, kLengthField = 1 << 3 | 2, kSecondLengthField = 2 << 3 | 2;

// HealthCheckRequest { string service = 1 }. False: not a protobuf message, or a string that is too long.
bool parse_request(std::span<const u8> message, std::string_view& service) {
  const u8 *at = message.data(), *const end = at + message.size();
  const auto varint = [&](u64& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      value |= u64(*at & 0x7f) << shift;
      if (!(*at++ & 0x80)) return true;
    }
    return false;
  };
  while (at < end) {
    u64 tag = 0, value = 0;
    if (!varint(tag) || tag < 8) return false;
    u64 skipped = 0;
    switch (tag & 7) {
      case 0:
        if (!varint(value)) return false;
        break;
      case 1:
        skipped = 8;
        break;
      case 2:
        if (!varint(skipped)) return false;
        break;
      case 5:
        skipped = 4;
        break;
      default:
        return false;
    }
    if (skipped > u64(end - at)) return false;
    if (tag == kLengthField) service = {reinterpret_cast<const char*>(at), size_t(skipped)};
    at += skipped;
  }
  return true;
}

}  // namespace

void Health::add_methods(MethodTable& methods) {
  methods.add({"/grpc.health.v1.Health/Check", MethodKind::kUnary, &check_, MethodRole::kProbe});
  methods.add({"/grpc.health.v1.Health/Watch", MethodKind::kServerStream, &watch_, MethodRole::kProbe});
  methods.add({"/grpc.health.v1.Health/List", MethodKind::kUnary, &list_, MethodRole::kProbe});
}

Took Health::HealthMethod::on_message(CallId call, std::span<const u8> message, const CallInfo& info) {
  std::string_view service;
  if (parse_request(message, service)) {
    (health_.*answer_)(call, info.connection, service);
  } else {
    health_.transport_.finish(call, {.code = StatusCode::kInvalidArgument, .message = "not a HealthCheckRequest"});
  }
  return Took::kAll;
}

Took Health::ProbeMethod::on_message(CallId call, std::span<const u8>, const CallInfo&) {
  const bool serves = health_.state_of("") == Serving::kServing;
  health_.transport_.finish(
      call, serves ? Status{} : Status{.code = StatusCode::kUnavailable, .message = "the server is not serving"});
  return Took::kAll;
}

void Health::check(CallId call, ConnectionId, std::string_view service) {
  const Serving serving = state_of(service);
  if (serving == Serving::kServiceUnknown)
    return transport_.finish(call, {.code = StatusCode::kNotFound, .message = "unknown service"});
  send_state(call, serving);
  transport_.finish(call);
}

void Health::watch(CallId call, ConnectionId connection, std::string_view service) {
  constexpr size_t kNameBytes = 256;
  if (service.size() > kNameBytes)
    return transport_.finish(call, {.code = StatusCode::kInvalidArgument, .message = "service: over 256 bytes"});
  const auto own = std::count_if(watchers_.begin(), watchers_.end(),
                                 [&](const Watcher& watcher) { return watcher.connection == connection; });
  if (!take_standing(transport_, call, "health watches", u32(own), u32(watchers_.size()), limit_)) return;
  const Serving serving = state_of(service);
  watchers_.push_back({call, connection, std::string(service), serving});
  send_state(call, serving);
  if (down_) end_watch(call);
}

// HealthListResponse { map<string, HealthCheckResponse> statuses = 1 }
void Health::list(CallId call, ConnectionId, std::string_view) {
  std::string out;
  for (const Entry& entry : entries_) {
    const size_t name = std::min<size_t>(entry.service.size(), 100);
    out += char(kLengthField), out += char(2 + name + 4);
    out += char(kLengthField), out += char(name), out.append(entry.service, 0, name);
    out += char(kSecondLengthField), out += char(2), out += char(kStatusField), out += char(state_of(entry.service));
  }
  u8* at = transport_.begin_message(call, out.size());
  if (!at) return;
  std::copy(out.begin(), out.end(), at);
  transport_.commit_message(call, out.size());
  transport_.finish(call);
}

// HealthCheckResponse { ServingStatus status = 1 }
void Health::send_state(CallId call, Serving serving) {
  u8* at = transport_.begin_message(call, 2);
  if (!at) return;
  at[0] = kStatusField, at[1] = u8(serving);
  transport_.commit_message(call, 2);
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
