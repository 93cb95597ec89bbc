// A queue with one server, in virtual time: nothing is computed, each job only gets the instant at which it would be
// done.
#pragma once
#include <algorithm>
#include <random>

#include "server/server_options.h"

namespace loadgen {

class SingleQueue {
 public:
  explicit SingleQueue(const ServerOptions& options)
      : law_(options.law), service_ns_(options.service_ns), random_(options.seed) {}

  // When the job that arrives now is done. Jobs come in the order of their arrival.
  i64 add(i64 now) {
    if (law_ == Law::kNone) return now;
    free_ns_ = std::max(free_ns_, now) + service();
    return free_ns_;
  }

 private:
  i64 service() { return law_ == Law::kConstant ? service_ns_ : i64(double(service_ns_) * exponential_(random_)); }
  const Law law_;
  const i64 service_ns_;
  std::mt19937_64 random_;
  std::exponential_distribution<double> exponential_{1.0};
  i64 free_ns_ = 0;
};

}  // namespace loadgen
