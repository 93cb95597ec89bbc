#include "transport/calls/door_state.h"

#include <algorithm>

namespace fastqps::transport {

namespace {

constexpr u32 kUnreadAlways = 64 << 10;  // bytes of a connection, however many there are
constexpr u32 kCallsAlways = 8;          // of a connection, however many there are

}  // namespace

// The last quarter of the calls is reserved for connections below their share. So a few clients that open all their
// streams, and then neither send nor read, do not keep others out.
bool DoorState::may_open_call(u32 open_calls) const {
  const u32 used = calls.pool.used();
  return used < limits.calls - limits.calls / 4 ||
         open_calls < std::max(limits.calls / 4 / std::max(net.connections.open(), 1u), kCallsAlways);
}

u64 DoorState::too_old_ns(u64 accepted_ns) {
  const double jitter = 0.9 + 0.2 * (net.random() / 4294967296.0);
  const u64 age_ns = limits.settings.max_connection_age_ns;
  return age_ns ? accepted_ns + u64(double(age_ns) * jitter) : kNever;
}

bool DoorState::unread_too_much(u64 answer_bytes, u64 more) const {
  if (answer_bytes > 2 * u64(limits.answer_bytes)) return true;
  return unread_memory() + more > limits.unread_bytes &&
         answer_bytes + more > std::max<u64>(unread_share(), kUnreadAlways);
}

}  // namespace fastqps::transport
