// The places of a loop's connections. When all of them are taken, or all that one peer may have, one of those that
// nothing is owed to makes room for each newcomer. So clients that only hold connections keep nobody out.
#pragma once
#include <map>

#include "transport/net/peer.h"
#include "transport/net/place_claim.h"

namespace fastqps::transport {

class Connection;
struct NetState;

class Places {
 public:
  explicit Places(NetState& net);

  // Counts a newcomer in. False: there is no place, and nobody can make room.
  bool enter(const Peer& peer);
  void leave(const Peer& peer);

 private:
  bool make_room(const Peer* of);
  Connection* weakest(const Peer* of);
  bool weaker(const PlaceClaim& a, const PlaceClaim& b) const;
  u32 rank(const PlaceClaim& claim) const;

  NetState& net_;
  u32 most_, most_of_peer_;
  u32 taken_ = 0;
  std::map<Peer, u32>
      of_peer_;   // how many; ordered, because no choice of addresses makes its work more than a few steps
  u32 next_ = 0;  // the index of the connection that the next look begins with
};

}  // namespace fastqps::transport
