// One run of the load generator: connect, start, poll, wait, result. Its methods may be called from any one thread.
#pragma once
#include <functional>
#include <optional>
#include <stdexcept>

#include "worker.h"

namespace loadgen {

// No connection could be made; what() says why.
struct ConnectError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RunResult {
  i64 start_monotonic_ns = 0, start_unix_ns = 0;
  i64 measure_from_ns = 0, measure_until_ns = 0;
  bool stopped = false;
  Tally tally;
};

class Engine {
 public:
  explicit Engine(Options options);
  ~Engine();

  // Throws ConnectError, or std::system_error when a thread cannot be pinned; returns false when `interrupted` said so.
  bool connect(i64 timeout_ns, const std::function<bool()>& interrupted = {});
  // The load's arrays live as long as the engine. Throws std::invalid_argument, std::logic_error.
  void start(const Load& load);
  void stop(std::optional<i64> grace_ns = {});
  // Waits until the run has ended, at most so long; whether it has.
  bool wait(i64 timeout_ns);
  std::vector<Interval> poll();
  // After the end.
  const RunResult& result();

  const Options& options() const { return options_; }
  const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }

 private:
  std::vector<Address> resolve() const;
  void dismiss();
  bool ended() const { return board_.ended == workers_.size(); }

  const Options options_;
  std::shared_ptr<const ClientTls> tls_;
  Board board_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Load load_;
  bool started_ = false, merged_ = false;
  i64 stop_ns_ = kNever;
  RunResult result_;
};

}  // namespace loadgen
