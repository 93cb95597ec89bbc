// A listening socket that all front doors share. The clients' sockets are polled only while this door should accept
// more connections. The internal one, for the server's own calls, is always polled.
#pragma once
#include "contract/types.h"
#include "transport/net/channel.h"
#include "transport/net/places.h"

namespace fastqps::transport {

struct NetState;

class Listener {
 public:
  // fd: -1: none.
  Listener(NetState& net, int fd, Entrance entrance);
  ~Listener();

  // Each turn: asks whether to accept, polls the socket or stops polling it.
  void update();
  // The socket is readable: accepts at least one connection and at most a turn's.
  void accept_some();
  // Stops for good.
  void close();
  // When update() should be called again, though nothing happens.
  u64 due() const;

 private:
  void poll(bool on);
  bool accept_one();
  void take(int fd, const Peer& peer);
  bool listening();

  NetState& net_;
  int fd_;
  const Entrance entrance_;
  bool polled_ = false, listening_ = false;
  u64 paused_until_ns_ = 0;  // after EMFILE and its kind
};

}  // namespace fastqps::transport
