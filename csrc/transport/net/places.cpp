#include "transport/net/places.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "transport/net/net_state.h"

namespace fastqps::transport {

namespace {

constexpr u32 kSpareDescriptors = 64;
// Connections that are compared for one newcomer. The next newcomer's begin behind them, so that all are looked at.
constexpr u32 kLooks = 128;

u32 descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit)) return 1024;
  return u32(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

}  // namespace

// A quarter of the places is always left to other peers. The bound is high because a proxy is one peer too.
Places::Places(NetState& net) : net_(net) {
  const u32 descriptors = descriptor_limit();
  most_ = descriptors > 2 * kSpareDescriptors ? descriptors - kSpareDescriptors : kSpareDescriptors;
  if (net.limits.connections) most_ = std::min(most_, net.limits.connections);
  most_of_peer_ = std::max(most_ - most_ / 4, 1u);
}

bool Places::enter(const Peer& peer) {
  const auto own = peer.known() ? of_peer_.find(peer) : of_peer_.end();
  const bool too_many = own != of_peer_.end() && own->second >= most_of_peer_;
  if ((too_many && !make_room(&peer)) || (taken_ >= most_ && !make_room(nullptr))) {
    char text[160];
    std::snprintf(text, sizeof text, "a client of %s was refused: %u of %u connections are open, %u of them its own",
                  peer.text().c_str(), taken_, most_, own == of_peer_.end() ? 0 : own->second);
    return net_.hint(text), false;
  }
  taken_++;
  if (peer.known()) of_peer_[peer]++;
  return true;
}

void Places::leave(const Peer& peer) {
  taken_--;
  if (!peer.known()) return;
  const auto own = of_peer_.find(peer);
  if (!--own->second) of_peer_.erase(own);
}

// of: that peer's connections alone.
bool Places::make_room(const Peer* of) {
  Connection* connection = weakest(of);
  if (!connection) return false;
  const Peer& peer = connection->peer();
  char text[200];
  std::snprintf(text, sizeof text,
                "%u of %u connections are open: an idle one makes room for each new one. %s has %u of them", taken_,
                most_, peer.text().c_str(), peer.known() ? of_peer_[peer] : 0);
  net_.hint(text);
  net_.counters.made_room++;
  connection->make_room();
  return true;
}

Connection* Places::weakest(const Peer* of) {
  Connection* found = nullptr;
  PlaceClaim claim{PlaceClaim::Kind::kServed};
  const u32 indexes = net_.connections.places();
  for (u32 looks = 0, steps = 0; looks < kLooks && steps < indexes; steps++) {
    if (next_ >= indexes) next_ = 0;
    Connection* connection = net_.connections.at(next_++);
    if (!connection || connection->closed() || (of && connection->peer() != *of)) continue;
    looks++;
    const PlaceClaim own = connection->claim();
    if (own.kind == PlaceClaim::Kind::kServed || (found && !weaker(own, claim))) continue;
    found = connection;
    claim = own;
  }
  return found;
}

bool Places::weaker(const PlaceClaim& a, const PlaceClaim& b) const {
  const u32 rank_a = rank(a), rank_b = rank(b);
  return rank_a != rank_b ? rank_a < rank_b : a.since_ns < b.since_ns;
}

// One that has just come is the last to go, so that a flood of strangers does not keep out who is about to ask.
u32 Places::rank(const PlaceClaim& claim) const {
  const bool fresh =
      claim.kind == PlaceClaim::Kind::kStranger && claim.since_ns + net_.limits.stranger_patience > net_.turn.ns;
  return fresh ? u32(PlaceClaim::Kind::kServed) : u32(claim.kind);
}

// ---- handshakes

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
