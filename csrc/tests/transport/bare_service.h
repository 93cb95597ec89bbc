// A service that only has methods: nothing to do in a turn, or before a sleep. For tests and benchmarks.
#pragma once
#include "transport/net/limits.h"
#include "transport/rpc/service.h"

namespace fastqps::test {

class BareService : public Service {
 public:
  void on_attach(Transport& attached) override { transport = &attached; }
  void on_turn(u64) override {}
  void on_flushed() override {}
  u64 next_wakeup_ns() override { return kNever; }
  bool about_to_sleep() override { return true; }
  void awake() override {}
  bool may_accept(u32) override { return true; }

  Transport* transport = nullptr;
};

}  // namespace fastqps::test
