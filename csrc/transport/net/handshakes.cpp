#include "transport/net/handshakes.h"

#include "transport/net/net_state.h"

namespace fastqps::transport {

namespace {
constexpr int kLooksMax = 64;  // at those whose time is over, in one turn
}

// The more connections wait, the less time each handshake has. With a fixed time, places would be freed at a fixed
// rate, and clients that abandon handshakes faster would block all others.
u64 Handshakes::patience() const {
  const Limits& limits = net_.limits;
  return limits.handshake_patience / (limits.handshakes + waiters_) * limits.handshakes;
}

// Not while bytes of it are here that we have not looked at: but then the next look is its last.
bool Handshakes::has_had_its_time(Entry& oldest, const Connection& connection) {
  if (oldest.reprieved_at && connection.handshake_steps() != oldest.reprieved_at) return true;
  if (!connection.has_input()) return true;
  oldest.reprieved_at = connection.handshake_steps();
  return false;
}

// One is free, or becomes free: its client has had its time.
bool Handshakes::has_place() {
  for (int looks = 0; !answered_.empty() && looks < kLooksMax; answered_.pop_front()) {
    Entry oldest = answered_.front();
    Connection* connection = net_.connections.find(oldest.connection);
    if (!connection || connection->closed() || !connection->handshaking()) continue;
    if (under_way_ < net_.limits.handshakes) return true;
    if (net_.turn.ns - oldest.ns < patience()) return false;
    looks++;
    if (has_had_its_time(oldest, *connection)) {
      net_.counters.tls_dropped++;
      connection->kill();
    } else {
      oldest.ns = net_.turn.ns;
      answered_.push_back(oldest);
    }
  }
  return under_way_ < net_.limits.handshakes;
}

bool Handshakes::enter(const Connection& connection) {
  if (waiters_ || !has_place()) {
    waiting_.push_back({connection.id(), net_.turn.ns});
    waiters_++;
    return false;
  }
  under_way_++;
  return true;
}

void Handshakes::answered(const Connection& connection) { answered_.push_back({connection.id(), net_.turn.ns}); }

// Takes them in turn. If the wait is so long that clients give up, the newest comes first, because it is still there
// and most others are not.
void Handshakes::let_in() {
  const auto waits = [this](const Entry& entry) {
    const Connection* connection = net_.connections.find(entry.connection);
    return connection && connection->waits_for_place();
  };
  while (!waiting_.empty()) {
    if (!waits(waiting_.front())) {
      waiting_.pop_front();
      continue;
    }
    if (!has_place()) return;
    const bool late = net_.turn.ns - waiting_.front().ns > net_.limits.handshake_wait;
    const Entry next = late ? waiting_.back() : waiting_.front();
    late ? waiting_.pop_back() : waiting_.pop_front();
    if (!waits(next)) continue;
    under_way_++;
    net_.connections.find(next.connection)->begin_handshake();
  }
}

}  // namespace fastqps::transport
