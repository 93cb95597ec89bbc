#include <pybind11/numpy.h>

#include "bind/bind.h"

namespace py = pybind11;

namespace loadgen {
namespace {

template <class Pairs>
py::dict outcomes_of(const Pairs& pairs) {
  py::dict found;
  for (const auto& [outcome, n] : pairs) found[py::str(outcome_name(outcome))] = n;
  return found;
}

py::dict outcomes_of(const OutcomeCounts& counts) {
  SparseCounts pairs;
  for (u32 i = 0; i < kOutcomes; i++)
    if (counts[i]) pairs.emplace_back(i, counts[i]);
  return outcomes_of(pairs);
}

py::list to_list(const std::vector<Sample>& samples) {
  py::list found;
  for (const Sample& sample : samples) {
    py::dict entry;
    entry["payload"] = sample.payload;
    entry["answer"] = py::bytes(sample.answer);
    found.append(entry);
  }
  return found;
}

py::dict to_dict(const std::vector<CallRecord>& calls) {
  const auto n = py::ssize_t(calls.size());
  py::array_t<i64> intended(n), end(n);
  py::array_t<u32> payload(n), outcome(n);
  for (py::ssize_t i = 0; i < n; i++) {
    const CallRecord& call = calls[size_t(i)];
    intended.mutable_data()[i] = call.intended_ns;
    end.mutable_data()[i] = call.end_ns;
    payload.mutable_data()[i] = call.payload;
    outcome.mutable_data()[i] = call.outcome;
  }
  py::dict found;
  found["intended_ns"] = intended;
  found["end_ns"] = end;
  found["payload"] = payload;
  found["outcome"] = outcome;
  return found;
}

py::list connections_of(const Engine& engine) {
  const u32 threads = engine.options().threads;
  py::list found;
  for (u32 i = 0; i < engine.options().connections; i++) {
    const Connection& connection = *engine.workers()[i % threads]->connections()[i / threads];
    py::dict entry;
    entry["sent"] = connection.sent;
    entry["connects"] = connection.connects;
    entry["losses"] = outcomes_of(connection.losses);
    found.append(entry);
  }
  return found;
}

py::list threads_of(const Engine& engine) {
  py::list found;
  for (size_t i = 0; i < engine.workers().size(); i++) {
    const Worker& worker = *engine.workers()[i];
    py::dict entry;
    entry["cpu_s"] = double(worker.used().cpu_ns) / 1e9;
    entry["wall_s"] = double(worker.used().wall_ns) / 1e9;
    entry["slept_s"] = double(worker.slept_ns()) / 1e9;
    entry["run_delay_s"] = double(worker.used().run_delay_ns) / 1e9;
    entry["cpu"] = engine.options().cpus.empty() ? -1 : engine.options().cpus[i];
    found.append(entry);
  }
  return found;
}

}  // namespace

py::dict to_dict(const Histogram& histogram) {
  py::dict found;
  found["counts"] = py::array_t<u64>(py::ssize_t(histogram.counts.size()), histogram.counts.data());
  found["count"] = histogram.count;
  found["sum_ns"] = histogram.sum;
  found["max_ns"] = histogram.largest;
  found["min_ns"] = histogram.smallest;
  return found;
}

py::dict to_dict(const Interval& interval) {
  const auto n = py::ssize_t(interval.response.size());
  py::array_t<u32> indexes(n);
  py::array_t<u64> counts(n);
  for (py::ssize_t i = 0; i < n; i++) {
    indexes.mutable_data()[i] = interval.response[size_t(i)].first;
    counts.mutable_data()[i] = interval.response[size_t(i)].second;
  }
  py::dict found;
  found["index"] = interval.index;
  found["end_ns"] = interval.end_ns;
  found["due"] = interval.due;
  found["sent"] = interval.sent;
  found["outcomes"] = outcomes_of(interval.outcomes);
  found["in_flight"] = interval.in_flight;
  found["waiting"] = interval.waiting;
  found["own_lateness_max_ns"] = interval.own_lateness_max;
  found["response_indexes"] = indexes;
  found["response_counts"] = counts;
  return found;
}

py::dict result_of(Engine& engine) {
  const RunResult& run = engine.result();
  const Tally& tally = run.tally;
  py::dict found;
  found["start_unix_ns"] = run.start_unix_ns;
  found["stopped"] = run.stopped;
  found["measure_from_ns"] = run.measure_from_ns;
  found["measure_until_ns"] = run.measure_until_ns;
  found["outcomes_all"] = outcomes_of(tally.outcomes_all);
  found["outcomes"] = outcomes_of(tally.outcomes);
  for (const auto& [name, count] : kTallyCounts) found[name] = tally.*count;
  for (const auto& [name, time] : kTallyTimes) found[name] = to_dict(tally.*time);
  found["samples"] = to_list(tally.samples);
  found["calls"] = to_dict(tally.calls);
  found["connections"] = connections_of(engine);
  found["threads"] = threads_of(engine);
  return found;
}

}  // namespace loadgen
