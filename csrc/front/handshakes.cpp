#include "front/handshakes.h"

#include "front/door.h"

namespace fastqps::front {

// One is free, or becomes free: its client has had its time, and nothing of it is here.
bool Handshakes::has_place() {
  for (; !begun_.empty(); begun_.pop_front()) {
    const Begun oldest = begun_.front();
    Connection* connection = door_.find(oldest.connection);
    if (!connection || connection->dead() || !connection->greeting()) continue;
    if (under_way_ < door_.limits.handshakes) return true;
    if (!connection->keeps_us_waiting() || door_.turn_ns - oldest.ns < door_.limits.handshake_patience) return false;
    door_.counters.tls_dropped++;
    connection->kill();
  }
  return under_way_ < door_.limits.handshakes;
}

bool Handshakes::enter(const Connection& connection) {
  if (!waiting_.empty() || !has_place()) return waiting_.push_back(connection.id()), false;
  under_way_++;
  begun_.push_back({connection.id(), door_.turn_ns});
  return true;
}

void Handshakes::let_in() {
  while (!waiting_.empty()) {
    Connection* connection = door_.find(waiting_.front());
    if (connection && connection->waits_for_place()) {
      if (!has_place()) return;
      under_way_++;
      begun_.push_back({connection->id(), door_.turn_ns});
      connection->begin_handshake();
    }
    waiting_.pop_front();
  }
}

}  // namespace fastqps::front
