// An engine's run as the tests need it: made, driven to its end, and its ledger checked.
#pragma once
#include <functional>
#include <map>

#include "csrc/tests/check.h"
#include "engine.h"

namespace loadgen {

// The end of a wait for what will come, on a machine that is slow or stands still: no measure of anything.
inline constexpr i64 kPatienceNs = 60 * kSecond;

struct Named : std::map<std::string, u64> {
  using map::map;
  u64 of(const std::string& name) const { return contains(name) ? at(name) : 0; }
};

inline Named named(const OutcomeCounts& counts) {
  Named found;
  for (u32 i = 0; i < kOutcomes; i++)
    if (counts[i]) found[outcome_name(i)] = counts[i];
  return found;
}
inline u64 sum(const OutcomeCounts& counts) {
  u64 all = 0;
  for (const u64 n : counts) all += n;
  return all;
}
inline std::ostream& operator<<(std::ostream& out, const Named& counts) {
  for (const auto& [name, n] : counts) out << name << "=" << n << " ";
  return out;
}

// Whether one of a few runs went as a machine lets it that does not stand still meanwhile: for what is measured.
inline bool once_in(int runs, const std::function<bool()>& run) {
  for (int i = 0; i < runs; i++)
    if (run()) return true;
  return false;
}

inline Options options_for(u16 port) {
  Options options;
  options.host = "127.0.0.1";
  options.port = port;
  options.path = "/test.Service/Call";
  options.payloads = {"payload number one", "two", ""};
  return options;
}

class Drive {
 public:
  explicit Drive(Options options) : engine(std::move(options)) {}

  // `count` calls, one every `gap_ns`.
  void start(u32 count, i64 gap_ns, i64 deadline_ns = 0) {
    for (u32 i = 0; i < count; i++) {
      times.push_back(i64(i) * gap_ns);
      payload_index.push_back(i % u32(engine.options().payloads.size()));
    }
    load.times = times;
    load.payload_index = payload_index;
    load.deadline = deadline_ns;
    CHECK(engine.connect(kPatienceNs));
    engine.start(load);
  }
  void start_closed(u32 in_flight, i64 duration_ns) {
    for (u32 i = 0; i < engine.options().payloads.size(); i++) payload_index.push_back(i);
    load.payload_index = payload_index;
    load.closed = true;
    load.in_flight = in_flight;
    load.duration = duration_ns;
    CHECK(engine.connect(kPatienceNs));
    engine.start(load);
  }
  // Every arrival has one end, in the total and in the intervals.
  const RunResult& finish() {
    CHECK(engine.wait(2 * kPatienceNs));
    const RunResult& run = engine.result();
    CHECK_EQ(sum(run.tally.outcomes_all), run.tally.due_all);
    CHECK_EQ(sum(run.tally.outcomes), run.tally.due);
    u64 due = 0, ended = 0;
    for (const Interval& interval : engine.poll()) {
      due += interval.due;
      for (const auto& [outcome, n] : interval.outcomes) ended += n;
    }
    CHECK_EQ(due, run.tally.due_all);
    CHECK_EQ(ended, run.tally.due_all);
    return run;
  }
  Named outcomes() { return named(finish().tally.outcomes_all); }
  // So many, all of them OK.
  const Tally& finish_ok(u64 count) {
    const Tally& tally = finish().tally;
    CHECK_EQ(named(tally.outcomes_all), (Named{{"OK", count}}));
    return tally;
  }

  Engine engine;
  Load load;
  std::vector<i64> times;
  std::vector<u32> payload_index;
};

// The same in one line.
inline Named run(Options options, u32 count, i64 gap_ns = kMillisecond, i64 deadline_ns = 0) {
  Drive drive(std::move(options));
  drive.start(count, gap_ns, deadline_ns);
  return drive.outcomes();
}

}  // namespace loadgen
