// Where one thread writes down what happens: at once into its tally and the current interval. Only finished intervals
// are handed to another thread.
#pragma once
#include <deque>
#include <mutex>

#include "connection/call.h"
#include "options.h"
#include "record/tally.h"
#include "schedule.h"

namespace loadgen {

class Recorder {
 public:
  explicit Recorder(const Options& options);

  // Instants on the clock: the start of the run, and the window that is measured.
  void begin(const Load& load, i64 start_ns);
  void window_ends_at(i64 instant_ns) { until_ns_ = std::min(until_ns_, instant_ns); }

  // The sample and the comparison are decided on when a call starts, because its answer has to be kept then.
  void started(Call& call, i64 now);
  // The last byte of the request goes to the socket. idle_ns: when the thread last had nothing to do.
  void written(Call& call, i64 now, i64 idle_ns);
  // True if the call was measured.
  bool ended(Call& call, Outcome outcome, i64 now);
  void unsent(const Arrival& arrival, Outcome outcome, i64 now);
  void message(const Call& call, i64 now);

  i64 interval_end_ns() const { return interval_end_ns_; }
  // At its end, or (`now` earlier) at the end of the run.
  void close_interval(i64 now, u64 due_so_far, u64 in_flight, u64 waiting);

  Tally tally;

  std::mutex mutex;  // over the two below; Engine::poll takes from them
  std::deque<Interval> finished;
  bool all_finished = false;

 private:
  bool in_window(i64 instant_ns) const { return instant_ns >= from_ns_ && instant_ns < until_ns_; }
  void count(Outcome outcome);
  void measured(Call& call, Outcome outcome, i64 now);
  void keep(Call& call, Outcome outcome);
  void log(i64 intended_ns, u32 payload, Outcome outcome, i64 now);

  const Options& options_;
  bool closed_ = false;
  i64 start_ns_ = 0, from_ns_ = 0, until_ns_ = 0;
  u64 starts_ = 0, samples_ = 0, sample_bytes_ = 0, samples_max_, sample_bytes_max_;

  Interval current_;
  i64 interval_end_ns_ = kNever;
  u64 due_before_ = 0;
  std::vector<u32> responses_;  // of the interval, in the layout of the histogram
  OutcomeCounts interval_outcomes_{};
};

}  // namespace loadgen
