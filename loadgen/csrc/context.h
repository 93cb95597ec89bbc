// What the connections of one thread share.
#pragma once
#include <nghttp2/nghttp2.h>

#include <memory>
#include <vector>

#include "connection/call.h"
#include "connection/request_headers.h"
#include "h2client/address.h"
#include "h2client/client_tls.h"
#include "record/recorder.h"
#include "transport/net/timer_wheel.h"

namespace loadgen {

using fastqps::h2client::Address, fastqps::h2client::ClientTls;

// Where the server listens, and what TLS connections to it begin with; nullptr: there is no TLS.
struct Target {
  std::vector<Address> addresses;
  std::shared_ptr<const ClientTls> tls;
};

struct Free;

struct Context {
  Context(const Options& options, u32 thread, Target target, i64 now)
      : options(options),
        thread(thread),
        target(std::move(target)),
        recorder(options),
        timers(u64(now)),
        headers(options),
        now(now) {}

  const Options& options;
  const u32 thread;
  const Target target;
  int epoll = -1;
  Recorder recorder;
  Pool<Call> calls;
  fastqps::transport::TimerWheel timers;
  List<Connection, Free> free;     // those that can take a call; they take turns
  std::vector<Connection*> dirty;  // have something to write
  RequestHeaders headers;
  i64 now;               // as of the last look at the clock
  i64 slept = 0;         // in all
  i64 tick_ns = kNever;  // when a connection has to be made, or its making has failed
  u64 open = 0;          // calls that were started and have not ended
  u32 ready = 0;         // connections that stand
  i64 idle_ns = 0;       // when the thread last had nothing to do but wait
  i64 blocked_ns = 0;    // the same, and arrivals were due that no connection took: the server held them up until then
  bool running = false;
  bool unread = false;  // a connection has more to read than its turn allows
  Outcome down = kOk;   // why the last attempt to connect failed; kOk since one succeeded
};

}  // namespace loadgen
