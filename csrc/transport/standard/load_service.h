// xds.service.orca.v3.OpenRcaService: the load report as a stream, for clients that balance and whose calls are few or
// long. As gRFC A51 says: the first report at once, then one in each interval, always the whole state.
#pragma once
#include <vector>

#include "transport/net/limits.h"
#include "transport/rpc/methods.h"
#include "transport/rpc/service.h"
#include "transport/standard/load_report.h"

namespace fastqps::transport {

class LoadService final : public Method {
 public:
  void add_methods(MethodTable& methods);

  LoadService(Transport& transport, LoadReports& reports, StandingLimit limit)
      : transport_(transport), reports_(reports), limit_(limit) {}
  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override;
  Gone on_gone(CallId call, u64) override;
  // Ends a stream, so that its connection can go.
  void on_retire(CallId call) override;
  // Once a turn: sends what is due.
  void on_turn(u64 now_ns) {
    if (now_ns >= due_ns_) send_due(now_ns);
  }
  // When on_turn has something to do; ~0: never.
  u64 due_ns() const { return due_ns_; }

 private:
  struct Stream {
    CallId call;
    ConnectionId connection;
    u64 interval_ns, due_ns;
  };
  void open(CallId call, ConnectionId connection, u64 interval_ns, u64 now_ns);
  void send_due(u64 now_ns);
  void send_report(CallId call, u64 now_ns);

  Transport& transport_;
  LoadReports& reports_;
  const StandingLimit limit_;
  std::vector<Stream> streams_;
  u64 due_ns_ = ~u64(0);
};

}  // namespace fastqps::transport
